"""Arrays larger than the memory of all workers, sorted and read at positions to Zarr, then verified without Dask.

And what workers of unequal memory and threads do, of whose memory Python alone takes much of the smallest.
"""

from __future__ import annotations

from contextlib import contextmanager

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

#: Python, NumPy and Dask alone need some 140 MiB, half of them for xarray and pandas, which Dask imports where they are
#: installed. So a worker with a much lower limit would be paused.
WORKER_MEMORY = 340 * MIB
WORKERS = 2
CHUNK_KEYS = MIB
#: Chunks of the keys that are sorted, and of each array of a read.
SORTED_CHUNKS, READ_CHUNKS = 88, 45


def chunk_of_keys(number):
    """Random keys. A quarter of them have few distinct values, so cuts must separate equal keys."""
    rng = np.random.default_rng(number)
    keys = rng.integers(-(2**62), 2**62, CHUNK_KEYS)
    keys[::4] = rng.integers(0, 3, len(keys[::4]))
    return keys


def positions_of_chunk(number):
    return np.arange(number * CHUNK_KEYS, (number + 1) * CHUNK_KEYS)


def element(positions):
    return positions * 2654435761 ^ positions >> 7


def index(positions):
    """A permutation: the multiplier is a prime that does not divide the size."""
    return (positions * 1000003 + 12345) % (CHUNK_KEYS * READ_CHUNKS)


def made(function, count):
    """An array of chunks that a function makes from their numbers."""
    return da.map_blocks(
        lambda block_id: function(block_id[0]), chunks=((CHUNK_KEYS,) * count,), dtype="i8", meta=np.empty(0, "i8")
    )


def chunks_of(array):
    return (array[start : start + CHUNK_KEYS] for start in range(0, array.size, CHUNK_KEYS))


def peak_memory():
    """Peak memory of this process, in bytes."""
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


@pytest.fixture
def stored(tmp_path):
    """Computes an array to Zarr, and gives what is there."""
    # Spilled chunks and the files of the exchange go to the test's temporary directory.
    config = {"temporary-directory": str(tmp_path), "distributed.comm.timeouts.connect": "60s"}
    options = {"threads_per_worker": 1, "memory_limit": WORKER_MEMORY, "dashboard_address": ":0"}

    def store(array):
        first_workers = set(workers_of_cluster(client))
        path = str(tmp_path / "stored.zarr")
        array.to_zarr(path)
        peaks = client.run(peak_memory)
        # No worker was restarted for its memory, and none came near its limit.
        assert set(peaks) == first_workers
        assert max(peaks.values()) < WORKER_MEMORY
        return zarr.open_array(path, mode="r")

    with (
        dask.config.set(config),
        distributed.LocalCluster(n_workers=WORKERS, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield store


def test_sort(stored):
    x = made(chunk_of_keys, SORTED_CHUNKS)
    assert x.nbytes > WORKERS * WORKER_MEMORY
    assert dask_gpusort.explain(x).exchange == "runs"
    found = stored(dask_gpusort.sort(x))
    assert oracle.assert_ascends(chunks_of(found)) == len(x)
    assert oracle.checksum(chunks_of(found)) == oracle.checksum(map(chunk_of_keys, range(SORTED_CHUNKS)))


@pytest.mark.slow
def test_read_at_positions(stored):
    x, at = (
        made(lambda number, function=function: function(positions_of_chunk(number)), READ_CHUNKS)
        for function in (element, index)
    )
    assert x.nbytes + at.nbytes > WORKERS * WORKER_MEMORY
    for number, chunk in enumerate(chunks_of(stored(dask_gpusort.take_along_axis(x, at, 0)))):
        assert np.array_equal(chunk, element(index(positions_of_chunk(number))))


#: Threads and memory of unequal workers; chunks of theirs, and how many of them are sorted, and ranked. The larger one
#: has no memory for the work of all its threads.
UNEQUAL = {"small": (1, 512 * MIB), "large": (8, 608 * MIB)}
UNEQUAL_KEYS, MANY, FEW = MIB, 128, 48


def keys_of_chunk(number, chunks=FEW):
    """A part of a permutation, in the memory of one chunk: the multiplier is a prime that does not divide the size."""
    # Tasks that make and look at chunks do not wait for memory: what one takes, eight threads take eight times.
    keys = np.arange(number * UNEQUAL_KEYS, (number + 1) * UNEQUAL_KEYS)
    keys *= 1000003
    keys += 12345
    keys %= chunks * UNEQUAL_KEYS
    return keys


def usage(dask_worker):
    """Peak memory of a worker, its limit, and bytes that Dask spilled."""
    spilled = dask_worker.data.cumulative_metrics.get(("disk-write", "bytes"), 0)
    return peak_memory(), dask_worker.memory_manager.memory_limit, spilled


@contextmanager
def workers_that_fit(tmp_path, sizes, may_spill=False):
    """Workers of some threads and memory, none of which is paused, spills unless it may, or is nearly full."""
    workers = {
        name: {"cls": distributed.Nanny, "options": {"nthreads": threads, "memory_limit": memory}}
        for name, (threads, memory) in sizes.items()
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0"}}
    config = {"temporary-directory": str(tmp_path), "distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set(config),
        distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster,
        distributed.Client(cluster) as client,
    ):
        first_workers = set(workers_of_cluster(client))
        yield
        found = client.run(usage)
        events = [event for told in client.get_events().values() for _, event in told if isinstance(event, dict)]
        assert "paused" not in [event.get("status") for event in events]
        assert set(found) == first_workers
        for peak, limit, spilled in found.values():
            assert may_spill or not spilled, spilled
            assert peak < 0.75 * limit, f"{peak / MIB:.0f} of {limit / MIB:.0f} MiB"


@pytest.fixture
def unequal(tmp_path):
    """Computes arrays on workers of unequal memory and threads."""
    with workers_that_fit(tmp_path, UNEQUAL):
        yield dask.compute


def made_of(chunks):
    return da.map_blocks(
        lambda block_id: keys_of_chunk(block_id[0], chunks),
        chunks=((UNEQUAL_KEYS,) * chunks,),
        dtype="i8",
        meta=np.empty(0, "i8"),
    )


def steps_of(block):
    """Whether a chunk is consecutive numbers, with the first one and their number."""
    return np.array([[int((np.diff(block) == 1).all()), block[0], len(block)]])


def wrong_numbers(array, first, chunks):
    """How many elements of each chunk are not the positions of its keys among all, which begin with a first one."""

    def wrong(block, block_id):  # makes the keys again: Dask holds none
        keys = keys_of_chunk(block_id[0], chunks)
        keys += first
        return np.array([np.count_nonzero(block != keys)])

    return array.map_blocks(wrong, dtype="i8", chunks=(1,))


def assert_consecutive(array, size, *others):
    """Chunks are all numbers from 0 on, and others, which are computed at the same time, are 0."""
    found, *numbers = dask.compute(array.map_blocks(steps_of, chunks=(1, 3), new_axis=1, dtype="i8"), *others)
    assert not any(map(np.any, numbers))
    good, first, length = found[found[:, 2] > 0].T
    assert good.all()
    assert first.tolist() == [0, *np.cumsum(length)[:-1]]
    assert length.sum() == size


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sort", "rank", "unique", "inverse"])
def test_workers_of_unequal_memory_and_threads(unequal, name):
    if name == "sort":
        assert_consecutive(dask_gpusort.sort(made_of(MANY)), MANY * UNEQUAL_KEYS)
    elif name == "unique":
        assert_consecutive(dask_gpusort.unique(made_of(FEW) // 2), FEW * UNEQUAL_KEYS // 2)
    elif name == "inverse":  # of so many values that no worker holds them
        values, inverse = dask_gpusort.unique(made_of(MANY), return_inverse=True)
        assert_consecutive(values, MANY * UNEQUAL_KEYS, wrong_numbers(inverse, 0, MANY))
    else:
        found = dask_gpusort.rank(made_of(FEW), method="ordinal")
        assert not np.concatenate(unequal(wrong_numbers(found, 1, FEW))).any()


#: Two workers, and chunks whose selected elements exceed their memory.
EQUAL, STORED = dict.fromkeys(("one", "other"), (1, 512 * MIB)), 144


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unique", "selection"])
@pytest.mark.parametrize("unit", [MIB // 8, MIB])
def test_results_of_unknown_sizes(tmp_path, name, unit):
    """Each chunk is freed when it is written, whether it is larger than a Zarr chunk or smaller."""
    x, path = made_of(STORED), str(tmp_path / "stored.zarr")
    with workers_that_fit(tmp_path, EQUAL, may_spill=True):  # where one worker is late, chunks of the other wait
        dask_gpusort.to_zarr(dask_gpusort.unique(x) if name == "unique" else x[x % 16 > 0], path, chunks=unit)
    found = zarr.open_array(path, mode="r")
    assert found.nbytes > sum(memory for _, memory in EQUAL.values())
    if name == "unique":
        wanted = map(positions_of_chunk, range(STORED))
    else:
        wanted = (keys[keys % 16 > 0] for keys in (keys_of_chunk(number, STORED) for number in range(STORED)))
    start = 0
    for part in wanted:
        assert np.array_equal(found[start : start + len(part)], part)
        start += len(part)
    assert found.shape == (start,)
