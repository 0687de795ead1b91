"""The plan of ranks."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.marks import for_each
from support.peaks import peak_of

from dask_gpusort.builders.ranks import plan_ranks
from dask_gpusort.chunk.distinct import Columns
from dask_gpusort.chunk.memory import USABLE_FRACTION
from dask_gpusort.chunk.tie_groups import METHODS, Ranking, rank_rows
from dask_gpusort.order import Order
from dask_gpusort.plan.choose import LANES_BYTES, Lanes, choose
from dask_gpusort.plan.memory import device_bytes, distinct_bytes, fits_join, join_bytes, joined_bytes
from dask_gpusort.plan.sets import make_distinct_plan
from dask_gpusort.plan.terms import InputChunks, Workers

MIB = 1 << 20
ROWS = Lanes(count=1000, keys=5000, in_chunk=100, chunks=10, blocks=10, itemsize=8, limit=128 * MIB, searchable=True)
LANE = replace(ROWS, count=1, keys=10**9, in_chunk=1, blocks=1)


@pytest.mark.parametrize(
    ("lanes", "flat", "joins", "wanted"),
    [
        (replace(ROWS, chunks=1), False, True, "blocks"),
        (replace(LANE, chunks=1), True, False, "blocks"),
        (ROWS, False, True, "join"),
        (LANE, True, True, "join"),
        (ROWS, False, False, "rechunk"),
        (replace(ROWS, count=math.nan), False, False, "rechunk"),
        (replace(ROWS, keys=10**9), False, False, "exchange"),
        (LANE, True, False, "exchange"),
        # A chunk is never made of several ones in one dimension, where the sizes may be unknown.
        (replace(LANE, keys=100), True, False, "exchange"),
        (replace(LANE, keys=math.nan), True, False, "exchange"),
        (replace(LANE, keys=math.nan), False, False, "rechunk"),
    ],
)
def test_strategy(lanes, flat, joins, wanted):
    where, _ = choose(lanes, "distinct" if flat else "sort", joins=joins)
    assert where == plan_ranks(lanes, flat, joins).where == wanted


def test_chunks_of_whole_lanes():
    assert ROWS.whole_bytes("join") == ROWS.bytes
    assert replace(ROWS, chunks=1).whole_bytes("blocks") == ROWS.bytes / 10
    # Chunks are joined where that makes no large ones.
    assert ROWS.whole_bytes("rechunk") == ROWS.bytes / 10
    tall = replace(ROWS, keys=50_000, chunks=100, blocks=1)
    assert tall.whole_bytes("rechunk") == LANES_BYTES
    assert replace(tall, count=10, keys=8 * MIB).whole_bytes("rechunk") == 64 * MIB


@for_each(product(["i2", "f4", "i8", "f8"], [1, 10, 30_000], [(100_000,), (1000, 100)], METHODS))
def test_projected_bytes_bound_a_step(dtype, values, shape, method):
    keys = np.random.default_rng(0).integers(0, values, shape).astype(dtype)
    lanes = Lanes(keys.size // shape[-1], shape[-1], 1, 1, 1, keys.dtype.itemsize, 128 * MIB, True)
    plan = plan_ranks(lanes, False, False)
    peak = peak_of(lambda: rank_rows(keys, Ranking(method, "propagate", False), -1))
    assert plan.peak / 4 < peak <= plan.peak


def test_text():
    lines = dict(line.split(maxsplit=1) for line in plan_ranks(ROWS, False, False).text.splitlines())
    assert list(lines) == ["lanes", "strategy", "moves", "steps"]
    assert lines["lanes"] == "1,000 of 5,000 keys, each in 10 chunks"
    assert "fit one of 128.00 MiB" in lines["strategy"]
    assert lines["moves"] == "every key once, 38.15 MiB, and what is found of it"
    assert lines["steps"] == "rank 40.05 MiB"
    assert "moves     nothing" in plan_ranks(replace(ROWS, chunks=1), False, False).text
    assert "one memory" in plan_ranks(ROWS, False, True).text
    assert "do not fit" not in plan_ranks(LANE, True, False).text
    assert "do not fit one of 128.00 MiB" in plan_ranks(replace(ROWS, keys=10**9), False, False).text


def test_a_join_on_a_gpu_holds_more_than_a_sort():
    order = Order(np.dtype("i8"), stable=True)
    task_bytes = {
        "sort": 0,
        "values": distinct_bytes(8, Columns()),
        "inverse": distinct_bytes(8, Columns(inverse=True)),
        "rank": device_bytes(8, "ranks"),
    }
    given = {task: InputChunks((1_000,) * 4, task_bytes=taken) for task, taken in task_bytes.items()}
    needs = {task: joined_bytes(order, chunks) for task, chunks in given.items()}
    assert list(needs) == sorted(needs, key=needs.get)
    for task, chunks in given.items():
        memory = int(needs[task] / USABLE_FRACTION)
        assert fits_join(order, chunks, Workers(1, memory + 1, devices=True))
        assert not fits_join(order, chunks, Workers(1, memory - 1, devices=True))


def test_peaks_on_a_gpu_are_those_of_a_join():
    order = Order(np.dtype("i8"), stable=True)
    assert plan_ranks(LANE, True, True, order).peak == join_bytes(
        order, InputChunks((LANE.keys,), task_bytes=device_bytes(8, "ranks"))
    )
    columns = Columns(inverse=True)
    distinct = make_distinct_plan([1_000] * 4, 8, columns, True, order)
    given = InputChunks((4_000,), task_bytes=distinct_bytes(8, columns))
    assert distinct.stated.peak == join_bytes(order, given)
