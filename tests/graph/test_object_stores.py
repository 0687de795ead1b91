"""Sorts from Zarr to Zarr on object stores: each chunk is read and written once, in parallel, where reads are slow."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, defaultdict

import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours

import dask_gpusort

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")
runs = pytest.importorskip("support.runs")
plugins = pytest.importorskip("dask_gpusort.graph.runs.plugins")
store = pytest.importorskip("dask_gpusort.graph.runs.store")

ARRAY = ours.make("f8", 24_000, "zipf")
CHUNK = 1000


class Asked:
    """What a store is asked for: how often for each chunk, and for how many at once."""

    def __init__(self):
        self.times, self.now, self.most = Counter(), 0, 0


#: By the name of the store, of which graphs have copies. Workers in this process share it.
ASKED: defaultdict[str, Asked] = defaultdict(Asked)


class Slow(zarr.storage.WrapperStore):
    """A store that answers late."""

    def __init__(self, wrapped, name):
        super().__init__(wrapped)
        self.name = name

    async def _late(self, key):
        if not key.startswith("c/"):
            return
        asked = ASKED[self.name]
        asked.times[key] += 1
        asked.now += 1
        asked.most = max(asked.most, asked.now)
        await asyncio.sleep(0.05)
        asked.now -= 1

    async def get(self, key, prototype, byte_range=None):
        await self._late(key)
        return await self._store.get(key, prototype, byte_range)

    async def set(self, key, value):
        await self._late(key)
        await self._store.set(key, value)


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(store, "MEMORY_SHARE", 0)
    with runs.cluster(4) as client:
        yield client


def memory(name):
    """An object store in memory."""
    return zarr.storage.FsspecStore.from_url(f"memory://{name}")


def new(store, chunk):
    return zarr.create_array(store, shape=ARRAY.shape, chunks=(chunk,), dtype=ARRAY.dtype, compressors=None)


@pytest.mark.parametrize("parts", [1, 4])
def test_each_chunk_is_read_and_written_once_in_parallel(client, parts):
    names = [f"{which}-{uuid.uuid4().hex}" for which in ("source", "target")]
    source, target = (Slow(memory(name), name) for name in names)
    new(memory(names[0]), CHUNK // parts)[:] = ARRAY
    x = da.from_array(zarr.open_array(source), chunks=CHUNK)
    y = dask_gpusort.sort(x, exchange="runs", stable=True)
    da.store(y, new(target, CHUNK // parts), lock=False)
    oracle.assert_same_bits(np.asarray(zarr.open_array(memory(names[1]))[:]), oracle.sort(ARRAY))
    for name in names:
        asked = ASKED.pop(name)
        assert asked.times == Counter(f"c/{number}" for number in range(parts * len(ARRAY) // CHUNK))
        assert asked.most >= 3 * parts  # a thread of each of four workers, and the parts of a chunk at once
    runs.check_nothing_is_left(client)
