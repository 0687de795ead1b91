"""Reads and writes at positions on a cluster: by tasks, and by kept runs; larger than the memory of the workers."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import positions as ours_at
from support import strategies as ours

import dask_gpusort

distributed = pytest.importorskip("distributed")
kept_positions = pytest.importorskip("dask_gpusort.graph.runs.rows")

MIB = 1 << 20
WORKER_MEMORY = 472 * MIB
CHUNK_KEYS, NUM_CHUNKS = MIB, 64


@pytest.mark.parametrize("exchange", ["auto", "tasks", "runs"])
@pytest.mark.parametrize("spread", ["random", "equal"])
def test_reads(on_cluster, exchange, spread, monkeypatch):
    monkeypatch.setattr(kept_positions, "PORTION_REQUESTS", 100)
    array = ours.make("f8", 1000, "special")
    indices = ours_at.indices_below(1000, (700,), "i8", 0, spread)
    x, at = da.from_array(array, chunks=90), da.from_array(indices, chunks=110)
    found = ours_at.built(dask_gpusort.take_along_axis, exchange, 5, x, at, 0)
    oracle.assert_same_bits(found.compute(), array[indices])
    text = ours_at.built(dask_gpusort.explain_take_along_axis, exchange, 5, x, at, 0)
    assert ("by runs that workers keep" in text) == (exchange == "runs")
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


def chunk_of(number, function):
    start = number[0] * CHUNK_KEYS
    return function(np.arange(start, start + CHUNK_KEYS))


def element(positions):
    return positions * 2654435761 ^ positions >> 7


def index(positions):
    """A permutation: the multiplier is odd, and the size a power of two."""
    return (positions * 1000003 + 12345) % (CHUNK_KEYS * NUM_CHUNKS)


def test_larger_than_memory(tmp_path):
    zarr = pytest.importorskip("zarr")
    config = {"temporary-directory": str(tmp_path), "distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set(config),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=WORKER_MEMORY, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        x, at = (
            da.map_blocks(
                lambda function, block_id=None: chunk_of(block_id, function),
                function,
                chunks=((CHUNK_KEYS,) * NUM_CHUNKS,),
                dtype="i8",
                meta=np.empty(0, "i8"),
            )
            for function in (element, index)
        )
        assert x.nbytes + at.nbytes > 2 * WORKER_MEMORY
        dask_gpusort.take_along_axis(x, at, 0).to_zarr(str(tmp_path / "taken.zarr"))
    stored = zarr.open_array(str(tmp_path / "taken.zarr"), mode="r")
    for number in range(NUM_CHUNKS):
        part = slice(number * CHUNK_KEYS, (number + 1) * CHUNK_KEYS)
        assert np.array_equal(stored[part], element(chunk_of((number,), index)))
