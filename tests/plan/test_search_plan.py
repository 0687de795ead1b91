"""Tests of the plan of a search."""

from __future__ import annotations

import math

import pytest

from dask_gpusort.plan import Workers
from dask_gpusort.plan.search import GROUP_SHARE, JOINED_SHARE, make_search_plan

GIB = 1 << 30


def test_keys_that_fit_are_joined():
    for workers, memory in ((Workers(2, GIB), None), (Workers(2), GIB), (Workers(2), None)):
        plan = make_search_plan([GIB // 8] * 2, [1, 2, 3], workers, memory, None)
        assert plan.groups == ((0, 1),)
        assert plan.joined
        assert plan.bundles == ()
    assert JOINED_SHARE == 1 / 4


@pytest.mark.parametrize(("workers", "memory"), [(Workers(2, GIB), None), (Workers(4), 4 * GIB)])
def test_others_are_in_groups_that_fit(workers, memory):
    keys, needles = [20 << 20] * 100, [8 << 20] * 30
    plan = make_search_plan(keys, needles, workers, memory, None)
    limit = GROUP_SHARE * GIB
    for chunks, sizes in ((plan.groups, keys), (plan.bundles, needles)):
        assert [chunk for group in chunks for chunk in group] == list(range(len(sizes)))
        totals = [sum(sizes[chunk] for chunk in group) for group in chunks]
        assert max(totals) <= limit
        assert min(totals[:-1]) > limit - sizes[0]


def test_the_number_of_tasks_does_not_follow_that_of_chunks():
    few = make_search_plan([8 << 20] * 200, [8 << 20] * 200, Workers(2, GIB), None, None)
    many = make_search_plan([1 << 20] * 1600, [1 << 20] * 1600, Workers(2, GIB), None, None)
    assert (len(few.groups), len(few.bundles)) == (len(many.groups), len(many.bundles))


def test_neighbours_are_looked_up_together_in_one_memory():
    plan = make_search_plan([8] * 4, [1 << 20] * 64, Workers(2), None, None, one_memory=True)
    assert plan.joined
    assert [len(bundle) for bundle in plan.bundles] == [4] * 16
    for workers in (Workers(64), Workers(1, GIB, devices=True)):
        assert make_search_plan([8] * 4, [1 << 20] * 64, workers, None, None, one_memory=True).bundles == ()


def test_asked_groups_and_unknown_sizes():
    assert len(make_search_plan([10] * 12, [1] * 3, Workers(2, GIB), None, 4).groups) == 4
    assert make_search_plan([math.nan] * 3, [math.nan], Workers(2, GIB), None, None).joined
    plan = make_search_plan([math.nan] * 3, [math.nan] * 2, Workers(2, GIB), None, 2)
    assert plan.groups == ((0,), (1,), (2,))
    assert plan.bundles == ((0,), (1,))
