"""An array larger than the memory of all workers is sorted to Zarr and then verified without Dask."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle

import dask_gpusort
from dask_gpusort.graph.runtime import workers_of_cluster

distributed = pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")

MIB = 1 << 20

#: Python, NumPy and Dask alone need some 170 MiB, 70 of them for xarray and pandas, which Dask imports where they are
#: installed. So a worker with a lower limit would be paused.
WORKER_MEMORY = 472 * MIB
WORKERS = 2
CHUNK_KEYS = MIB
NUM_CHUNKS = 122


def chunk_of_keys(block_id=None):
    """Random keys. A quarter of them have few distinct values, so cuts must separate equal keys."""
    rng = np.random.default_rng(block_id)
    keys = rng.integers(-(2**62), 2**62, CHUNK_KEYS)
    keys[::4] = rng.integers(0, 3, len(keys[::4]))
    return keys


def peak_memory():
    """Peak memory of this process, in bytes."""
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


@pytest.fixture
def client(tmp_path):
    # Spilled chunks and the files of the exchange go to the test's temporary directory.
    config = {"temporary-directory": str(tmp_path), "distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set(config),
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, memory_limit=WORKER_MEMORY, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("exchange", ["runs"])
def test_sorted_to_zarr(client, tmp_path, exchange):
    x = da.map_blocks(chunk_of_keys, chunks=((CHUNK_KEYS,) * NUM_CHUNKS,), dtype="i8", meta=np.empty(0, "i8"))
    assert x.nbytes > WORKERS * WORKER_MEMORY
    path = str(tmp_path / "sorted.zarr")
    found = dask_gpusort.sort(x, exchange=exchange)
    assert f" {exchange}" in dask_gpusort.explain(x, exchange=exchange)
    first_workers = set(workers_of_cluster(client))
    found.to_zarr(path)
    peaks = client.run(peak_memory)
    # No worker was restarted for its memory, and none came near its limit.
    assert set(peaks) == first_workers
    assert max(peaks.values()) < WORKER_MEMORY

    stored = zarr.open_array(path, mode="r")
    assert stored.shape == x.shape
    blocks = [slice(start, start + CHUNK_KEYS) for start in range(0, len(x), CHUNK_KEYS)]
    assert oracle.assert_ascends(stored[block] for block in blocks) == len(x)
    given = oracle.checksum(chunk_of_keys((number,)) for number in range(NUM_CHUNKS))
    assert oracle.checksum(stored[block] for block in blocks) == given
