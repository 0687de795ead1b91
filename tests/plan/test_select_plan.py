"""The plan of order statistics: strategies, samples, rounds and projected bytes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
from support.marks import for_each

from dask_gpusort.plan import Workers
from dask_gpusort.plan.choose import LANES_BYTES, Lanes, choose
from dask_gpusort.plan.memory import host_bytes
from dask_gpusort.plan.select import (
    BOTH_PASSES,
    FETCHED_BYTES,
    MOST_COMPARED,
    MOST_ROUNDS,
    fits_held,
    make_select_plan,
)

MIB = 1 << 20
LONG = Lanes(count=1, keys=10**9, in_chunk=1, chunks=100, blocks=1, itemsize=8, limit=128 * MIB, searchable=True)
ROWS = replace(LONG, count=8, keys=10**6, in_chunk=4, chunks=8, blocks=2)
CUBE = Lanes(120_000, 730, 10_000, 10, 12, 4, 128 * MIB, True)


def test_long_lanes_are_searched_and_many_short_ones_made_whole():
    def chosen(lanes):
        return choose(lanes, "statistic", exchanges=lanes.searchable)[0]

    assert chosen(LONG) == "samples"
    assert chosen(CUBE) == "rechunk"
    assert chosen(replace(CUBE, chunks=1, blocks=120)) == "blocks"
    assert chosen(replace(LONG, keys=10**5)) == "rechunk"
    assert chosen(replace(LONG, searchable=False)) == "rechunk"
    # Lanes that do not fit a chunk are never made whole, however many there are.
    assert chosen(replace(CUBE, keys=10**8)) == "samples"
    assert chosen(replace(LONG, count=math.nan, keys=math.nan)) == "samples"


@for_each(product([10, 10**6, 10**9, 10**12, math.nan], [1, 5, 1000], [None, 64 * MIB, 10**11]))
def test_samples_and_fetched_keys_are_bounded(keys, quantiles, memory):
    plan = make_select_plan(replace(LONG, keys=keys), quantiles, Workers(2, memory), True, "samples")
    limit = min(FETCHED_BYTES, (memory or math.inf) / 16) / 8
    assert 1 <= len(plan.keys_per_stratum) <= MOST_ROUNDS
    assert plan.samples <= max(limit, 1 << 10)
    assert plan.fetched_keys <= limit or len(plan.keys_per_stratum) == MOST_ROUNDS
    assert plan.fetched_keys <= plan.inside_keys
    assert all(step >= 1 for step in plan.keys_per_stratum)


def test_few_keys_are_inside_the_brackets():
    plan = make_select_plan(LONG, 5, Workers(2), True)
    assert plan.inside_keys < 0.05 * LONG.keys
    assert plan.passes == 2


@for_each([LONG, replace(LONG, chunks=1), ROWS, CUBE])
def test_chunks_are_sorted_for_many_quantiles(lanes):
    most, workers = MOST_COMPARED, Workers(2, processes=1)
    few, many = (make_select_plan(lanes, quantiles, workers, True) for quantiles in (most, most + 1))
    assert not few.sorts
    assert many.sorts == (lanes is LONG)
    # Lanes that are whole in their chunks are sorted once, and so are several that fit one.
    assert few.strategy == ("rechunk" if lanes is CUBE else "samples")
    assert many.strategy == ("samples" if lanes is LONG else "blocks" if lanes.chunks == 1 else "rechunk")
    assert make_select_plan(lanes, most + 1, workers, True, "samples").sorts
    assert ("each chunk is sorted in the second pass" in many.stated.text) == many.sorts
    assert "is sorted" not in few.stated.text


@for_each(product([2, 16], [1 << 24, 1 << 27], [17, 32, 101, 1001]))
def test_both_passes_sort_where_one_task_would_have_many_keys(threads, keys, quantiles):
    lanes = replace(LONG, keys=keys, chunks=16)
    plan = make_select_plan(lanes, quantiles, Workers(threads), True)
    both = quantiles > 32 or threads > 2
    assert plan.sorts == (BOTH_PASSES if both else 1)
    assert plan.inside_keys < keys / 4
    assert ("both passes" in plan.stated.text) == both


def test_lanes_that_fit_a_chunk_are_reduced_whole_where_they_do_not_move_between_processes():
    local, cluster, gpus = Workers(2), Workers(2, processes=2), Workers(2, devices=True)
    fits, row = replace(ROWS, chunks=1), replace(LONG, keys=4 * 10**6, chunks=1)
    large = LANES_BYTES // 8 + 1
    for workers, held, lanes, strategy in (
        (local, True, ROWS, "rechunk"),
        (local, False, ROWS, "samples"),  # its pieces would be in memory
        (cluster, True, ROWS, "samples"),  # and moved
        (gpus, True, ROWS, "samples"),
        (local, True, replace(ROWS, keys=large), "samples"),
        (local, True, replace(LONG, keys=4 * 10**6, chunks=8), "samples"),  # one task would do all the work
        (Workers(1), True, replace(LONG, keys=4 * 10**6, chunks=8), "samples"),
        (Workers(16), True, replace(ROWS, count=4, chunks=8), "samples"),  # more tasks search than lanes are reduced
        (Workers(16), True, replace(ROWS, count=8, chunks=8), "rechunk"),
        (local, False, fits, "blocks"),
        (cluster, False, fits, "blocks"),
        (gpus, True, fits, "samples"),
        (local, False, row, "blocks"),
        (local, False, replace(row, keys=large), "samples"),  # takes no copy of the chunk
        (local, True, replace(fits, keys=math.nan), "samples"),
    ):
        plan = make_select_plan(lanes, 1, workers, held)
        assert plan.strategy == strategy, (workers, held, lanes)
        assert ("would read it twice" in plan.stated.text) == plan.whole == (strategy != "samples")
    assert not make_select_plan(CUBE, 1, local, True).whole
    assert make_select_plan(ROWS, 1, local, True, "samples").strategy == "samples"


def test_projected_bytes():
    held, again = (make_select_plan(LONG, 5, Workers(2), one) for one in (True, False))
    # The source, or a chunk for each thread.
    assert held.stated.peak - again.stated.peak == LONG.bytes - 2 * LONG.bytes / 100
    # A sort takes copies of a chunk for each thread.
    held, again = (make_select_plan(LONG, 101, Workers(2), one) for one in (True, False))
    assert again.stated.peak == again.moved_bytes + 2 * host_bytes("lanes", 8) * LONG.keys / 100
    assert held.stated.peak == pytest.approx(LONG.bytes + again.stated.peak)
    assert held.stated.peak < 1.1 * LONG.bytes
    assert math.isnan(make_select_plan(replace(LONG, keys=math.nan), 5, Workers(2), True).stated.peak)
    rows = make_select_plan(CUBE, 1, Workers(2, 1024 * MIB), True)
    assert rows.lanes_bytes == 16 * MIB < LANES_BYTES
    assert rows.stated.peak == (host_bytes("lanes", 4) + 4) * 16 * MIB / 4  # of a thread


def test_a_source_is_held_if_it_fits_a_share_of_the_memory():
    assert fits_held(LONG, Workers(2), None, 0.3)
    assert fits_held(LONG, Workers(2), 30 * 10**9, 0.3)
    assert not fits_held(LONG, Workers(2), 20 * 10**9, 0.3)
    assert fits_held(LONG, Workers(4, 7 * 10**9), None, 0.3)
    assert not fits_held(LONG, Workers(4, 6 * 10**9), None, 0.3)
    # An unknown size may not fit.
    assert not fits_held(replace(LONG, keys=math.nan), Workers(1, 10**12), None, 0.3)


def test_text():
    text = make_select_plan(LONG, 5, Workers(2), False).stated.text
    for part in ("1 of 1,000,000,000 keys, each in 100 chunks", "samples: ", "2 over 7.45 GiB", "read again"):
        assert part in text
    assert "rounds" not in make_select_plan(CUBE, 5, Workers(2), False).stated.text
