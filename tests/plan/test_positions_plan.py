"""Tests of the plan of reads and writes at positions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.plan import Workers
from dask_gpusort.plan.positions import (
    PORTION_REQUESTS,
    Addressed,
    PositionsExchange,
    PositionsPlan,
    bundle_chunks,
    choose_addressing,
    largest_bytes,
    names_few_chunks,
)

MIB = 1 << 20

LONG = Addressed(chunks=64, size=64 * MIB, lanes=1, itemsize=8, indices=64 * MIB, limit=128 * MIB)


@pytest.mark.parametrize(
    ("array", "shared", "memory", "asked", "wanted"),
    [
        (replace(LONG, chunks=1), False, 0, "auto", ("blocks", "whole")),
        (LONG, True, 1024 * MIB, "auto", ("gather", "shared")),
        (LONG, True, math.inf, "auto", ("gather", "shared")),
        (LONG, True, 256 * MIB, "auto", ("exchange", "long")),
        (LONG, False, math.inf, "auto", ("exchange", "long")),
        (replace(LONG, indices=MIB), True, math.inf, "auto", ("exchange", "few")),
        (replace(LONG, indices=math.nan), True, math.inf, "auto", ("gather", "shared")),
        (replace(LONG, size=MIB, lanes=64), False, 0, "auto", ("rechunk", "fit")),
        (replace(LONG, size=MIB, lanes=64), True, 256 * MIB, "auto", ("rechunk", "fit")),
        (replace(LONG, size=MIB), False, math.inf, "auto", ("rechunk", "fit")),
        (replace(LONG, indices=MIB, index_bytes=16), True, 600 * MIB, "auto", ("gather", "shared")),
        (replace(LONG, index_bytes=16), True, 600 * MIB, "auto", ("exchange", "long")),
        (replace(LONG, size=0), False, 0, "auto", ("gather", "empty")),
        (replace(LONG, indices=0), True, math.inf, "tasks", ("gather", "empty")),
        (replace(LONG, size=math.nan), True, math.inf, "auto", ("blocks", "unknown")),
        (replace(LONG, lanes=math.nan), True, math.inf, "tasks", ("blocks", "unknown")),
        (replace(LONG, chunks=1), True, math.inf, "tasks", ("blocks", "whole")),
        (LONG, False, math.inf, "gather", ("gather", "asked")),
        (LONG, True, math.inf, "tasks", ("exchange", "asked")),
        (LONG, True, math.inf, "runs", ("exchange", "asked")),
        (replace(LONG, lanes=64, size=MIB), False, 0, "tasks", ("exchange", "asked")),
        (replace(LONG, lanes=65, size=MIB), False, 0, "tasks", ("rechunk", "fit")),
        (replace(LONG, lanes=65, size=MIB), True, math.inf, "runs", ("gather", "shared")),
        (replace(LONG, lanes=65, size=64 * MIB), False, 0, "runs", ("exchange", "asked")),
        (replace(LONG, lanes=65, size=MIB), False, 0, "gather", ("gather", "asked")),
    ],
)
def test_strategies_and_their_reasons(array, shared, memory, asked, wanted):
    assert choose_addressing(array, shared, memory, asked) == wanted


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.none() | st.integers(1, 20))
def test_bundles_cover_all_chunks_in_order(sizes, wanted):
    bundles = bundle_chunks(sizes, 8, Workers(2, MIB, processes=2), wanted)
    assert [chunk for chunks in bundles for chunk in chunks] == list(range(len(sizes)))
    assert all(bundles)


def test_bundles_fit_the_memory():
    bundles = bundle_chunks([1 << 10] * 1000, 32, Workers(2, 10 * MIB, processes=2))
    assert max(map(len, bundles)) * (1 << 10) * 32 <= 1.01 * MIB


def test_bundles_of_unknown_sizes_have_about_equal_numbers_of_chunks():
    bundles = bundle_chunks([math.nan] * 12, 8, Workers(2), 4)
    assert [len(chunks) for chunks in bundles] == [3, 3, 3, 3]


def test_few_indices_in_memory_name_few_chunks():
    assert names_few_chunks(10, 80, 80, planning=False)
    assert not names_few_chunks(11, 80, 80, planning=False)
    assert not names_few_chunks(10, 80, 80, planning=True)
    assert not names_few_chunks(0, 80, 0, planning=False)
    assert not names_few_chunks(0, math.nan, math.nan, planning=False)


def test_largest_bytes():
    bundles = bundle_chunks([10, 10, 30, 10], 8, Workers(2), 3)
    assert largest_bytes(bundles, [10, 10, 30, 10], 8) == 8 * max(
        sum([10, 10, 30, 10][chunk] for chunk in chunks) for chunks in bundles
    )
    assert math.isnan(largest_bytes(bundles, [10, math.nan, 30, 10], 8))


def test_projected_bytes():
    exchange, few = PositionsExchange(((0, 1), (2, 3)), ((0, 1, 2, 3),), "runs", 100, 320, 8), replace(LONG, indices=10)

    def steps_of(array, by="runs"):
        steps = PositionsPlan("exchange", "long", array, 0, replace(exchange, by=by)).stated.steps
        return {step.name: round(step.bytes) for step in steps}

    assert steps_of(few) == {"source": 200, "requests": 352, "read": 100 + 10 * 24, "fill": 160}
    assert steps_of(LONG)["read"] == 100 + PORTION_REQUESTS * 24
    assert steps_of(replace(few, index_bytes=16)) == {"requests": 416, "write": 105}
    assert steps_of(few, "tasks") == {"source": 110, "requests": 352, "read": 357}
    assert PositionsPlan("gather", "shared", LONG, 0).stated.peak == 1.01 * LONG.bytes
    rows = replace(LONG, size=MIB, lanes=64, chunks=1, blocks=16)
    assert PositionsPlan("blocks", "whole", rows, 0).stated.peak == rows.bytes / 16
    assert PositionsPlan("rechunk", "fit", replace(rows, chunks=4), 0).stated.peak == rows.limit
    assert math.isnan(PositionsPlan("blocks", "unknown", replace(rows, size=math.nan), 0).stated.peak)


def test_text():
    exchange = PositionsExchange(((0, 1), (2, 3)), ((0, 1, 2, 3),), "runs", 100, 300, 8)
    text = PositionsPlan("exchange", "long", LONG, 0, exchange).stated.text
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert list(lines) == ["lanes", "indices", "strategy", "moves", "steps"]
    assert lines["lanes"] == "1 of 67,108,864 elements, in 64 chunks"
    assert lines["strategy"] == "exchange: lanes are in several chunks, and do not fit one of 128.00 MiB"
    assert lines["moves"].startswith("indices to 2 groups of chunks, from 1 bundle, by runs that workers keep")
    by_tasks = PositionsPlan("exchange", "long", LONG, 0, replace(exchange, by="tasks"))
    assert "by tasks" in by_tasks.stated.text
    assert "they may take 1.00 MiB" in PositionsPlan("gather", "shared", LONG, MIB).stated.text
    assert "an unknown size" in PositionsPlan("gather", "shared", LONG, math.inf).stated.text
    whole = PositionsPlan("blocks", "whole", replace(LONG, chunks=1), 0).stated.text
    assert "moves     nothing\n" in whole
    assert "every element once, 512.00 MiB" in PositionsPlan("rechunk", "fit", LONG, 0).stated.text
