"""The plan of distinct keys."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from support.marks import for_each
from support.peaks import peak_of

from dask_gpusort.chunk.distinct import Columns, find_distinct
from dask_gpusort.order import Order
from dask_gpusort.plan.sets import describe_distinct, make_distinct_plan

ALL = Columns(origins=True, counts=True, firsts=True, inverse=True)


def test_strategy():
    assert make_distinct_plan([10], 8, ALL, joins=True).strategy == "blocks"
    assert make_distinct_plan([10, 20], 8, ALL, joins=True).strategy == "join"
    assert make_distinct_plan([10, 20], 8, ALL, joins=False).strategy == "sort"


def test_origins_are_kept_where_chunks_are_sorted_together():
    assert make_distinct_plan([10, 20], 8, ALL, joins=False).columns.origins
    for sizes, joins in (([10], False), ([10, 20], True)):
        plan = make_distinct_plan(sizes, 8, ALL, joins)
        assert not plan.columns.origins
        assert plan.columns.inverse
        assert plan.back_bytes == 0


def test_bytes_of_distinct_keys():
    plan = make_distinct_plan([10] * 300, 4, ALL, joins=False)
    assert plan.row_bytes == 4 + 2 + 8 + 8
    assert plan.back_bytes == 2 + 8
    alone = make_distinct_plan([10] * 300, 4, Columns(), joins=False)
    assert (alone.row_bytes, alone.back_bytes) == (4, 0)
    assert alone.projected_bytes < plan.projected_bytes
    assert (
        make_distinct_plan([10, 30], 4, ALL, False).projected_bytes * 4
        == 3 * make_distinct_plan([40], 4, ALL, False).projected_bytes
    )
    assert math.isnan(make_distinct_plan([10, math.nan], 4, ALL, False).projected_bytes)


@for_each(product(["i2", "i4", "i8", "f8"], [2, 10, 30_000, 1 << 40], [Columns(), Columns(counts=True), ALL]))
def test_projected_bytes_bound_a_step(dtype, values, columns):
    keys = np.random.default_rng(0).integers(0, min(values, np.iinfo("i2").max), 100_000)
    keys = (keys * (values // np.iinfo("i2").max + 1)).astype(dtype)
    plan = make_distinct_plan([len(keys)] * 2, keys.dtype.itemsize, columns, joins=False)
    peak = peak_of(lambda: find_distinct(keys, Order(keys.dtype, stable=True), columns, True))
    assert plan.projected_bytes / 8 < peak <= plan.projected_bytes


def test_text():
    text = describe_distinct(make_distinct_plan([1000] * 4, 8, ALL, joins=False)).text
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert list(lines) == ["keys", "strategy", "moves"]
    assert lines["keys"] == "4,000 in 4 chunks"
    assert "25 bytes each" in lines["moves"]
    assert "9 bytes for each go back" in lines["moves"]
    assert "moves     nothing" in describe_distinct(make_distinct_plan([1000], 8, ALL, joins=False)).text
    joined = describe_distinct(make_distinct_plan([1000] * 4, 8, ALL, joins=True))
    assert "one memory" in joined.text
    assert not joined.notes
