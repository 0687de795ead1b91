"""NumPy chunks sorted on a GPU: copies through pinned memory, and results with the bits of a sort on the host."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.dask_gpu import delay

import dask_gpusort

cupy = pytest.importorskip("cupy")
staging = pytest.importorskip("dask_gpusort.chunk.cupy_staging")
pytestmark = pytest.mark.gpu

DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[ns]", ">i8", ">f2", ">c16", ">M8[D]"]
THREADS = 16
#: Some milliseconds.
TICKS = 20_000_000


def native(array: np.ndarray) -> np.ndarray:
    """The array as the device holds it."""
    array = array.view(array.dtype.str[0] + "i8") if array.dtype.kind in "mM" else array
    return array.astype(array.dtype.newbyteorder("="))


def same(found: Any, wanted: np.ndarray) -> None:
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert np.array_equal(
        np.ascontiguousarray(found).reshape(-1).view(np.uint8), np.ascontiguousarray(wanted).reshape(-1).view(np.uint8)
    )


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    """Small pieces, so that small arrays are copied in many; gives the bytes of one."""
    monkeypatch.setattr(staging, "PIECE_BYTES", 1 << 16)
    monkeypatch.setattr(staging, "SMALL_BYTES", 1 << 12)
    return staging.PIECE_BYTES


@pytest.fixture(autouse=True, scope="module")
def several_groups() -> Iterator[None]:
    with dask.config.set({"gpusort.groups": 5, "scheduler": "threads", "num_workers": THREADS}):
        yield


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_around_a_piece(dtype: str, small_pieces: int) -> None:
    piece = small_pieces // np.dtype(dtype).itemsize
    small = staging.SMALL_BYTES // np.dtype(dtype).itemsize
    for n in {0, 1, small - 1, small, *(count * piece + more for count in (1, 2, 3, 9) for more in (-1, 0, 1))}:
        host = ours.make(dtype, n, "bits", n)
        on_device = staging.to_device(host)
        same(cupy.asnumpy(on_device), native(host))
        same(staging.to_host(on_device, host.dtype), host)


@pytest.mark.parametrize("dtype", ["u1", "i8", ">f4"])
def test_pieces_of_full_size(dtype: str) -> None:
    piece = staging.PIECE_BYTES // np.dtype(dtype).itemsize
    for n in (piece - 1, piece, 2 * piece + 1, 5 * piece):
        host = ours.make(dtype, n, "bits", n)
        same(staging.to_host(staging.to_device(host), host.dtype), host)


@pytest.mark.parametrize("dtype", ["f8", ">i4", "M8[s]"])
def test_strides_and_dimensions(dtype: str, small_pieces: int) -> None:
    whole = ours.make(dtype, 6 * 9_000, "bits").reshape(2, 9_000, 3)
    for host in (whole[:, ::2], whole[::-1], whole.T, whole[0, :, 1], np.asfortranarray(whole), whole[:, :0]):
        on_device = staging.to_device(host)
        assert on_device.flags.c_contiguous
        same(cupy.asnumpy(on_device), native(host))
    on_device = staging.to_device(whole)
    for part in (np.s_[:, ::2], np.s_[::-1], np.s_[0, :, 1], np.s_[:, :0], np.s_[0, 0, 0, ...]):
        same(staging.to_host(on_device[part], whole.dtype), whole[part])
    same(staging.to_host(on_device.T, whole.dtype), whole.T)


@pytest.mark.parametrize("dtype", ["M8[s]", ">m8[ms]"])
@pytest.mark.parametrize("n", [5, 100_000])
def test_shift_wraps_around(dtype: str, n: int, small_pieces: int) -> None:
    host = np.concatenate([ours.special(np.dtype(dtype)), ours.make(dtype, n, "bits")])
    shifted = staging.to_device(host, -1)
    same(cupy.asnumpy(shifted), (native(host).view("u8") - np.uint64(1)).view("i8"))
    same(staging.to_host(shifted, host.dtype, 1), host)


def test_many_threads_at_once(small_pieces: int) -> None:
    hosts = [ours.make("i8", 1_000 * n, "bits", n) for n in range(4 * THREADS)]
    started = Barrier(THREADS)

    def there_and_back(number: int) -> list[np.ndarray]:
        started.wait(60)
        return [staging.to_host(staging.to_device(host), host.dtype) for host in hosts[number::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        for number, found in enumerate(pool.map(there_and_back, range(THREADS))):
            for one, wanted in zip(found, hosts[number::THREADS], strict=True):
                same(one, wanted)


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


def test_any_stream_may_read_the_result(small_pieces: int) -> None:
    host = ours.make("i8", 1 << 20, "bits")
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for _ in range(20):
        with first:
            on_device = staging.to_device(host)
        with second:
            copied = on_device.copy()
            same(cupy.asnumpy(copied), host)


def test_no_memory_is_leaked(small_pieces: int) -> None:
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


def keys_of(dtype: str, n: int) -> np.ndarray:
    """Special values, ties and random bits."""
    parts = [ours.special(np.dtype(dtype)), ours.make(dtype, n // 2, "few"), ours.make(dtype, n // 2, "bits")]
    return np.random.default_rng(n).permutation(np.concatenate(parts))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts_have_the_bits_of_the_host(dtype: str, descending: bool, small_pieces: int) -> None:
    host = keys_of(dtype, 60_000)
    for chunks in (7_001, -1):
        x = da.from_array(host, chunks=chunks)
        for stable in (False, True):
            options = {"descending": descending, "stable": stable}
            found = dask_gpusort.sort(x, device="cuda", **options)
            assert found.chunks == x.chunks
            same(found.compute(), dask_gpusort.sort(x, **options).compute())
        found = dask_gpusort.argsort(x, descending=descending, device="cuda").compute()
        same(found, dask_gpusort.argsort(x, descending=descending).compute())


@pytest.mark.parametrize("exchange", ["gather", "tasks"])
@pytest.mark.parametrize("dtype", ["f4", "M8[s]", ">i8", "c16"])
def test_sort_by_key(dtype: str, exchange: str, small_pieces: int) -> None:
    host = keys_of(dtype, 40_000)
    arrays = [host, *(ours.make(kind, len(host), "bits") for kind in ("M8[D]", ">i4", "f8", "?"))]
    rows = np.arange(2 * len(host)).reshape(-1, 2)
    given = [da.from_array(array, chunks=3_000) for array in (*arrays, rows)]
    found = dask_gpusort.sort_by_key(*given, exchange=exchange, device="cuda")
    for one, wanted in zip(dask.compute(*found), dask.compute(*dask_gpusort.sort_by_key(*given)), strict=True):
        same(one, wanted)


@pytest.mark.parametrize("dtypes", [("M8[s]", "i4"), ("f8", ">m8[s]", "?"), ("c16", "M8[s]"), ("u1", "f2")], ids=str)
def test_lexsort(dtypes: tuple[str, ...], small_pieces: int) -> None:
    arrays = [da.from_array(ours.make(dtype, 30_000, "few", 3), chunks=4_001) for dtype in dtypes]
    for descending in (False, True, [number % 2 == 0 for number in range(len(dtypes))]):
        found = dask_gpusort.lexsort(arrays, descending=descending, device="cuda").compute()
        same(found, dask_gpusort.lexsort(arrays, descending=descending).compute())


@pytest.mark.parametrize("dtype", ["f4", ">i8", "M8[s]", "c16"])
def test_merge_sorted(dtype: str, small_pieces: int) -> None:
    sizes = (20_000, 0, 7_001)
    arrays = [da.from_array(np.sort(ours.make(dtype, n, "few", n)), chunks=3_001) for n in sizes]
    found = dask_gpusort.merge_sorted(*arrays, device="cuda").compute()
    same(found, dask_gpusort.merge_sorted(*arrays).compute())


@pytest.mark.parametrize("limit", ["128MiB", "8B"])
@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("dtype", ["f8", "M8[s]", ">u2"])
def test_rows(dtype: str, axis: int | None, limit: str) -> None:
    x = da.from_array(keys_of(dtype, 8_400)[:8_400].reshape(7, 30, 40), chunks=(4, 20, 11))
    with dask.config.set({"array.chunk-size": limit}):
        for function in (dask_gpusort.sort, dask_gpusort.argsort):
            found, wanted = function(x, axis, device="cuda"), function(x, axis)
            assert found.chunks == wanted.chunks
            same(found.compute(), wanted.compute())


def test_unknown_sizes_and_empty_chunks() -> None:
    host = keys_of("i4", 30_000)
    x = da.from_array(host, chunks=((10_000, 0, len(host) - 10_000),))
    same(dask_gpusort.sort(x, device="cuda").compute(), np.sort(host))
    chosen = x[x % 3 == 0]
    same(dask_gpusort.sort(chosen, device="cuda").compute(), np.sort(host[host % 3 == 0]))
    same(dask_gpusort.sort(x[:0], device="cuda").compute(), host[:0])


def test_arrays_without_dimensions() -> None:
    x = da.from_array(np.array(2.5))
    assert dask_gpusort.argsort(x, device="cuda").compute() == 0
    same(dask_gpusort.sort(x, None, device="cuda").compute(), np.array([2.5]))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_key_functions_take_the_chunks_of_the_host(count: int, descending: bool, small_pieces: int) -> None:
    def key(block: Any) -> Any:
        assert type(block) is np.ndarray
        parts = (block.astype("M8[s]"), block % 7, -block)[:count]
        return parts if count > 1 else parts[0]

    x = da.from_array(ours.make("i8", 30_000, "few"), chunks=4_001)
    for function in (dask_gpusort.sort, dask_gpusort.argsort):
        found = function(x, key=key, descending=descending, device="cuda").compute()
        same(found, function(x, key=key, descending=descending).compute())


def test_less_is_an_expression() -> None:
    host = ours.make("i8", 30_000, "bits") % 1000
    x = da.from_array(host, chunks=4_001)
    found = dask_gpusort.sort(x, less="a % 10 < b % 10", device="cuda").compute()
    same(found, dask_gpusort.sort(x, less=lambda a, b: np.fmod(a, 10) < np.fmod(b, 10)).compute())


def test_chunks_on_the_device_stay_there() -> None:
    host = keys_of("f8", 30_000)
    on_device = da.from_array(cupy.asarray(host), chunks=4_001, asarray=False)
    found = dask_gpusort.sort(on_device, device="cuda").compute()
    assert isinstance(found, cupy.ndarray)
    keys, moved = dask.compute(*dask_gpusort.sort_by_key(da.from_array(host, chunks=4_001), on_device, device="cuda"))
    assert type(keys) is np.ndarray
    assert isinstance(moved, cupy.ndarray)
    same(cupy.asnumpy(moved), keys)


def test_the_setting_gives_the_default() -> None:
    host = keys_of("i8", 30_000)
    with dask.config.set({"gpusort.device": "cuda"}):
        found = dask_gpusort.sort(da.from_array(host, chunks=4_001))
        assert any(str(key).startswith("('copy_to_device") for key in dict(found.__dask_graph__()))
        same(found.compute(), np.sort(host))


def test_repeated_sorts_leak_no_memory(small_pieces: int) -> None:
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
