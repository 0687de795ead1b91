"""Shared by the tests of plans: those that a call makes, and the tasks that one of a sort means."""

from __future__ import annotations

import math

from dask_gpusort.graph.explain import _built
from dask_gpusort.plan import counting


def plans_of(build, *arguments, **options):
    """The plans that a builder makes: its own, then those of its steps."""
    _, noted = _built(build, *arguments, **options)
    return [plan for plan, *_ in noted if plan is not None]


def num_tasks(plan):
    """Tasks of a sort with one output array, without those that make the input."""
    runs, groups = len(plan.runs), len(plan.groups)
    if plan.exchange == "join":
        return 1 + len(plan.chunks)
    if plan.exchange == "gang":
        members = 0 if plan.groups_are_chunks else len(plan.sources)
        joined = members if not plan.all_have_chunks else members and not plan.known
        return members + joined + len(plan.chunks)
    merges = groups - len(plan.whole_chunks)
    if plan.by_tasks:
        bundles = len(plan.sources) * (2 + groups + plan.cut_first)
        return bundles + plan.scans + merges + len(plan.awaited) + len(plan.chunks)
    if plan.sorts_last:
        return 1 + runs + 1 + groups + len(plan.chunks)
    lists = 1 + (plan.exchange == "gather")
    if plan.candidates:
        lists += runs + counting.count_sums(runs)
        lists += 1 if plan.exchange == "gather" else 2 + math.ceil(runs / counting.FAN_IN)
    return runs + lists + merges + len(plan.chunks)
