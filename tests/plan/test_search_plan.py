"""Tests of the plan of a search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.peaks import peak_of

from dask_gpusort.builders.searches import look_up_blocks
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.drivers.turns import Blocks
from dask_gpusort.functions.lookup import Question, join_keys
from dask_gpusort.order import Order
from dask_gpusort.plan import Workers
from dask_gpusort.plan.memory import TIED_BYTES, host_bytes
from dask_gpusort.plan.search import (
    GROUP_SHARE,
    JOIN_COPIES,
    JOINED_SHARE,
    Searched,
    choose_membership,
    make_search_plan,
)

GIB = 1 << 30


def planned(keys, needles, *args, **options):
    return make_search_plan(Searched(tuple(keys), tuple(needles)), *args, **options)


def test_keys_that_fit_are_joined():
    for workers, memory in ((Workers(2, GIB), None), (Workers(2), GIB), (Workers(2), None)):
        plan = planned([GIB // 8] * 2, [1, 2, 3], workers, memory, None)
        assert plan.groups == ((0, 1),)
        assert plan.joined
        assert plan.bundles == ()
    assert JOINED_SHARE == 1 / 4


@pytest.mark.parametrize(("workers", "memory"), [(Workers(2, GIB), None), (Workers(4), 4 * GIB)])
def test_others_are_in_groups_that_fit(workers, memory):
    keys, needles = [20 << 20] * 100, [8 << 20] * 30
    plan = planned(keys, needles, workers, memory, None)
    limit = GROUP_SHARE * GIB
    for chunks, sizes in ((plan.groups, keys), (plan.bundles, needles)):
        assert [chunk for group in chunks for chunk in group] == list(range(len(sizes)))
        totals = [sum(sizes[chunk] for chunk in group) for group in chunks]
        assert max(totals) <= limit
        assert min(totals[:-1]) > limit - sizes[0]


def test_the_number_of_tasks_does_not_follow_that_of_chunks():
    few = planned([8 << 20] * 200, [8 << 20] * 200, Workers(2, GIB), None, None)
    many = planned([1 << 20] * 1600, [1 << 20] * 1600, Workers(2, GIB), None, None)
    assert (len(few.groups), len(few.bundles)) == (len(many.groups), len(many.bundles))


def test_neighbours_are_looked_up_together_in_one_memory():
    plan = planned([8] * 4, [1 << 20] * 64, Workers(2), None, None, one_memory=True)
    assert plan.joined
    assert [len(bundle) for bundle in plan.bundles] == [8] * 8
    assert planned([8] * 4, [1 << 20] * 64, Workers(64), None, None, one_memory=True).bundles == ()


def test_all_needles_that_a_device_holds_are_looked_up_together():
    for memory, sizes in ((GIB, [64]), (256 << 20, [16] * 4), (1, [1] * 64)):
        plan = planned([8] * 4, [1 << 20] * 64, Workers(1, memory, devices=True), None, None, one_memory=True)
        assert [len(bundle) for bundle in plan.bundles] == sizes


def test_one_device_sorts_where_it_joins():
    for workers, sorts in ((Workers(1, GIB, devices=True), False), (Workers(1), True)):
        options = {"one_memory": True, "sorts": True}
        assert planned([8] * 4, [8] * 4, workers, None, None, **options).sorts == sorts
        assert planned([8] * 4, [8] * 4, workers, None, 2, **options).sorts
        # Keys of any number are few, or have a sorter: needles are looked up together all the same.
        few = planned([8] * 4, [1 << 20] * 64, workers, None, None, one_memory=True, whole="few")
        assert bool(few.bundles) != sorts


def test_asked_groups_and_unknown_sizes():
    assert len(planned([10] * 12, [1] * 3, Workers(2, GIB), None, 4).groups) == 4
    assert planned([math.nan] * 3, [math.nan], Workers(2, GIB), None, None).joined
    plan = planned([math.nan] * 3, [math.nan] * 2, Workers(2, GIB), None, 2)
    assert plan.groups == ((0,), (1,), (2,))
    assert plan.bundles == ((0,), (1,))


def test_test_elements_are_sorted_unless_they_are_few_or_objects():
    ints = Order(np.dtype("i8"))
    assert choose_membership(ints, np.dtype("i8"), 10) == "few"
    assert choose_membership(ints, np.dtype("i8"), 10**8) is None
    assert choose_membership(ints, np.dtype("i8"), math.nan) is None
    assert choose_membership(Order(np.dtype("O")), np.dtype("O"), 10**8) == "objects"


def test_all_keys_are_joined_where_all_are_needed():
    plan = planned([GIB] * 4, [8] * 3, Workers(2, GIB), None, 7, whole="sorter", one_memory=True)
    assert plan.groups == ((0, 1, 2, 3),)
    assert plan.bundles == ()


def test_moved_and_projected_bytes():
    joined = planned([800] * 10, [80] * 4, Workers(4, GIB, processes=2), None, None)
    assert joined.moved_bytes == 2 * 8000  # to each process
    assert joined.stated.peak == JOIN_COPIES * 8000
    many = planned([8], [8000] * 4, Workers(4, GIB, processes=2), None, None)
    assert many.stated.peak == 8 + 2 * 1000 * host_bytes("needles", 8)  # two threads of a worker
    groups = planned([800] * 10, [80] * 4, Workers(4, GIB, processes=2), None, 5)
    assert groups.moved_bytes == 8000 + 320 + 320
    assert groups.stated.peak == max(JOIN_COPIES * 1600, 5 * 320 + TIED_BYTES * 40)
    assert math.isnan(planned([800, math.nan], [80], Workers(2), None, None).stated.peak)


@pytest.mark.parametrize("values", [2, 99, 30_000])
@pytest.mark.parametrize("dtype", ["i2", "f4", "i8", "f8"])
def test_projected_bytes_bound_the_steps(dtype, values):
    keys, needles = (np.random.default_rng(seed).integers(0, values, 100_000).astype(dtype) for seed in (0, 1))
    searched = Searched((keys.nbytes,), (needles.nbytes,), needles.itemsize)
    plan = make_search_plan(searched, Workers(1, GIB), None, None)
    question = Question(Order(keys.dtype, stable=True), "left")
    keys.sort()
    joined = join_keys([keys], question)
    # The input is not counted.
    assert peak_of(lambda: join_keys([keys], question)) <= plan.stated.peak
    blocks = Blocks([needles], declared_chunks("the needles", needles.dtype, ((len(needles),),)))
    looked_up = peak_of(lambda: look_up_blocks(joined, blocks, question))
    assert plan.stated.peak / 3 < keys.nbytes + looked_up <= plan.stated.peak


def test_text():
    text = planned([GIB // 8] * 2, [1 << 20] * 3, Workers(2, GIB), None, None).stated.text
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert list(lines) == ["keys", "needles", "strategy", "moves", "steps"]
    assert lines["strategy"] == "join: all keys are one array, because they fit the 256.00 MiB that they may take"
    assert "to each process" in lines["moves"]
    text = planned([GIB] * 8, [GIB // 16] * 3, Workers(2, GIB), None, None, sorts=True).stated.text
    assert "groups: keys are 8 groups of chunks, because they do not fit" in text
    assert "8 chunks, sorted first" in text
    assert "3 bundles" in text
    for options, why in (
        ({"whole": "sorter"}, "a sorter"),
        ({"whole": "few"}, "few"),
        ({"whole": "objects"}, "objects"),
    ):
        assert why in planned([8], [8], Workers(2), None, None, **options).stated.text
    assert "unknown" in planned([math.nan], [8], Workers(2, GIB), None, None).stated.text
    assert "is set" in planned([8] * 2, [8], Workers(2, GIB), None, 2).stated.text
