"""Whole sorts with ``device="cuda"``, with kernels on the CPU: the graph of CuPy chunks between two copies."""

from __future__ import annotations

import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.host_staging import replace_staging
from support.sorting import computed, groups

import dask_gpusort

cupy_ops = pytest.importorskip("dask_gpusort.chunk.cupy_ops", reason="no CuPy: install dask_gpusort[cu13]")
copies = pytest.importorskip("dask_gpusort.chunk.cupy_staging")


@pytest.fixture(autouse=True)
def cupy(device, monkeypatch):
    """Chunks of the device have CuPy's type, and are copied at once."""
    replace_staging(monkeypatch, device, cupy_ops, copies)


def same(found, wanted):
    assert type(found) is np.ndarray
    oracle.assert_same_bits(found, wanted)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["M8[s]", ">f4"])
def test_sort_and_argsort(dtype, descending):
    host = np.concatenate([ours.special(np.dtype(dtype)), ours.make(dtype, 120, "few")])
    x = ours.dask_array(host, 50)
    with groups(2):
        for function in (dask_gpusort.sort, dask_gpusort.argsort):
            found = function(x, descending=descending, device="cuda")
            same(computed(found), computed(function(x, descending=descending)))


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
        moved = dask_gpusort.sort_by_key((dates, keys), keys, descending=directions, device="cuda")
        wanted = dask_gpusort.sort_by_key((dates, keys), keys, descending=directions)
        for one, other in zip(moved, wanted, strict=True):
            same(computed(one), computed(other))


def test_less_is_an_expression():
    x = ours.dask_array(ours.make("i8", 150, "few") % 1000, 50)
    with groups(2):
        found = dask_gpusort.sort(x, less="a % 10 < b % 10", device="cuda")
        same(computed(found), computed(dask_gpusort.sort(x, less=lambda a, b: np.fmod(a, 10) < np.fmod(b, 10))))
