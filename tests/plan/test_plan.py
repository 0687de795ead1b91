"""Plans: made from shapes and dtypes alone, bounded for any number of chunks, and explained in text."""

from __future__ import annotations

import dataclasses
import math
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import product
from types import FunctionType

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import strategies as ours
from support.marks import for_each

import dask_gpusort
from dask_gpusort.graph.exchanges import choose_exchange
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, counting, is_small, make_plan
from dask_gpusort.plan.division import lay_out_groups

MIB = 1 << 20
CHUNKS, SIZES = (1, 10, 1024, 10_000, 100_000), (100, 50_000, 1_000_000)


def plan(sizes, chunks=None, dtype="i8", companion_bytes=0, **options):
    given = {"method": "auto", "exchange": "gather", "workers": Workers(2), "groups": None}
    chunks = sizes if chunks is None else chunks
    return make_plan(Order(np.dtype(dtype)), InputChunks(sizes, companion_bytes), chunks, **{**given, **options})


@pytest.mark.parametrize("dtype", [*ours.CODED, *ours.SWAPPED], ids=str)
def test_digits_are_counted_if_they_are_asked_for(dtype):
    assert plan((10, 10), dtype=dtype, groups=2, method="radix").radix_bits > 0
    for more in ({"method": "auto"}, {"method": "merge"}, {"method": "radix", "groups": 1}):
        assert plan((10, 10), dtype=dtype, **{"groups": 2, **more}).radix_bits == 0


@pytest.mark.parametrize("dtype", [dtype for dtype in ours.COMPARED if dtype.kind != "T"], ids=str)
def test_keys_without_codes_have_no_digits(dtype):
    assert plan((10, 10), dtype=dtype, groups=2).radix_bits == 0
    with pytest.raises(TypeError, match="radix.*use method="):
        plan((10, 10), dtype=dtype, method="radix")


sizes = st.lists(st.integers(0, 50), min_size=1, max_size=30)


@given(sizes, st.integers(1, 40))
def test_groups_cover_the_output_once_and_in_order(chunks, wanted):
    groups = lay_out_groups(chunks, wanted)
    next_chunk = 0
    part_wanted = 0
    for first, last, part, parts in groups:
        assert (first, part) == (next_chunk, part_wanted)
        assert last > first
        assert parts == 1 or last == first + 1
        part_wanted = (part + 1) % parts
        next_chunk = last if part_wanted == 0 else first
    assert next_chunk == len(chunks)
    assert part_wanted == 0


@given(sizes.filter(any), st.integers(1, 40))
def test_groups_have_similar_sizes(chunks, wanted):
    groups = lay_out_groups(chunks, wanted)
    target = max(sum(chunks) / wanted, 1)
    held = [sum(chunks[first:last]) / parts for first, last, _, parts in groups]
    # A chunk is divided only if it has more than 1.5 times the size wanted for a group.
    assert max(held) <= 1.5 * target + 1
    assert len(groups) <= 3 * wanted + 1


def test_groups_of_unknown_sizes():
    groups = lay_out_groups([math.nan] * 10, 3)
    assert groups[0][0] == 0
    assert groups[-1][1] == 10
    assert all(parts == 1 for _, _, _, parts in groups)


@for_each(product(CHUNKS, ["u1", "i2", "i4", "f8", "S20"], ["gather", "tasks", "runs"], SIZES))
def test_input_of_one_task_is_bounded(chunks, dtype, exchange, size):
    made = plan((size,) * chunks, dtype=dtype, exchange=exchange, workers=Workers(200, 4 << 30))
    # One task reads 32 counts before 16 candidates for each group, or a handle of each run.
    assert made.table_bytes <= max(64 * MIB, 4096 * len(made.groups))
    # An exchange by tasks has one table for all runs, so it bounds the product of bundles and groups.
    assert made.unresolved <= 1 / 3 or (exchange == "tasks" and len(made.runs) * len(made.groups) > 1 << 17)
    # The number of groups does not grow with that of the chunks, only with the size of the data.
    assert len(made.groups) <= max(2048, chunks * size * made.row_bytes // (400 * MIB))


@given(st.integers(1, 4000), st.integers(1, 10**7), st.sampled_from(("gather", "runs", "tasks")), st.integers(1, 64))
def test_groups_fit_into_memory(chunks, size, exchange, threads):
    memory = 256 * MIB
    made = plan((size,) * chunks, exchange=exchange, workers=Workers(threads, memory))
    if exchange != "gather":
        assert made.group_bytes <= memory / 4
    assert len(made.groups) >= 1


@given(st.integers(1, 5000))
def test_groups_of_kept_runs_take_a_bounded_number_of_slices(chunks):
    made = plan((MIB,) * chunks, exchange="runs", workers=Workers(2, 256 * MIB, processes=2))
    by_memory = 8 * chunks / 25.6
    assert len(made.runs) * len(made.groups) <= max(1 << 20, len(made.runs) * 1.1 * by_memory)


def test_plans_of_kept_runs_tell_small_slices_and_many_tasks():
    """Of 512 MiB, 10 GiB, 1 TB and 100 TB."""

    def told(total, chunk, threads, memory, processes):
        workers = Workers(threads, memory, processes=processes)
        return plan((chunk // 8,) * (total // chunk), exchange="runs", workers=workers).stated.notes

    assert told(512 * MIB, 8 * MIB, 2, 256 * MIB, 2) == ()
    (slices,) = told(10240 * MIB, 8 * MIB, 2, 256 * MIB, 2)
    assert slices == "819,200 slices of 12.80 kiB take some 3.3 s of a thread a GiB: use larger chunks"
    assert told(10**12, 1024 * MIB, 4000, 16384 * MIB, 1000) == ()
    slices, tasks = told(10**14, 128 * MIB, 16_000, 4096 * MIB, 1000)
    assert "540 B" in slices
    assert tasks == "its tasks take some 1,937 s of the scheduler: use larger chunks"


def test_requested_number_of_groups():
    assert len(plan((100,) * 64, groups=16).groups) == 16
    assert len(plan((100,), groups=5).groups) == 5
    assert len(plan((100,) * 64, groups=1).groups) == 1


def test_small_arrays_are_one_group():
    assert len(plan((10,) * 20).groups) == 1


@pytest.mark.parametrize(("runs", "sums"), [(1, 0), (32, 0), (33, 2), (1024, 32), (1025, 35)])
def test_sums_of_counts(runs, sums):
    assert counting.count_sums(runs) == sums


def test_there_are_at_most_as_many_digits_as_samples():
    for dtype, size in (("u1", 10_000), ("f2", 10_000), ("f2", 10_000_000), ("i8", 10_000)):
        made = plan((size,) * 50, dtype=dtype, groups=8, method="radix")
        assert 1 <= made.radix_bits <= 8 * np.dtype(dtype).itemsize
        assert 1 << made.radix_bits <= made.samples
    assert plan((10_000_000,) * 50, dtype="u1", groups=8, method="radix").radix_bits == 8


def test_groups_of_runs_of_unknown_sizes_follow_the_bound_of_the_number_of_keys():
    made = {
        most: make_plan(
            Order(np.dtype("i8")),
            InputChunks((math.nan,) * 128, most_keys=most),
            (math.nan,) * 128,
            method="auto",
            exchange="runs",
            workers=Workers(2, 512 * MIB, processes=2),
            groups=None,
        )
        for most in (1 << 20, 1 << 30, math.nan)
    }
    assert {most: len(one.groups) for most, one in made.items()} == {1 << 20: 2, 1 << 30: 128, math.nan: 8}


def test_unknown_sizes():
    made = plan((math.nan,) * 10, exchange="runs", workers=Workers(2, 1 << 30))
    assert not made.known
    assert math.isnan(made.group_bytes)
    assert "unknown" in made.stated.text


def test_plans_are_frozen_hashable_and_picklable():
    made = plan((10, 20), groups=2)
    assert made == plan((10, 20), groups=2) == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(plan((10, 20), groups=2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.samples = 3


def test_companions_add_to_the_row_size():
    assert plan((10,), companion_bytes=8).row_bytes == 16
    x = da.zeros(1 << 22, chunks=1 << 16, dtype="i4")
    with dask.config.set({"gpusort.groups": 8}):
        alone = dask_gpusort.explain(x).detail
        keyed = dask_gpusort.explain(x, key=lambda block: block).detail
    assert alone != keyed


def test_explain_describes_the_plan():
    x = da.zeros(10**7, chunks=10**5, dtype="f4")
    with dask.config.set(num_workers=2):
        text = dask_gpusort.explain(x, descending=True, stable=True).detail
    lines = {line.split()[0]: line for line in text.splitlines()}
    assert list(lines) == ["keys", "path", "samples", "table", "chunks", "groups", "exchange", "cost", "steps"]
    assert "float32, descending, stable" in lines["keys"]
    assert "merge" in lines["path"]
    assert "100 in as 6 runs, 100 out" in lines["chunks"]
    assert "gather" in lines["exchange"]
    assert dask_gpusort.explain(x, exchange="tasks").exchange == "tasks"
    assert "radix" in dask_gpusort.explain(x, method="radix", stable=True).detail
    with dask.config.set({"gpusort.merged_runs": 0, "num_workers": 2}):
        assert "sorted once" in dask_gpusort.explain(x).detail
    assert "1,000 out" in dask_gpusort.explain(x, chunks=10**4).detail


def test_explain_states_the_cost():
    x = da.zeros(1 << 20, chunks=1 << 16, dtype="i8")
    with dask.config.set(num_workers=2):
        text = dask_gpusort.explain(x, exchange="tasks").detail
    (line,) = [line for line in text.splitlines() if line.startswith("cost ")]
    # 8 MiB are read or written six times. There are two bundles of 8 chunks and two groups of 4 MiB.
    assert "48.00 MiB read and written, 4 messages, " in line


def test_explain_of_several_dimensions():
    x = da.zeros((8, 1000), chunks=(4, 100))
    assert "rechunk" in dask_gpusort.explain(x).detail
    assert "whole" in dask_gpusort.explain(x.rechunk((4, -1))).detail
    with dask.config.set({"array.chunk-size": "1kiB"}):
        text = dask_gpusort.explain(x.rechunk((1, 100))).detail
        assert "path" in dask_gpusort.explain(x, None).detail
    assert text.startswith("rows      8 of 1,000 keys, each in 10 chunks\nstrategy  exchange: ")
    assert "path" in text
    assert "10 in" in text


@pytest.mark.parametrize(
    ("asked", "kind", "library", "joins", "used"),
    [
        ("auto", "threads", "numpy", False, "gather"),
        ("auto", "processes", "numpy", False, "tasks"),
        ("auto", "threads", "cupy", True, "join"),
        ("auto", "threads", "cupy", False, "device"),
        ("auto", "distributed", "cupy", True, "join"),
        ("auto", "distributed", "cupy", False, "device"),
        ("device", "threads", "numpy", False, "device"),
        ("device", "threads", "cupy", True, "device"),
        ("auto", "distributed", "numpy", False, "runs"),
        ("gather", "distributed", "numpy", False, "gather"),
        ("tasks", "threads", "numpy", False, "tasks"),
        ("join", "distributed", "numpy", False, "join"),
        ("join", "threads", "cupy", False, "join"),
    ],
)
def test_exchange_for_a_scheduler(asked, kind, library, joins, used):
    assert choose_exchange(asked, kind, library, joins=joins) == used


def test_runs_are_for_numpy_chunks_only():
    with pytest.raises(ValueError, match="NumPy"):
        choose_exchange("runs", "distributed", "cupy")


def get_of_frisky(graph, keys, **options):
    raise AssertionError("computes")


get_of_frisky.__module__ = "frisky._dask_config"
ONE_THREAD = {"scheduler": "threads", "num_workers": 1}
FEW, MANY = (da.zeros(size, chunks=1 << 17) for size in (1 << 20, (1 << 20) + 1))
HUGE = da.zeros(1 << 40, chunks=1 << 32)
HELD = da.from_array(np.arange((1 << 20) + 5)[::-1], chunks=1 << 18, name=False)


@pytest.mark.parametrize(
    ("options", "array", "used"),
    [
        *(({"scheduler": kind}, FEW, "join") for kind in ("threads", "synchronous", "processes")),
        ({"scheduler": "threads"}, MANY, "gather"),
        ({"scheduler": "processes"}, MANY, "tasks"),
        # An executor shares the memory of its threads.
        *(({"scheduler": ThreadPoolExecutor(threads)}, MANY, used) for threads, used in ((1, "join"), (2, "gather"))),
        ({"scheduler": ProcessPoolExecutor(1)}, MANY, "tasks"),
        ({"scheduler": get_of_frisky}, MANY, "tasks"),
        ({"scheduler": FunctionType(get_of_frisky.__code__, {})}, MANY, "gather"),  # of no module
        # One thread joins any number of keys in memory, and those that tasks make if they fit it.
        *((options, HELD, "join") for options in ({"scheduler": "synchronous"}, ONE_THREAD)),
        *((options, MANY, "join") for options in ({"scheduler": "synchronous"}, ONE_THREAD)),
        *((options, HUGE, "gather") for options in ({"scheduler": "synchronous"}, ONE_THREAD)),
        ({"scheduler": "synchronous"}, MANY[MANY == 0], "gather"),
        ({"scheduler": "threads", "num_workers": 2}, HELD, "gather"),
        ({"scheduler": "processes", "num_workers": 1}, HELD, "tasks"),
        ({"scheduler": "synchronous", "gpusort.groups": 2}, HELD, "gather"),
        # Few keys are not joined if groups are asked for, or sizes are unknown.
        ({"gpusort.groups": 4}, da.zeros(100, chunks=10), "gather"),
        ({}, FEW[FEW == 0], "gather"),
    ],
)
def test_the_exchange_that_is_chosen(options, array, used):
    with dask.config.set(options):
        assert dask_gpusort.explain(array).exchange == used


def test_companions_count_towards_few_keys():
    order = Order(np.dtype("i8"))
    assert is_small(order, InputChunks((1 << 20,)))
    assert is_small(order, InputChunks((1 << 20,), 8, positions=True))
    assert not is_small(order, InputChunks((1 << 20,), 8))


def test_groups_on_threads_are_few_and_enough_for_every_thread():
    x = da.zeros(1 << 25, chunks=1 << 18)
    counts = {}
    for threads in (2, 4, 16):
        with dask.config.set(num_workers=threads):
            counts[threads] = int(dask_gpusort.explain(x, stable=True).detail.split("groups")[1].split()[0])
    assert counts[2] > counts[4]
    assert all(count >= 2 * threads for threads, count in counts.items())
