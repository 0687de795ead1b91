"""Sorts of NumPy chunks that do not fit the device together, with kernels on the CPU."""

from __future__ import annotations

from types import SimpleNamespace

import dask
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.host_staging import replace_staging
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.chunk import run
from dask_gpusort.graph import runtime, staging
from dask_gpusort.graph.sort import global_sort

cupy_ops = pytest.importorskip("dask_gpusort.chunk.cupy_ops", reason="no CuPy: install dask_gpusort[cu13]")
steps = pytest.importorskip("dask_gpusort.chunk.cupy_staged_ops")
copies = pytest.importorskip("dask_gpusort.chunk.cupy_staging")


@pytest.fixture(autouse=True)
def cupy(device, monkeypatch):
    """Arrays of the device have CuPy's type, and are copied at once; no sort of all chunks fits the device."""
    stand_in = replace_staging(monkeypatch, device, cupy_ops, copies)
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
    with groups(2):
        for one, wanted in zip(
            dask_gpusort.sort_by_key(keys, dates, device="cuda"), dask_gpusort.sort_by_key(keys, dates), strict=True
        ):
            same(computed(one), computed(wanted))
        directions = [True, False]
        found = dask_gpusort.lexsort((dates, keys), descending=directions, device="cuda")
        same(computed(found), computed(dask_gpusort.lexsort((dates, keys), descending=directions)))


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
