"""Copies through pinned memory, on a stand-in of CuPy whose copies run as late as CUDA allows."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support import strategies as ours
from support.late_cupy import LateCupy

staging = pytest.importorskip("dask_gpusort.chunk.cupy_staging", reason="no CuPy: install dask_gpusort[cu13]")

PIECE_BYTES = 256
DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[ns]", ">i8", ">f2", ">c16", ">M8[D]"]


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    """The stand-in, with small pieces. Every pinned buffer is back in the pool after the test."""
    late = LateCupy()
    monkeypatch.setattr(staging, "cupy", late)
    monkeypatch.setattr(staging, "PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(staging, "SMALL_BYTES", PIECE_BYTES // 2)
    monkeypatch.setattr(staging, "_streams", staging._Streams())
    yield late
    gc.collect()
    assert late.pinned == 0


def native(array):
    """The array as the device holds it."""
    array = array.view(array.dtype.str[0] + "i8") if array.dtype.kind in "mM" else array
    return array.astype(array.dtype.newbyteorder("="))


def assert_same(found, wanted):
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.flags.c_contiguous
    assert found.tobytes() == wanted.tobytes()


def sizes(dtype):
    """Sizes around a small array, a piece, and the two buffers."""
    piece = PIECE_BYTES // np.dtype(dtype).itemsize
    return sorted({0, 1, piece // 2 - 1, piece // 2, *(n * piece + d for n in (1, 2, 3, 7) for d in (-1, 0, 1))})


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_there_and_back(cupy, dtype):
    for n in sizes(dtype):
        host = ours.make(dtype, n, "bits", n)
        kept = host.copy()
        on_device = staging.to_device(host)
        assert isinstance(on_device, cupy.ndarray)
        # The device's copy is complete: nothing that the host does now can change it.
        host.view("V1").ravel()[...] = b"\xff"
        assert_same(on_device.view(np.ndarray), native(kept))
        back = staging.to_host(cupy.on_device(native(kept)), kept.dtype)
        assert type(back) is np.ndarray
        assert_same(back, kept)


@pytest.mark.parametrize("counts", [[0], [0, 0, 3], [5, 0, 1, 90, 0], [1] * 200, [300, 1, 0, 257, 31]])
@pytest.mark.parametrize("dtype", ["u1", "f8", ">i4", "M8[s]"])
def test_joined_arrays_are_neighbours(cupy, dtype, counts):
    for shape in ((), (3,)):
        hosts = [ours.make(dtype, n * 3, "bits", n).reshape(-1, 3)[:, :1] for n in counts]
        hosts = [host[:, 0] if not shape else np.repeat(host, 3, axis=1) for host in hosts]
        joined = staging.to_device_joined(hosts)
        for host, found in zip(hosts, joined, strict=True):
            assert_same(found.view(np.ndarray), native(host))
        filled = [found for found in joined if found.size]
        starts = [found.__array_interface__["data"][0] for found in filled]
        assert starts == [starts[0] + sum(found.nbytes for found in filled[:n]) for n in range(len(filled))]


@pytest.mark.parametrize("dtype", ["u1", "f8", ">i4", "M8[s]"])
@pytest.mark.parametrize("n", [3, 400])
def test_strides_and_dimensions(cupy, dtype, n):
    whole = ours.make(dtype, 6 * n, "bits").reshape(2, n, 3)
    views = [whole[:, ::2], whole[::-1], whole.T, whole[0, :, 1], np.asfortranarray(whole), whole[0, 0, 0, ...]]
    for host in views:
        assert_same(staging.to_device(host).view(np.ndarray), native(np.ascontiguousarray(host).reshape(host.shape)))
        strided = native(whole)
        view = strided[:, ::2] if host is views[0] else strided.T
        wanted = np.ascontiguousarray(view).astype(whole.dtype if whole.dtype.kind not in "mM" else view.dtype)
        found = staging.to_host(cupy.on_device(view), wanted.dtype)
        assert_same(found, wanted)


def test_no_dimension():
    for value in (np.float32(2.5), np.datetime64("NaT", "s"), np.True_):
        host = np.array(value)
        on_device = staging.to_device(host)
        assert on_device.shape == ()
        assert_same(staging.to_host(on_device, host.dtype), host)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]", ">M8[D]", "i8"])
@pytest.mark.parametrize("n", [5, 1_000])
def test_shift_wraps_around(dtype, n):
    host = np.concatenate([ours.special(np.dtype(dtype)), ours.make(dtype, n, "bits")])
    shifted = staging.to_device(host, -1)
    assert_same(shifted.view(np.ndarray), (native(host).view("u8") - np.uint64(1)).view("i8"))
    assert_same(staging.to_host(shifted, host.dtype, 1), host)


def test_many_threads_share_the_pool(cupy):
    hosts = [ours.make("i8", 50 * n, "bits", n) for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        on_device = list(pool.map(staging.to_device, hosts))
        back = list(pool.map(lambda array: staging.to_host(array, np.dtype("i8")), on_device))
    for host, found in zip(hosts, back, strict=True):
        assert_same(found, host)


def test_pinned_buffers_return_after_an_error(cupy):
    host = np.arange(1_000)
    with pytest.raises(TypeError):
        staging.to_device(host, "one")
    with pytest.raises(TypeError):
        staging.to_host(cupy.on_device(host), host.dtype, "one")
    assert_same(staging.to_device(host).view(np.ndarray), host)


def test_small_arrays_take_no_pinned_memory(cupy, monkeypatch):
    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", None)
    host = np.arange(PIECE_BYTES // 16 - 1)
    assert_same(staging.to_host(staging.to_device(host), host.dtype), host)
