"""The plan of distinct keys."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.marks import for_each
from support.peaks import peak_of

from dask_gpusort.chunk.distinct import Columns, find_distinct
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers
from dask_gpusort.plan.sets import divide_distinct, make_distinct_plan

ALL = Columns(counts=True, firsts=True, inverse=True)


def test_strategy():
    assert make_distinct_plan([10], 8, ALL, joins=True).where == "blocks"
    assert make_distinct_plan([10, 20], 8, ALL, joins=True).where == "join"
    assert make_distinct_plan([10, 20], 8, ALL, joins=False).where == "exchange"


def divide(sizes, columns=ALL, dtype="i8", exchange="gather", threads=2, groups=None, second=None, held=1):
    order, workers = Order(np.dtype(dtype), stable=True), Workers(threads)
    given = InputChunks(sizes, workers=[f"worker {number % held}" for number in range(len(sizes))])
    return divide_distinct(order, given, columns, exchange, workers, groups, second)


@given(
    st.lists(st.integers(0, 1 << 20) | st.just(math.nan), min_size=1, max_size=30),
    st.sampled_from([Columns(), Columns(counts=True), ALL]),
    st.sampled_from(["i8", "f4", "S8"]),
    st.sampled_from(["gather", "runs", "tasks"]),
    st.integers(1, 9),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(0, 30),
    st.integers(1, 3),
)
def test_parts_have_each_chunk_once_and_one_side(sizes, columns, dtype, exchange, threads, groups, second, held):
    division = divide(sizes, columns, dtype, exchange, threads, groups, second, held)
    assert sorted(chunk for part in division.parts for chunk in part) == list(range(len(sizes)))
    assert [part[0] for part in division.parts] == sorted(part[0] for part in division.parts)
    for part in division.parts:
        assert second is None or part[-1] < second or part[0] >= second
        assert not columns.firsts or list(part) == list(range(part[0], part[-1] + 1))
    assert division.groups == groups or (groups is None and division.groups >= 1)
    assert division.samples >= 1


def test_parts_are_in_the_order_of_their_first_chunks():
    assert divide([1 << 20] * 4, exchange="tasks", held=2).parts == ((0,), (1,), (2,), (3,))
    assert divide([1 << 20] * 4, Columns(), exchange="tasks", held=2).parts == ((0, 2), (1, 3))


def test_one_task_can_list_all_rows():
    assert divide([1 << 20] * 10_000, exchange="tasks", groups=10_000).groups * 10_000 > 1 << 24
    assert divide([1 << 26] * 10_000, exchange="runs", groups=10_000).groups == (1 << 24) // 10_000


def test_bytes_of_distinct_keys():
    plan = make_distinct_plan([10] * 300, 4, ALL, joins=False)
    assert plan.row_bytes == 4 + 4 + 8
    assert plan.back_bytes == 4
    assert make_distinct_plan([10, 1 << 31], 4, ALL, joins=False).back_bytes == 8
    for largest in (1 << 32, math.nan):
        assert make_distinct_plan([10, largest], 4, ALL, joins=False).row_bytes == 4 + 8 + 8
    alone = make_distinct_plan([10] * 300, 4, Columns(), joins=False)
    assert (alone.row_bytes, alone.back_bytes) == (4, 0)
    assert alone.stated.peak < plan.stated.peak
    assert (
        make_distinct_plan([10, 30], 4, ALL, False).stated.peak * 4
        == 3 * make_distinct_plan([40], 4, ALL, False).stated.peak
    )
    assert math.isnan(make_distinct_plan([10, math.nan], 4, ALL, False).stated.peak)


@for_each(product(["i2", "i4", "i8", "f8"], [2, 10, 30_000, 1 << 40], [Columns(), Columns(counts=True), ALL]))
def test_projected_bytes_bound_a_step(dtype, values, columns):
    keys = np.random.default_rng(0).integers(0, min(values, np.iinfo("i2").max), 100_000)
    keys = (keys * (values // np.iinfo("i2").max + 1)).astype(dtype)
    plan = make_distinct_plan([len(keys)] * 2, keys.dtype.itemsize, columns, joins=False)
    peak = peak_of(lambda: find_distinct(keys, Order(keys.dtype, stable=True), columns, True))
    assert plan.stated.peak / 8 < peak <= plan.stated.peak


def test_text():
    def planned(sizes, **options):
        return make_distinct_plan(sizes, 8, ALL, **options).stated

    text = planned([1000] * 4, joins=False, division=divide([1000] * 4)).text
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert list(lines) == ["keys", "strategy", "groups", "moves", "steps"]
    assert lines["keys"] == "4,000 in 4 chunks"
    assert lines["groups"] == "exchange gather, 2 parts, 1 group, sizes unknown"
    assert "20 bytes each" in lines["moves"]
    assert "4 bytes for each go back" in lines["moves"]
    assert "moves     nothing" in planned([1000], joins=False).text
    joined = planned([1000] * 4, joins=True)
    assert "one memory" in joined.text
    assert not joined.notes
