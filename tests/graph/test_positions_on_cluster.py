"""Reads and writes at positions on a cluster: by tasks, and by kept runs."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import positions as ours_at
from support import strategies as ours

import dask_gpusort

distributed = pytest.importorskip("distributed")
kept_positions = pytest.importorskip("dask_gpusort.graph.runs.rows")


@pytest.mark.parametrize("exchange", ["auto", "tasks", "runs"])
@pytest.mark.parametrize("spread", ["random", "equal"])
def test_reads(on_cluster, exchange, spread, monkeypatch):
    monkeypatch.setattr(kept_positions, "PORTION_REQUESTS", 100)
    array = ours.make("f8", 1000, "special")
    indices = ours_at.indices_below(1000, (700,), "i8", 0, spread)
    x, at = da.from_array(array, chunks=90), da.from_array(indices, chunks=110)
    found = ours_at.built(dask_gpusort.take_along_axis, exchange, 5, x, at, 0)
    oracle.assert_same_bits(found.compute(), array[indices])
    said = ours_at.built(dask_gpusort.explain_take_along_axis, exchange, 5, x, at, 0)
    assert (said.exchange == "runs") == ("by runs that workers keep" in said.detail) == (exchange == "runs")
    rows = da.from_array(array.reshape(100, 10), chunks=(30, 4))
    found = ours_at.built(dask_gpusort.take, exchange, 3, rows, at.reshape(70, 10) % 100, 0)
    oracle.assert_same_bits(found.compute(), array.reshape(100, 10)[indices.reshape(70, 10) % 100])
    none = ours_at.built(dask_gpusort.take, exchange, 3, x, at[:0])
    assert none.compute().shape == (0,)


@pytest.mark.parametrize("dtype", [object, "U4", ours.PLAIN_RECORD])
def test_elements_of_any_dtype(on_cluster, dtype):
    array = ours.make(np.dtype(dtype), 90, "bits")
    indices = np.random.default_rng(0).permutation(90)
    x, at = ours.dask_array(array, 20), da.from_array(indices, chunks=16)
    found = ours_at.built(dask_gpusort.take, "runs", 3, x, at)
    oracle.assert_same_bits(found.compute(), array[indices])


@pytest.mark.parametrize("exchange", ["auto", "tasks", "runs"])
def test_writes(on_cluster, exchange, monkeypatch):
    monkeypatch.setattr(kept_positions, "PORTION_REQUESTS", 100)
    rng = np.random.default_rng(0)
    array, indices, values = rng.random(1000), rng.integers(-1000, 1000, 3000), rng.random(3000)
    x, at, some = (da.from_array(one, chunks=90) for one in (array, indices, values))
    found = ours_at.built(dask_gpusort.put_along_axis, exchange, 5, x, at, some, 0)
    array[indices] = values
    oracle.assert_same_bits(found.compute(), array)
