"""Shared by the tests of plans: those that a call makes, and the tasks that one of a sort means."""

from __future__ import annotations

import math

from dask_gpusort.builders.global_sort import _pace
from dask_gpusort.graph.explain import _built
from dask_gpusort.plan import Plan, counting


def plans_of(build, *arguments, **options):
    """The plans that a builder makes: its own, then those of its steps."""
    _, noted = _built(build, *arguments, **options)
    return [plan for plan, _ in noted if plan != Plan()]


def num_tasks(plan):
    """Tasks of a sort with one output array, without those that make the input."""
    runs, groups = len(plan.runs), len(plan.groups)
    if plan.exchange == "join":
        return 1 + len(plan.chunks)
    if plan.exchange == "gang":
        whole = all(last - first == parts == 1 for first, last, _, parts in plan.groups)
        members = len(plan.sources)
        joined = 0 if all(first < last for first, last, *_ in plan.groups) else members
        return (0 if whole else members) + joined + len(plan.chunks)
    if plan.sorts_last:
        return 1 + runs + 1 + groups + len(plan.chunks)
    alone = sum(last - first == parts == 1 for first, last, _, parts in plan.groups)
    merges = groups if plan.exchange == "gather" else groups - alone
    if plan.by_tasks:
        pace = _pace(plan)
        turns = pace.awaited_by(groups - 1).stop if groups else 0
        return len(plan.sources) * (2 + groups + plan.cut_first) + 1 + merges + turns + len(plan.chunks)
    lists = 1
    if plan.candidates:
        lists += runs + 2 + counting.count_sums(runs) + math.ceil(runs / counting.FAN_IN)
    return runs + lists + merges + len(plan.chunks)
