"""The plan of an exchange by tasks on GPUs: bundles and groups that fit, and the peak."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.builders.global_sort import _pace
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, SortPlan, Workers, make_plan
from dask_gpusort.plan.memory import MOST_BUNDLES, MOST_DEVICE_GROUPS, TURNS_FRACTION

MEMORY = 1 << 30


def plan_of(
    share: float, chunks: int = 64, dtype: str = "u4", outputs: int | None = None, gpus: int = 1, **about: object
) -> SortPlan:
    size = int(gpus * share * MEMORY / np.dtype(dtype).itemsize) // chunks
    out = size * chunks // (outputs or chunks)
    return make_plan(
        Order(np.dtype(dtype)),
        InputChunks([size] * chunks, **about),  # type: ignore[arg-type]
        [out] * (size * chunks // out if out else 1),
        method="auto",
        exchange="device",
        workers=Workers(gpus, MEMORY, devices=True),
        groups=None,
    )


@given(st.floats(0.01, 0.7), st.sampled_from(["u4", "i8", "c16"]), st.booleans())
def test_the_peak_stays_within_the_share_unless_bundles_are_smallest(share: float, dtype: str, held: bool) -> None:
    plan = plan_of(share, 2048, dtype, held=held)
    held_bytes = held * sum(plan.sizes) * plan.row_bytes
    smallest = len(plan.sources) >= MOST_BUNDLES or len(plan.groups) >= MOST_DEVICE_GROUPS
    assert smallest or plan.stated.peak + held_bytes <= 1.02 * TURNS_FRACTION * MEMORY
    assert plan.stated.peak >= sum(plan.sizes) * plan.row_bytes


def test_more_keys_are_sorted_in_more_bundles_and_groups() -> None:
    plans = [plan_of(share) for share in (0.1, 0.3, 0.4, 0.5, 0.6)]
    bundles, groups = (
        [len(part) for part in parts] for parts in zip(*((p.sources, p.groups) for p in plans), strict=False)
    )
    assert bundles == sorted(bundles)
    assert groups == sorted(groups)
    assert (bundles[0], groups[0]) == (1, 1)
    assert bundles[-1] > 4
    assert [plan.cut_first for plan in plans] == [count > 1 for count in bundles]


def test_kept_chunks_leave_less_memory() -> None:
    assert len(plan_of(0.3, held=True).sources) > len(plan_of(0.3).sources)


def test_a_large_output_chunk_is_made_by_several_groups_and_counted() -> None:
    plan = plan_of(0.5, outputs=1)
    assert len(plan.groups) > 1
    assert plan.stated.peak == pytest.approx(2 * sum(plan.sizes) * plan.row_bytes)


def test_no_turns_without_sizes_or_memory() -> None:
    assert plan_of(0.3).turns is not None
    for sizes, memory in (([math.nan] * 4, MEMORY), ([10] * 4, None)):
        plan = make_plan(
            Order(np.dtype("u4")),
            InputChunks(sizes),
            sizes,
            method="auto",
            exchange="device",
            workers=Workers(1, memory, devices=True),
            groups=None,
        )
        assert plan.turns is None


def test_a_pool_that_may_run_out_is_noted() -> None:
    for enough in (plan_of(0.49), plan_of(0.2, held=True), plan_of(0.49, gpus=2)):
        assert (enough.stated.over, enough.stated.notes) == (False, ())
    for short in (plan_of(0.52), plan_of(0.3, held=True), plan_of(0.52, gpus=2)):
        assert short.stated.over
        assert "pool may run out" in short.stated.notes[0]


@given(st.floats(0.01, 0.5), st.sampled_from(["u4", "i8", "c16"]), st.integers(2, 4))
def test_each_of_several_gpus_has_equal_parts_that_fit(share: float, dtype: str, gpus: int) -> None:
    plan = plan_of(share, 1024 * gpus, dtype, gpus=gpus)
    own = sum(plan.sizes) * plan.row_bytes / gpus
    assert len(plan.sources) % gpus == 0
    assert plan.bundle_workers == tuple(range(len(plan.sources)))
    smallest = len(plan.sources) >= MOST_BUNDLES * gpus or len(plan.groups) >= MOST_DEVICE_GROUPS * gpus
    # Keys that two groups receive come on top.
    assert smallest or plan.stated.peak <= (1.02 + plan.unresolved) * TURNS_FRACTION * MEMORY
    assert plan.stated.peak >= (1 if plan.cut_first else 2) * own


def test_several_gpus_cut_first_only_if_they_cannot_hold_keys_twice() -> None:
    plans = [plan_of(share, gpus=2) for share in (0.05, 0.1, 0.2, 0.3, 0.45)]
    assert [plan.cut_first for plan in plans] == [False, False, True, True, True]
    awaited = [_pace(plan).awaited_by(len(plan.groups) - 1).stop for plan in plans]
    assert [number > 0 for number in awaited] == [len(p.groups) > 4 and p.cut_first for p in plans]


def test_shards_move_after_the_turn_before_the_last_one() -> None:
    plan = plan_of(0.45, gpus=2)
    pace = _pace(plan)
    assert pace.turn_size == 2
    assert [pace.awaited_by(group) for group in range(7)] == [*[range(0)] * 4, *[range(2)] * 2, range(2, 4)]
    assert pace.awaited_by(len(plan.groups) - 1).stop == 2 * (math.ceil(len(plan.groups) / 2) - 2)


def test_the_gpu_with_most_kept_chunks_limits_the_plan() -> None:
    workers = ["a"] * 40 + ["b"] * 24
    plan = plan_of(0.2, gpus=2, held=True, workers=workers)
    assert plan.turns is not None
    assert plan.turns.keys == sum(plan.sizes[:40])
    assert [{workers[chunk] for run in source for chunk in plan.runs[run]} for source in plan.sources] == [
        {name} for name in plan.bundle_workers
    ]
