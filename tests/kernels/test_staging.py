"""Whole sorts with ``device="cuda"``: the bits of a sort on the host, with kernels on the host, and on a GPU.

Chunks that fit the device stay there between two copies; others are copied for each step of the sort.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.host_cuda import HostArray
from support.host_kernels import replace_cupy_of_steps, use_small_merges
from support.staged import DTYPES, keys_of, same

import dask_gpusort
from dask_gpusort.builders import global_sort, staging
from dask_gpusort.chunk import run
from dask_gpusort.graph import runtime

cupy_ops = pytest.importorskip("dask_gpusort.chunk.cupy_ops", reason="no CuPy: install dask_gpusort[cu13]")
steps = pytest.importorskip("dask_gpusort.chunk.cupy_staged_ops")
copies = pytest.importorskip("dask_gpusort.chunk.cupy_staging")

#: Chunks stay on the stand-in, or are copied for each step.
ON_HOST = "together", "in steps"


class Size(NamedTuple):
    """Keys of an array of one dimension, of a chunk of it, and the shape and the chunks of an array of several."""

    keys: int
    chunk: int
    shape: tuple[int, ...]
    chunks: tuple[int, ...]


SMALL, LARGE = Size(160, 70, (6, 40), (4, 15)), Size(60_000, 7_001, (7, 30, 40), (4, 20, 11))


def by_dtype(on_host, on_gpu):
    """Give the fixture `size`, with some dtypes on the host, whose kernels take long to compile, and more on a GPU."""
    cases = [pytest.param(mode, dtype) for mode in ON_HOST for dtype in on_host]
    cases += [pytest.param("gpu", dtype, marks=pytest.mark.gpu) for dtype in on_gpu]
    return pytest.mark.parametrize(("size", "dtype"), cases, indirect=["size"])


def replace_staging(monkeypatch, device):
    """Give the host device's arrays CuPy's type and copy them at once; returns the stand-in for `cupy_staging`."""
    use_small_merges(monkeypatch)
    replace_cupy_of_steps(monkeypatch, device.cupy)
    monkeypatch.setattr(cupy_ops, "synchronize", lambda: None)
    monkeypatch.setattr(HostArray, "__module__", "cupy")
    concatenate = run.concatenate
    # NumPy's concatenation of a subclass gives NumPy's own arrays; CuPy's gives CuPy's.
    monkeypatch.setattr(run, "concatenate", lambda arrays: concatenate(arrays).view(type(arrays[0])))

    def to_device(array, shift=0):
        result = device.empty(array.shape, copies.device_dtype(array.dtype))
        copies._copy(result.reshape(-1), copies._flat(array), shift)
        return result

    def to_host(array, dtype, shift=0):
        assert isinstance(array, HostArray)
        result = np.empty(array.shape, dtype)
        copies._copy(copies._flat(result), np.asarray(array).reshape(-1), shift)
        return result

    found = SimpleNamespace(
        to_device=to_device,
        to_device_joined=lambda arrays: list(map(to_device, arrays)),
        to_host=to_host,
        device_dtype=copies.device_dtype,
        empty=lambda dtype, shape: device.empty(shape, dtype),
        metadata_without_device=nullcontext,
    )
    monkeypatch.setattr(staging, "_copies", lambda: found)
    return found


def stage_in_steps(monkeypatch, device, stand_in):
    """Copy chunks for each step, as if they did not fit the device."""
    monkeypatch.setattr(steps, "cupy_staging", stand_in)
    monkeypatch.setattr(steps, "cupy", SimpleNamespace(cuda=device.cupy.cuda))
    monkeypatch.setattr(steps, "usable_bytes", lambda: 1 << 16)
    monkeypatch.setattr(staging, "require_cupy", lambda: None)
    monkeypatch.setattr(global_sort, "fits_devices", lambda *given: False)
    monkeypatch.setattr(runtime, "own_device_memory", lambda: 1 << 16)


@pytest.fixture(autouse=True, params=[*ON_HOST, pytest.param("gpu", marks=pytest.mark.gpu)])
def size(request, monkeypatch):
    """Sizes for a device; on a GPU, pieces are so small that arrays are copied in many."""
    if request.param == "gpu":
        monkeypatch.setattr(copies, "PIECE_BYTES", 1 << 16)
        monkeypatch.setattr(copies, "SMALL_BYTES", 1 << 12)
        with dask.config.set({"gpusort.groups": 5, "scheduler": "threads", "num_workers": 16}):
            yield LARGE
        return
    device = request.getfixturevalue("host")
    stand_in = replace_staging(monkeypatch, device)
    if request.param == "in steps":
        stage_in_steps(monkeypatch, device, stand_in)
    with dask.config.set({"gpusort.groups": 2, "scheduler": "synchronous"}):
        yield SMALL


def check(function, *arrays, **options):
    """Compare the arrays that a function gives with those that the host makes."""
    found, wanted = function(*arrays, device="cuda", **options), function(*arrays, **options)
    found, wanted = (one if isinstance(one, tuple) else (one,) for one in (found, wanted))
    for darr, own, got, expected in zip(found, wanted, dask.compute(*found), dask.compute(*wanted), strict=True):
        assert darr.chunks == own.chunks
        same(got, expected)


SORTS = dask_gpusort.sort, dask_gpusort.argsort


@pytest.mark.parametrize("descending", [False, True])
@by_dtype(["?", "i2", "M8[s]", ">f4", "f8", "c8", "c16"], DTYPES)
def test_sort_and_argsort(size, dtype, descending):
    host = keys_of(dtype, size.keys)
    for chunks in (size.chunk, -1):
        for function in SORTS:
            for stable in (False, True):
                check(function, ours.dask_array(host, chunks), descending=descending, stable=stable)


@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks"])
@by_dtype(["i8"], ["f4", "M8[s]", ">i8", "c16"])
def test_sort_by_key(size, dtype, exchange):
    host = keys_of(dtype, size.keys)
    arrays = [host, *(ours.make(kind, len(host), "bits") for kind in ("M8[D]", ">i4", "f8", "?"))]
    rows = np.arange(2 * len(host)).reshape(-1, 2)
    given = [ours.dask_array(array, size.chunk) for array in (*arrays, rows)]
    check(dask_gpusort.sort_by_key, *given, exchange=exchange)
    check(dask_gpusort.sort_by_key, *given[:2], exchange=exchange)


@by_dtype([("M8[s]", "i8")], [("M8[s]", "i4"), ("f8", ">m8[s]", "?"), ("c16", "M8[s]"), ("u1", "f2")])
def test_several_keys(size, dtype):
    arrays = [ours.dask_array(ours.make(one, size.keys // 2, "few", 3), size.chunk) for one in dtype]
    mixed = [number % 2 == 0 for number in range(len(dtype))]
    for descending in (False, True, mixed):
        check(lambda *given, **options: dask_gpusort.lexsort(given, **options), *arrays, descending=descending)
    check(lambda *given, **options: dask_gpusort.sort_by_key(given, given[0], **options), *arrays, descending=mixed)


@by_dtype(["f4"], ["f4", ">i8", "M8[s]", "c16"])
def test_merge_sorted(size, dtype):
    sizes = (size.keys // 3, 0, size.keys // 9)
    check(
        dask_gpusort.merge_sorted,
        *(ours.dask_array(np.sort(ours.make(dtype, n, "few", n)), size.chunk // 2) for n in sizes),
    )


@pytest.mark.parametrize("limit", ["128MiB", "8B"])
@by_dtype(["f4", "M8[s]", "c16"], ["f8", "M8[s]", ">u2"])
def test_rows(size, dtype, limit):
    count = np.prod(size.shape)
    x = ours.dask_array(keys_of(dtype, count)[:count].reshape(size.shape), size.chunks)
    with dask.config.set({"array.chunk-size": limit}):
        for axis in (*range(x.ndim), None):
            for function in SORTS:
                check(function, x, axis=axis)
        check(dask_gpusort.sort_by_key, x, x)


@by_dtype(["i8", ">i4", "m8[s]"], ["i8"])
def test_less_is_an_expression(size, dtype):
    x = ours.dask_array((ours.make("i8", size.keys // 2, "bits") % 1000).astype(dtype), size.chunk)
    for function in SORTS:
        found = function(x, less="a % 10 < b % 10", device="cuda")
        wanted = function(x, less=lambda a, b: np.fmod(a.astype("i8"), 10) < np.fmod(b.astype("i8"), 10))
        same(found.compute(), wanted.compute())


def test_unknown_sizes_and_empty_chunks(size):
    host = keys_of("i4", size.keys)
    x = ours.dask_array(host, ((size.chunk, 0, len(host) - size.chunk),))
    for one in (x, x[x % 3 == 0], x[:0]):
        same(dask_gpusort.sort(one, device="cuda").compute(), np.sort(one.compute()))


def test_arrays_without_dimensions():
    x = da.from_array(np.array(2.5))
    assert dask_gpusort.argsort(x, device="cuda").compute() == 0
    same(dask_gpusort.sort(x, None, device="cuda").compute(), np.array([2.5]))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_key_functions_take_the_chunks_of_the_host(size, count, descending):
    def key(block):
        assert type(block) is np.ndarray
        parts = (block.astype("M8[s]"), block % 7, -block)[:count]
        return parts if count > 1 else parts[0]

    x = ours.dask_array(ours.make("i8", size.keys // 2, "few"), size.chunk)
    for function in SORTS:
        check(function, x, key=key, descending=descending)


def test_the_setting_gives_the_default(size):
    host = keys_of("i8", size.keys)
    with dask.config.set({"gpusort.device": "cuda"}):
        found = dask_gpusort.sort(ours.dask_array(host, size.chunk))
        assert size is SMALL or any(str(key).startswith("('copy_to_device") for key in dict(found.__dask_graph__()))
        same(found.compute(), np.sort(host))
