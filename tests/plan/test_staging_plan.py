"""Plans of chunks of the host that a GPU sorts, some at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.chunk.memory import USABLE_FRACTION, step_bytes
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, divide_chunks, fits_devices, make_plan
from dask_gpusort.plan.division import CHUNKS_IN_FLIGHT, GROUPS_IN_FLIGHT

GIB = 1 << 30
ORDER = Order(np.dtype("i8"))


def plan(sizes, memory, chunks=None, companion_bytes=0):
    return make_plan(
        ORDER,
        InputChunks(sizes, companion_bytes),
        sizes if chunks is None else chunks,
        method="auto",
        exchange="gather",
        workers=Workers(16, staging_memory=memory),
        groups=None,
    )


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), st.integers(1 << 28, 1 << 38), st.integers(0, 64))
def test_chunks_are_divided_into_few_parts_that_fit(sizes, memory, companion_bytes):
    divided = divide_chunks(ORDER, InputChunks(sizes, companion_bytes), memory)
    # Every boundary is kept.
    assert set(np.cumsum(sizes).tolist()) <= set(np.cumsum(divided).tolist())
    limit = USABLE_FRACTION * memory / CHUNKS_IN_FLIGHT
    row = step_bytes(ORDER, 1, companion_bytes)
    assert max(divided) * row <= limit + row
    assert len(divided) <= len(sizes) + sum(sizes) * row / limit + 1e-6


@pytest.mark.parametrize("companion_bytes", [0, 8, 100])
@pytest.mark.parametrize("size", [1 << 18, 1 << 24, 1 << 27, 1 << 30])
def test_groups_fit_a_few_times(size, companion_bytes):
    sizes = (size,) * ((1 << 32) // size)
    divided = divide_chunks(ORDER, InputChunks(sizes, companion_bytes), 16 * GIB)
    made = plan(divided, 16 * GIB, sizes, companion_bytes=companion_bytes)
    # Groups may be larger than asked for, by half, and they have keys in common.
    assert made.step_bytes <= 1.6 * USABLE_FRACTION * 16 * GIB / GROUPS_IN_FLIGHT
    row_bytes = 8 + companion_bytes
    needed = step_bytes(ORDER, 1 << 32, companion_bytes) / (USABLE_FRACTION * 16 * GIB / GROUPS_IN_FLIGHT)
    assert needed / 1.5 <= len(made.groups) <= max(2 * needed, 128)
    assert made.group_bytes == max(sum(sizes[a:b]) / parts for a, b, _, parts in made.groups) * row_bytes


def test_a_group_is_a_chunk_where_that_fits():
    assert plan((1 << 26,) * 64, 16 * GIB).groups == tuple((chunk, chunk + 1, 0, 1) for chunk in range(64))
    assert len(plan((1 << 28,) * 16, 16 * GIB).groups) == 32
    assert len(plan((1 << 20,) * 64, GIB).groups) == 8


def test_unknown_sizes():
    made = plan((math.nan,) * 10, GIB)
    assert math.isnan(made.step_bytes)
    assert "step      an unknown size of the GPU's 1.00 GiB" in made.stated.text


def test_only_staged_plans_speak_of_the_gpu():
    made = plan((1 << 20,) * 64, GIB)
    assert made.staging_memory is not None
    assert "step      " in made.stated.text
    assert plan((1 << 20,) * 64, None).staging_memory is None
    assert "step      " not in plan((1 << 20,) * 64, None).stated.text


def test_groups_of_kept_runs_fit_the_workers_too():
    given, asked = InputChunks((1 << 24,) * 64), {"method": "auto", "exchange": "runs", "groups": None}

    def count(memory, staging_memory):
        workers = Workers(8, memory, staging_memory=staging_memory, processes=2)
        return len(make_plan(ORDER, given, given.sizes, workers=workers, **asked).groups)

    on_host, on_device = count(GIB // 4, None), count(64 * GIB, GIB)
    assert min(on_host, on_device) > count(64 * GIB, 64 * GIB)
    assert count(GIB // 4, 64 * GIB) >= on_host
    assert count(64 * GIB, GIB) <= count(GIB // 4, GIB) >= on_host
    assert count(GIB // 4, GIB) >= on_device


@pytest.mark.parametrize(("devices", "largest"), [(1, 24), (2, 26)])
def test_several_gpus_hold_more(devices, largest):
    # One sorts all keys at once in three times their memory; several, in turns, up to half of theirs.
    workers = Workers(devices, GIB, devices=True)
    held = [size for size in range(20, 32) if fits_devices(ORDER, InputChunks((1 << size,) * 2), workers)]
    assert held == list(range(20, largest + 1))
