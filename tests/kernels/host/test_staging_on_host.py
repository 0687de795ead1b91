"""Whole sorts with ``device="cuda"``, with kernels on the CPU.

Chunks that fit the device stay there between two copies; others are copied for each step of the sort.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.host_cuda import HostArray
from support.host_kernels import replace_cupy_of_steps, use_small_merges
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.builders import global_sort, staging
from dask_gpusort.chunk import run
from dask_gpusort.graph import runtime

cupy_ops = pytest.importorskip("dask_gpusort.chunk.cupy_ops", reason="no CuPy: install dask_gpusort[cu13]")
steps = pytest.importorskip("dask_gpusort.chunk.cupy_staged_ops")
copies = pytest.importorskip("dask_gpusort.chunk.cupy_staging")


def replace_staging(monkeypatch, device):
    """Give the host device's arrays CuPy's type and copy them at once; returns the stand-in for `cupy_staging`."""
    use_small_merges(monkeypatch)
    replace_cupy_of_steps(monkeypatch, device.cupy)
    monkeypatch.setattr(cupy_ops, "synchronize", lambda: None)
    monkeypatch.setattr(HostArray, "__module__", "cupy")

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


@pytest.fixture(autouse=True, params=["together", "in steps"])
def chunks_on_the_device(request, device, monkeypatch):
    stand_in = replace_staging(monkeypatch, device)
    if request.param == "together":
        return
    concatenate = run.concatenate
    # NumPy's concatenation of a subclass gives NumPy's own arrays; CuPy's gives CuPy's.
    monkeypatch.setattr(run, "concatenate", lambda arrays: concatenate(arrays).view(type(arrays[0])))

    monkeypatch.setattr(steps, "cupy_staging", stand_in)
    monkeypatch.setattr(steps, "cupy", SimpleNamespace(cuda=device.cupy.cuda))
    monkeypatch.setattr(steps, "usable_bytes", lambda: 1 << 16)
    monkeypatch.setattr(staging, "require_cupy", lambda: None)
    monkeypatch.setattr(global_sort, "fits_join", lambda *given: False)
    monkeypatch.setattr(runtime, "own_device_memory", lambda: 1 << 16)


def same(found, wanted):
    assert type(found) is np.ndarray
    oracle.assert_same_bits(found, wanted)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["?", "i2", "M8[s]", ">f4", "f8", "c8", "c16"])
def test_sort_and_argsort(dtype, descending):
    host = np.concatenate([ours.special(np.dtype(dtype)), ours.make(dtype, 120, "few")])
    x = ours.dask_array(host, 50)
    with groups(2):
        for function in (dask_gpusort.sort, dask_gpusort.argsort):
            for stable in (False, True):
                found = function(x, descending=descending, stable=stable, device="cuda")
                same(computed(found), computed(function(x, descending=descending, stable=stable)))


def test_companions_and_several_keys():
    keys, dates = ours.dask_array(ours.make("i8", 150, "few"), 50), ours.dask_array(ours.make("M8[s]", 150, "few"), 50)
    directions = {"descending": [True, False]}
    with groups(2):
        for given, options in (((keys, dates), {}), (((dates, keys), keys), directions)):
            found = dask_gpusort.sort_by_key(*given, **options, device="cuda")
            for one, wanted in zip(found, dask_gpusort.sort_by_key(*given, **options), strict=True):
                same(computed(one), computed(wanted))
        found = dask_gpusort.lexsort((dates, keys), **directions, device="cuda")
        same(computed(found), computed(dask_gpusort.lexsort((dates, keys), **directions)))


@pytest.mark.parametrize("dtype", ["i8", ">i4", "m8[s]"])
def test_less_is_an_expression(dtype):
    x = ours.dask_array((ours.make("i8", 150, "few") % 1000).astype(dtype), 50)

    def less(a, b):
        return np.fmod(a.astype("i8"), 10) < np.fmod(b.astype("i8"), 10)

    with groups(2):
        for function in (dask_gpusort.sort, dask_gpusort.argsort):
            found = function(x, less="a % 10 < b % 10", device="cuda")
            same(computed(found), computed(function(x, less=less)))


@pytest.mark.parametrize("dtype", ["f4", "M8[s]", "c16"])
def test_rows(dtype):
    x = ours.dask_array(ours.make(dtype, 6 * 40, "special").reshape(6, 40), (4, 15))
    for limit in ("128MiB", "8B"):
        with groups(2), dask.config.set({"array.chunk-size": limit}):
            for function in (dask_gpusort.sort, dask_gpusort.argsort):
                same(computed(function(x, device="cuda")), computed(function(x)))
    found, wanted = dask_gpusort.sort_by_key(x, x, device="cuda"), dask_gpusort.sort_by_key(x, x)
    for one, other in zip(found, wanted, strict=True):
        same(computed(one), computed(other))
