"""Copies through pinned memory, on a stand-in of CuPy whose copies run as late as CUDA allows, and on a GPU."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
from support import strategies as ours
from support.late_cupy import LateCupy
from support.staged import DTYPES, native, same

staging = pytest.importorskip("dask_gpusort.chunk.cupy_staging", reason="no CuPy: install dask_gpusort[cu13]")

THREADS = 8


def use_pieces(patch, nbytes):
    """Pieces of so many bytes, and at least half a piece where a copy has pieces."""
    patch.setattr(staging, "PIECE_BYTES", nbytes)
    patch.setattr(staging, "SMALL_BYTES", nbytes // 2)


@pytest.fixture
def late(monkeypatch):
    """The stand-in, with small pieces. Every pinned buffer is back in the pool after the test."""
    cupy = LateCupy()
    monkeypatch.setattr(staging, "cupy", cupy)
    monkeypatch.setattr(staging, "_streams", staging._Streams())
    use_pieces(monkeypatch, 256)
    yield cupy
    gc.collect()
    assert cupy.pinned == 0


@pytest.fixture
def gpu(monkeypatch):
    """CuPy, with pieces of 64 KiB."""
    use_pieces(monkeypatch, 1 << 16)
    return staging.cupy


@pytest.fixture(params=["late", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request):
    """Copies of a library to the device and to the host, and addresses in the device's memory."""
    cupy = request.getfixturevalue(request.param)
    if request.param == "gpu":
        return SimpleNamespace(cupy=cupy, put=cupy.asarray, get=cupy.asnumpy, address=lambda array: array.data.ptr)
    return SimpleNamespace(
        cupy=cupy,
        put=cupy.on_device,
        get=lambda array: array.view(np.ndarray),
        address=lambda array: array.__array_interface__["data"][0],
    )


def sizes(dtype):
    """Sizes around a small array, a piece, and the two buffers."""
    piece = staging.PIECE_BYTES // np.dtype(dtype).itemsize
    return sorted({0, 1, piece // 2 - 1, piece // 2, *(n * piece + d for n in (1, 2, 3, 7) for d in (-1, 0, 1))})


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_there_and_back(device, dtype):
    for n in sizes(dtype):
        host = ours.make(dtype, n, "bits", n)
        kept = host.copy()
        on_device = staging.to_device(host)
        assert isinstance(on_device, device.cupy.ndarray)
        # The device's copy is complete: nothing that the host does now can change it.
        host.view("V1").ravel()[...] = b"\xff"
        same(device.get(on_device), native(kept))
        same(staging.to_host(device.put(native(kept)), kept.dtype), kept)


@pytest.mark.parametrize("counts", [[0], [0, 0, 3], [5, 0, 1, 90, 0], [1] * 200, [300, 1, 0, 257, 31], [20_000, 7]])
@pytest.mark.parametrize("dtype", ["u1", "f8", ">i4", "M8[s]"])
def test_joined_arrays_are_neighbours(device, dtype, counts):
    for shape in ((), (3,)):
        hosts = [ours.make(dtype, n * 3, "bits", n).reshape(-1, 3)[:, :1] for n in counts]
        hosts = [host[:, 0] if not shape else np.repeat(host, 3, axis=1) for host in hosts]
        joined = staging.to_device_joined(hosts)
        for host, found in zip(hosts, joined, strict=True):
            same(device.get(found), native(host))
        filled = [found for found in joined if found.size]
        starts = list(map(device.address, filled))
        assert starts == [starts[0] + sum(found.nbytes for found in filled[:n]) for n in range(len(filled))]


@pytest.mark.parametrize("dtype", ["u1", "f8", ">i4", "M8[s]"])
@pytest.mark.parametrize("n", [3, 400, 9_000])
def test_strides_and_dimensions(device, dtype, n):
    whole = ours.make(dtype, 6 * n, "bits").reshape(2, n, 3)
    parts = np.s_[:, ::2], np.s_[::-1], np.s_[0, :, 1], np.s_[:, :0], np.s_[0, 0, 0, ...]
    for host in (*(whole[part] for part in parts), whole.T, np.asfortranarray(whole)):
        on_device = staging.to_device(host)
        assert on_device.flags.c_contiguous
        same(device.get(on_device), native(host))
    on_device = device.put(native(whole))
    for part in parts:
        same(staging.to_host(on_device[part], whole.dtype), whole[part])
    same(staging.to_host(on_device.T, whole.dtype), whole.T)


@pytest.mark.usefixtures("device")
def test_no_dimension():
    for value in (np.float32(2.5), np.datetime64("NaT", "s"), np.True_):
        host = np.array(value)
        on_device = staging.to_device(host)
        assert on_device.shape == ()
        same(staging.to_host(on_device, host.dtype), host)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]", ">M8[D]", "i8"])
@pytest.mark.parametrize("n", [5, 1_000, 20_000])
def test_shift_wraps_around(device, dtype, n):
    host = np.concatenate([ours.special(np.dtype(dtype)), ours.make(dtype, n, "bits")])
    shifted = staging.to_device(host, -1)
    same(device.get(shifted), (native(host).view("u8") - np.uint64(1)).view("i8"))
    same(staging.to_host(shifted, host.dtype, 1), host)


@pytest.mark.usefixtures("device")
def test_many_threads_share_the_pool():
    hosts = [ours.make("i8", n * staging.PIECE_BYTES // 40, "bits", n) for n in range(5 * THREADS)]
    started = Barrier(THREADS)

    def there_and_back(number):
        started.wait(60)
        return [staging.to_host(staging.to_device(host), host.dtype) for host in hosts[number::THREADS]]

    with ThreadPoolExecutor(THREADS) as pool:
        for number, found in enumerate(pool.map(there_and_back, range(THREADS))):
            for one, wanted in zip(found, hosts[number::THREADS], strict=True):
                same(one, wanted)


def test_pinned_buffers_return_after_an_error(late):
    host = np.arange(1_000)
    with pytest.raises(TypeError):
        staging.to_device(host, "one")
    with pytest.raises(TypeError):
        staging.to_host(late.on_device(host), host.dtype, "one")
    same(staging.to_device(host).view(np.ndarray), host)


def test_small_arrays_take_no_pinned_memory(late, monkeypatch):
    monkeypatch.setattr(late.cuda, "alloc_pinned_memory", None)
    host = np.arange(staging.PIECE_BYTES // 16 - 1)
    same(staging.to_host(staging.to_device(host), host.dtype), host)
