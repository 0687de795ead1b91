"""NumPy chunks sorted on a GPU: what only a GPU shows of streams, pinned memory, limited memory and clusters."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.dask_gpu import delay
from support.staged import keys_of, same

import dask_gpusort

cupy = pytest.importorskip("cupy")
staging = pytest.importorskip("dask_gpusort.chunk.cupy_staging")
pytestmark = pytest.mark.gpu

THREADS = 16
#: Some milliseconds.
TICKS = 20_000_000


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, so that small arrays are copied in many."""
    monkeypatch.setattr(staging, "PIECE_BYTES", 1 << 16)
    monkeypatch.setattr(staging, "SMALL_BYTES", 1 << 12)


@pytest.fixture(autouse=True, scope="module")
def several_groups() -> Iterator[None]:
    with dask.config.set({"gpusort.groups": 5, "scheduler": "threads", "num_workers": THREADS}):
        yield


@pytest.mark.parametrize("dtype", ["u1", "i8", ">f4"])
def test_pieces_of_full_size(dtype: str) -> None:
    piece = staging.PIECE_BYTES // np.dtype(dtype).itemsize
    for n in (piece - 1, piece, 2 * piece + 1, 5 * piece):
        host = ours.make(dtype, n, "bits", n)
        same(staging.to_host(staging.to_device(host), host.dtype), host)


@pytest.mark.parametrize("n", [100, 1 << 20])
def test_copies_wait_for_the_current_stream(n: int) -> None:
    host = ours.make("i8", n, "bits")
    for stream in (cupy.cuda.Stream(), cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null):
        with stream:
            made = cupy.zeros(n, np.int64)
            wanted = cupy.asarray(host)
            delay(TICKS)
            made[...] = wanted
            same(staging.to_host(made, host.dtype), host)
            # Kernels that still read freed memory when the pool gives it to the next array.
            earlier, kept = cupy.asarray(host), cupy.empty(n, np.int64)
            delay(TICKS)
            kept[...] = earlier
            del earlier
            following = staging.to_device(~host)
            same(cupy.asnumpy(kept), host)
            same(cupy.asnumpy(following), ~host)


@pytest.mark.usefixtures("small_pieces")
def test_any_stream_may_read_the_result() -> None:
    host = ours.make("i8", 1 << 20, "bits")
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for _ in range(20):
        with first:
            on_device = staging.to_device(host)
        with second:
            copied = on_device.copy()
            same(cupy.asnumpy(copied), host)


@pytest.mark.usefixtures("small_pieces")
def test_no_memory_is_leaked() -> None:
    host = ours.make("i8", 1 << 18, "bits")
    pool, pinned = cupy.get_default_memory_pool(), cupy.get_default_pinned_memory_pool()
    staging.to_host(staging.to_device(host), host.dtype)
    gc.collect()
    used, free = pool.used_bytes(), pinned.n_free_blocks()
    for _ in range(50):
        staging.to_host(staging.to_device(host), host.dtype)
        with pytest.raises(TypeError):
            staging.to_device(host, "one")
        with pytest.raises(TypeError):
            staging.to_host(cupy.zeros(1 << 18, np.int64), host.dtype, "one")
        # The tracebacks of the errors keep buffers until they are collected.
        gc.collect()
    # All pinned buffers are free again, and no new ones were needed.
    assert (pool.used_bytes(), pinned.n_free_blocks()) == (used, free)


def test_chunks_on_the_device_stay_there() -> None:
    host = keys_of("f8", 30_000)
    on_device = da.from_array(cupy.asarray(host), chunks=4_001, asarray=False)
    found = dask_gpusort.sort(on_device, device="cuda").compute()
    assert isinstance(found, cupy.ndarray)
    keys, moved = dask.compute(*dask_gpusort.sort_by_key(da.from_array(host, chunks=4_001), on_device, device="cuda"))
    assert type(keys) is np.ndarray
    assert isinstance(moved, cupy.ndarray)
    same(cupy.asnumpy(moved), keys)


@pytest.mark.usefixtures("small_pieces")
def test_repeated_sorts_leak_no_memory() -> None:
    x = da.from_array(ours.make("i8", 1 << 18, "bits"), chunks=1 << 14)
    pool = cupy.get_default_memory_pool()
    dask_gpusort.sort(x, device="cuda").compute()
    gc.collect()
    used = pool.used_bytes()
    for _ in range(10):
        dask_gpusort.sort(x, device="cuda").compute()
    gc.collect()
    assert pool.used_bytes() == used


@contextmanager
def pool_of(nbytes: int) -> Iterator[Any]:
    """CuPy's pool with a limit, which must hold, and with everything freed at the end; as many groups as it needs."""
    pool = cupy.get_default_memory_pool()
    gc.collect()
    pool.free_all_blocks()
    used = pool.used_bytes()
    pool.set_limit(size=used + nbytes)
    try:
        with dask.config.set({"gpusort.groups": None}):
            yield pool
        assert pool.total_bytes() <= used + nbytes
        wait_until_free(pool, used)
    finally:
        pool.set_limit(size=0)


def wait_until_free(pool: Any, nbytes: int) -> None:
    """Wait until the pool's arrays take no more than some bytes: tasks beside one that fails still run to their end."""
    for _ in range(300):
        gc.collect()
        if pool.used_bytes() <= nbytes:
            return
        time.sleep(0.1)
    raise AssertionError(f"{pool.used_bytes()} bytes are in use, not {nbytes}")


def in_parts(found: Any) -> Any:
    """The array, which must not be copied to the device as a whole."""
    assert not any("copy_to_device" in str(key) for key in dict(found.__dask_graph__()))
    return found


LARGE = 1 << 27
LIMIT = 512 << 20


@pytest.mark.parametrize("chunks", [1 << 22, 1 << 25, -1])
def test_sort_of_twice_the_memory(chunks: int) -> None:
    host = np.random.default_rng(0).integers(-(1 << 62), 1 << 62, LARGE)
    x = da.from_array(host, chunks=chunks)
    with pool_of(LIMIT):
        found = in_parts(dask_gpusort.sort(x, device="cuda"))
        assert found.chunks == x.chunks
        same(found.compute(), np.sort(host))


def test_positions_and_companions_of_twice_the_memory() -> None:
    rng = np.random.default_rng(1)
    host = rng.integers(0, 1 << 24, LARGE // 2)
    dates = rng.integers(0, 1 << 40, LARGE // 2).view("M8[s]")
    x, y = (da.from_array(array, chunks=1 << 23) for array in (host, dates))
    with pool_of(LIMIT // 2):
        positions = in_parts(dask_gpusort.argsort(x, device="cuda")).compute()
        keys, values = dask.compute(*map(in_parts, dask_gpusort.sort_by_key(x, y, device="cuda")))
        both = in_parts(dask_gpusort.lexsort((y, x), device="cuda")).compute()
    wanted = dask_gpusort.argsort(x).compute()
    same(positions, wanted)
    same(keys, host[wanted])
    same(values, dates[wanted])
    same(both, dask_gpusort.lexsort((y, x)).compute())


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "f4", ">f8", "c8", "c16", "M8[s]"])
def test_bits_of_parts(dtype: str, descending: bool) -> None:
    host = keys_of(dtype, (192 << 20) // np.dtype(dtype).itemsize)
    x = da.from_array(host, chunks=len(host) // 10)
    options = {"descending": descending, "stable": True}
    with pool_of(128 << 20):
        found = in_parts(dask_gpusort.sort(x, device="cuda", **options)).compute()
    same(found, dask_gpusort.sort(x, **options).compute())


def test_rows_and_less_in_parts() -> None:
    host = ours.make("i8", 1 << 23, "bits") % 1000
    x, rows = da.from_array(host, chunks=1 << 20), da.from_array(host.reshape(1 << 11, 1 << 12), chunks=(128, 1 << 10))
    with pool_of(64 << 20), dask.config.set({"array.chunk-size": "4MiB"}):
        for function in (dask_gpusort.sort, dask_gpusort.argsort):
            found = in_parts(function(x, less="a % 10 < b % 10", device="cuda")).compute()
            same(found, function(x, key=lambda block: np.fmod(block, 10)).compute())
            for axis in (0, 1):
                same(in_parts(function(rows, axis, device="cuda")).compute(), function(rows, axis).compute())
        ordered = da.from_array(np.sort(host), chunks=1 << 20)
        same(in_parts(dask_gpusort.merge_sorted(ordered, ordered, device="cuda")).compute(), np.sort(np.tile(host, 2)))


def test_memory_that_others_hold() -> None:
    host = ours.make("i8", LARGE // 4, "bits")
    with pool_of(LIMIT // 4) as pool:
        found = in_parts(dask_gpusort.sort(da.from_array(host, chunks=1 << 20), device="cuda"))
        used = pool.used_bytes()
        held = cupy.empty(LIMIT // 4 - (1 << 20), np.uint8)
        with pytest.raises(MemoryError, match="rechunk the array to smaller chunks, or leave out device="):
            found.compute()
        del held
        # The error kept nothing of its steps.
        wait_until_free(pool, used)
        held = cupy.empty(LIMIT // 8, np.uint8)
        same(found.compute(), np.sort(host))
        del held


def test_chunks_of_the_device_take_turns() -> None:
    host = ours.make("i8", 1 << 25, "bits")
    x = da.from_array(cupy.asarray(host), chunks=1 << 21, asarray=False)
    found = dask_gpusort.sort(x, exchange="device").compute()
    same(cupy.asnumpy(found), np.sort(host))


@contextmanager
def cluster_of(workers: int, **options: Any) -> Iterator[Any]:
    """A client of some workers, which share the GPU."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=workers, dashboard_address=":0", **options) as cluster,
        distributed.Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        yield client


@pytest.mark.parametrize("processes", [False, True])
def test_on_a_cluster_of_one_worker(processes: bool) -> None:
    host = keys_of("M8[s]", 60_000)
    with cluster_of(1, threads_per_worker=1, processes=processes, memory_limit=0):
        x = da.from_array(host, chunks=7_001)
        same(dask_gpusort.sort(x, device="cuda").compute(), np.sort(host))
        same(dask_gpusort.argsort(x, device="cuda").compute(), np.argsort(host, kind="stable"))


@pytest.mark.parametrize("workers", [1, 2])
def test_on_a_cluster_more_than_the_gpus_hold(workers: int) -> None:
    x = da.random.default_rng(0).integers(0, 1 << 40, LARGE // 8, chunks=LARGE // 128)
    host = x.compute(scheduler="threads")
    limit = host.nbytes // 2
    options = {"threads_per_worker": 4, "memory_limit": "4GB"}
    with cluster_of(workers, **options) as client, dask.config.set({"gpusort.groups": None}):
        client.run(lambda: cupy.get_default_memory_pool().set_limit(size=limit))
        assert dask_gpusort.explain(x, device="cuda").exchange == "runs"
        same(in_parts(dask_gpusort.sort(x, device="cuda")).compute(), np.sort(host))
        positions = in_parts(dask_gpusort.argsort(x % 1_000, device="cuda")).compute()
        same(positions, np.argsort(host % 1_000, kind="stable"))
        used = client.run(lambda: cupy.get_default_memory_pool().total_bytes())
        assert 0 < max(used.values()) <= limit
