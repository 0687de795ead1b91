"""Joins of CuPy chunks on one GPU: the bits of NumPy chunks for every layout, streams, threads, and memory."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.dask_gpu import DTYPES, delay, on_device, sample
from support.marks import grid
from support.plans import plans_of

import dask_gpusort
from dask_gpusort.graph.inputs import flatten
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks
from dask_gpusort.plan.memory import join_bytes

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

SIZE = 30_011
CHUNKS = {
    "one": -1,
    "two": SIZE // 2 + 1,
    "seven": SIZE // 7 + 1,
    "64": SIZE // 64 + 1,
    "ragged": ((0, 12_000, 1, 0, 3, SIZE - 12_005, 1, 0),),
}
THREADS = 8
#: Some milliseconds.
TICKS = 20_000_000
MEMORY_KEYS = 1 << 24


def late_copy(block: Any) -> Any:
    """A copy in memory of its own, after some milliseconds on the current stream."""
    delay(TICKS)
    return block.copy()


def each(darr: Any, function: Callable[[Any], Any]) -> Any:
    """The array with a function applied to each chunk, which keeps its dtype."""
    return darr.map_blocks(function, dtype=darr.dtype, meta=darr._meta)


def apart(array: np.ndarray, chunks: Any) -> Any:
    """Chunks that each have memory of their own, held by the graph."""
    return each(on_device(array, chunks), lambda block: block.copy()).persist(scheduler="sync")


def stepped(array: np.ndarray, chunks: Any) -> Any:
    """Chunks that are every second element of an array."""
    return da.from_array(cupy.asarray(np.repeat(array, 2, axis=0))[::2], chunks=chunks, asarray=False)


def fortran(array: np.ndarray, chunks: Any) -> Any:
    """Chunks of a matrix in Fortran order."""
    return da.from_array(cupy.asarray(np.ascontiguousarray(array.T)).T, chunks=chunks, asarray=False)


def unknown(array: np.ndarray, chunks: Any) -> Any:
    return ours.forget_sizes(on_device(array, chunks))


LAYOUTS = {"neighbours": on_device, "apart": apart, "stepped": stepped, "unknown": unknown}
FUNCTIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "sort": lambda x, y, **options: [dask_gpusort.sort(x, **options)],
    "stable": lambda x, y, **options: [dask_gpusort.sort(x, stable=True, **options)],
    "descending": lambda x, y, **options: [dask_gpusort.sort(x, stable=True, descending=True, **options)],
    "argsort": lambda x, y, **options: [dask_gpusort.argsort(x, **options)],
    "one value": lambda x, y, **options: dask_gpusort.sort_by_key(x, y, **options),
    "several values": lambda x, y, **options: dask_gpusort.sort_by_key(x, y, x, y, descending=True, **options),
    "lexsort": lambda x, y, **options: [dask_gpusort.lexsort((y, x), descending=[True, False], **options)],
    "words": lambda x, y, **options: [dask_gpusort.lexsort((y, x, x), **options)],
    "key": lambda x, y, **options: [dask_gpusort.sort(y, key=lambda block: block % 7, **options)],
}


def same(found: Any, wanted: np.ndarray) -> None:
    assert isinstance(found, cupy.ndarray)
    found = cupy.asnumpy(found)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()


def sorting_tasks(darr: Any) -> int:
    """The number of tasks that sort. With one output chunk, the sort is a part of its task."""
    names = [str(key[0]) for key in dict(darr.__dask_graph__())]
    return sum(name.startswith("sort-local") for name in names) or names.count(darr.name)


def check(
    function: Callable[..., Sequence[Any]], hosts: Any, devices: Any, in_one_task: bool = True, **options: Any
) -> None:
    """The same bits as NumPy chunks, perhaps from one task, and the input stays as it was."""
    before = [cupy.asnumpy(device.compute()) for device in devices]
    found = function(*devices, **options)
    wanted = function(*(da.from_array(host, chunks=-1) for host in hosts), **options)
    for darr, one, other in zip(found, dask.compute(*found), dask.compute(*wanted), strict=True):
        assert sorting_tasks(darr) == 1 or not in_one_task
        same(one, other)
    for device, old in zip(devices, before, strict=True):
        same(device.compute(), old)


@pytest.fixture(autouse=True)
def synchronous() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


@pytest.mark.parametrize(("layout", "chunks", "dtype"), grid(list(LAYOUTS), list(CHUNKS), [*DTYPES, "c16"]))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_same_bits_as_numpy_chunks(function: str, layout: str, chunks: str, dtype: str) -> None:
    hosts = sample(dtype, SIZE), np.arange(SIZE)
    check(FUNCTIONS[function], hosts, [LAYOUTS[layout](host, CHUNKS[chunks]) for host in hosts])


@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks"])
@pytest.mark.parametrize("dtype", [*DTYPES, "c16"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_same_bits_in_several_groups(function: str, dtype: str, exchange: str) -> None:
    hosts = sample(dtype, SIZE), np.arange(SIZE)
    has_words = dtype == "c16" or function in ("lexsort", "words")
    for method in ("auto" if has_words else "radix", "merge"):
        devices = [on_device(host, 4_001) for host in hosts]
        with dask.config.set({"gpusort.groups": 5}):
            check(FUNCTIONS[function], hosts, devices, in_one_task=False, method=method, exchange=exchange)


def test_rows_as_companions_in_several_groups() -> None:
    host, rows = sample("f4", SIZE), np.arange(2 * SIZE).reshape(SIZE, 2)
    for exchange in ("gather", "tasks"):
        with dask.config.set({"gpusort.groups": 5, "gpusort.exchange": exchange}):
            found = dask_gpusort.sort_by_key(on_device(host, 3_000), on_device(rows, (3_000, 1)))
        for one, wanted in zip(dask.compute(*found), (host, rows), strict=True):
            same(one, wanted[np.argsort(host, kind="stable")])


@pytest.mark.parametrize("distribution", ["special", "bits"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_signs_and_payloads_keep_their_order(dtype: str, distribution: str) -> None:
    host = ours.make(dtype, SIZE, distribution)
    for make in (on_device, apart):
        for function in ("stable", "descending"):
            check(FUNCTIONS[function], (host, host), [make(host, 4_001)] * 2)


@pytest.mark.parametrize("layout", [on_device, apart, stepped, fortran])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [((90, 110), (17, 23)), ((3, 9_000), (2, 4_001)), ((6, 40, 50), (2, 13, 17)), ((7, 30, 20), ((0, 7), (29, 1), 9))],
)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_in_any_chunks(function: str, shape: tuple[int, ...], chunks: Any, layout: Any) -> None:
    for dtype in ("i4", "f4", "f8", "c16"):
        hosts = [array.reshape(shape) for array in (sample(dtype, math.prod(shape)), np.arange(math.prod(shape)))]
        devices = [layout(host, chunks) for host in hosts]
        for axis in range(len(shape)):
            check(FUNCTIONS[function], hosts, devices, axis=axis)


def test_rows_by_a_comparison() -> None:
    host = (sample("i8", 90 * 110) % 1000).reshape(90, 110)
    for axis in (0, 1):
        found = dask_gpusort.argsort(on_device(host, (17, 23)), axis, less="a % 10 < b % 10")
        assert sorting_tasks(found) == 1
        same(found.compute(), np.argsort(np.fmod(host, 10), axis, kind="stable"))


@pytest.mark.parametrize("make", [on_device, apart, unknown])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((0,), ((0,),)),
        ((0,), ((0, 0, 0),)),
        ((5, 0), ((5,), (0,))),
        ((5, 0), ((2, 3), (0, 0))),
        ((0, 5), ((0, 0), (2, 3))),
        ((3, 0, 4), ((1, 2), (0, 0), (2, 2))),
    ],
)
@pytest.mark.parametrize("dtype", ["i4", "f8", "c16"])
def test_empty_arrays(dtype: str, shape: tuple[int, ...], chunks: Any, make: Any) -> None:
    host = np.empty(shape, dtype)
    x = make(host, chunks)
    for function in ("sort", "stable", "argsort", "one value", "several values"):
        found = dask.compute(*FUNCTIONS[function](x, x))
        for one in found:
            same(one, np.empty(shape, "i8" if function == "argsort" else dtype))


def test_wrong_chunk_sizes() -> None:
    x = each(on_device(np.zeros((4, 6)), 2), lambda block: block[:, :-1])
    with pytest.raises(ValueError, match=r"has shape \(2, 1\) where its array says .*compute_chunk_sizes"):
        dask_gpusort.sort(x, 1).compute()
    rows = on_device(np.zeros((6, 4)), (2, 4))
    torn = rows.map_blocks(lambda block, block_id: block[:, : 1 + block_id[0]], dtype=rows.dtype, meta=rows._meta)
    with pytest.raises(ValueError, match="concatenat"):
        dask_gpusort.sort_by_key(on_device(np.arange(6), 2), torn)[1].compute()


# Streams and threads.


@pytest.mark.parametrize("function", ["stable", "argsort", "several values"])
def test_a_non_blocking_stream(function: str) -> None:
    hosts = sample("f4", SIZE), np.arange(SIZE)
    wanted = dask.compute(*FUNCTIONS[function](*(da.from_array(host, chunks=-1) for host in hosts)))
    with cupy.cuda.Stream(non_blocking=True):
        for make in (on_device, apart):
            devices = [each(make(host, 4_001), late_copy) for host in hosts]
            for one, other in zip(dask.compute(*FUNCTIONS[function](*devices)), wanted, strict=True):
                same(one, other)


@pytest.mark.parametrize("own_stream", [False, True])
def test_several_threads_sort_at_once(own_stream: bool) -> None:
    barrier = Barrier(THREADS)

    def work(seed: int) -> None:
        host = sample("f4", 1 << 18, seed)
        stream = cupy.cuda.Stream(non_blocking=True) if own_stream else cupy.cuda.Stream.null
        barrier.wait()
        with stream:
            for function in ("stable", "argsort"):
                x = each(on_device(host, 1 << 15), late_copy)
                (found,) = dask.compute(*FUNCTIONS[function](x, x), scheduler="sync")
                given = da.from_array(host, chunks=-1)
                (wanted,) = dask.compute(*FUNCTIONS[function](given, given), scheduler="sync")
                same(found, wanted)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def test_tasks_around_the_sorts_on_threads() -> None:
    hosts = [sample("i8", SIZE, seed) for seed in range(6)]
    found = []
    for host in hosts:
        x = each(on_device(host, 2_003), late_copy)
        found += [each(dask_gpusort.sort(each(x, cupy.negative)), cupy.negative), dask_gpusort.argsort(x) + 1]
    got = dask.compute(*found, scheduler="threads", num_workers=8)
    for host, ordered, positions in zip(hosts, got[::2], got[1::2], strict=True):
        same(ordered, np.sort(host)[::-1])
        same(positions, np.argsort(host, kind="stable") + 1)


# Memory.


@pytest.fixture
def pool() -> Iterator[Any]:
    """The pool from which this thread allocates, without blocks in use."""
    found = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(found.malloc):
        yield found
    gc.collect()
    # The pool lives on, because kernels keep tables that they allocated from it.
    found.free_all_blocks()


def random_chunks(dtype: str, make: Any) -> Any:
    return make(np.random.default_rng(0).integers(0, 1 << 32, MEMORY_KEYS, "u8").astype(dtype), MEMORY_KEYS // 16)


def peak_beyond(pool: Any, sort: Callable[[], Any]) -> int:
    """Most bytes that a sort takes from the pool, its result included, beyond those in use before."""
    # The first call loads kernels and makes the tables that are kept.
    sort()
    gc.collect()
    pool.free_all_blocks()
    before = pool.total_bytes()
    kept = sort()
    taken: int = pool.total_bytes() - before
    del kept
    return taken


@pytest.mark.parametrize("make", [on_device, apart])
@pytest.mark.parametrize("dtype", ["u4", "i8"])
def test_peak_of_a_sort_is_that_of_the_plan(pool: Any, dtype: str, make: Any) -> None:
    x = random_chunks(dtype, make)
    taken = peak_beyond(pool, lambda: dask_gpusort.sort(x).persist())
    assert x.nbytes < taken <= 2.1 * x.nbytes
    explained = dask_gpusort.explain(x)
    assert explained.exchange == "join"
    assert abs(explained.peak - taken) <= 0.15 * taken


@pytest.mark.parametrize("dtype", ["?", "f2", "u4", "i8", "f8", "c16"])
def test_one_task_tells_whether_chunks_are_sorted_in_the_projected_memory(pool: Any, dtype: str) -> None:
    x = apart(np.sort(sample(dtype, MEMORY_KEYS)), MEMORY_KEYS // 16)
    found = dask_gpusort.is_sorted(x)
    assert len(dict(found.__dask_graph__())) == 1
    taken = peak_beyond(pool, found.persist)
    assert bool(found.compute())
    order = Order(x.dtype, stable=True)
    assert taken <= 1.02 * join_bytes(order, InputChunks(x.chunks[0], task_bytes=x.dtype.itemsize + 1))


@pytest.mark.parametrize("make", [on_device, apart])
@pytest.mark.parametrize(("dtype", "most"), [("u4", 4.2), ("i8", 3.2)])
def test_peak_of_an_argsort(pool: Any, dtype: str, most: float, make: Any) -> None:
    x = random_chunks(dtype, make)
    taken = peak_beyond(pool, lambda: dask_gpusort.argsort(x).persist())
    assert 8 * MEMORY_KEYS < taken <= most * x.nbytes


OF_KEYS = {
    "values": (dask_gpusort.unique, {}),
    "counts": (dask_gpusort.unique, {"return_counts": True}),
    "index": (dask_gpusort.unique, {"return_index": True}),
    "inverse": (dask_gpusort.unique, {"return_inverse": True}),
    "all": (dask_gpusort.unique, {"return_index": True, "return_inverse": True, "return_counts": True}),
    **{method: (dask_gpusort.rank, {"method": method, "axis": -1}) for method in ("average", "dense", "ordinal")},
}


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("distinct", [1_000, MEMORY_KEYS, 1 << 30])
@pytest.mark.parametrize("dtype", ["u2", "u4", "i8", "f8"])
@pytest.mark.parametrize("what", OF_KEYS)
def test_peaks_of_distinct_keys_and_ranks_are_at_most_the_projected_ones(
    pool: Any, what: str, dtype: str, distinct: int, rows: int
) -> None:
    function, options = OF_KEYS[what]
    host = np.random.default_rng(0).integers(0, distinct, MEMORY_KEYS, "u8").astype(dtype)
    quarter = MEMORY_KEYS // 4
    x = apart(host, quarter) if rows == 1 else apart(host.reshape(rows, -1), (rows, quarter // rows))
    taken = peak_beyond(pool, lambda: dask.persist(function(x, **options)))
    plan = next(one.stated for one in plans_of(function, x, **options) if one.stated.where)
    assert plan.where == "join"
    # Positions are of the flat array, whose copies in C order the plan says not to count.
    flat = peak_beyond(pool, flatten(x, None)[0].persist) if "return_index" in options and rows > 1 else 0
    # Few values are counted: of more than a copy of all chunks, only an inverse takes memory.
    counted = distinct == 1_000 and what in ("values", "counts", "inverse")
    least = x.nbytes if counted else 0.2 * plan.peak
    assert least <= taken <= 1.02 * (plan.peak + flat)


@pytest.mark.parametrize("function", ["sort", "argsort", "several values"])
def test_too_little_memory_leaves_none_in_use(pool: Any, function: str) -> None:
    hosts = sample("i8", 1 << 20), np.arange(1 << 20)
    devices = [apart(host, 1 << 16) for host in hosts]
    check(FUNCTIONS[function], hosts, devices)

    def refused() -> None:
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            dask.compute(*FUNCTIONS[function](*devices))

    gc.collect()
    pool.free_all_blocks()
    used = pool.used_bytes()
    pool.set_limit(size=pool.total_bytes() + (1 << 20))
    refused()
    gc.collect()
    assert pool.used_bytes() == used
    # The next sort is not held up by the one that failed.
    pool.set_limit(size=0)
    check(FUNCTIONS[function], hosts, devices)


def test_repeated_sorts_leak_no_memory(pool: Any) -> None:
    x = apart(sample("f4", 1 << 18), 1 << 14)
    dask_gpusort.sort(x, stable=True).compute()
    gc.collect()
    used = pool.used_bytes()
    for _ in range(10):
        dask_gpusort.sort(x, stable=True).compute()
    gc.collect()
    assert pool.used_bytes() == used
