"""A disk that is full in the middle of a P2P exchange: a clear error, no files, and the next sort works."""

from __future__ import annotations

import os
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.gangs import until
from support.sorting import groups

import dask_gpusort

distributed = pytest.importorskip("distributed")
disk = pytest.importorskip("distributed.shuffle._disk")
p2p_engine = pytest.importorskip("dask_gpusort.graph.p2p_engine")

ARRAY = ours.make("f8", 40_000, "zipf")
#: The device that is always full: a write to it raises ENOSPC.
FULL = Path("/dev/full")


@pytest.fixture
def cluster(tmp_path):
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        dask.config.set({"temporary-directory": str(tmp_path), "scheduler": "distributed"}),
        distributed.LocalCluster(memory_limit=0, **options) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def left_in(folder):
    """Names of what exchanges have there; folders may go while they are listed."""
    found = (name for _, folders, files in os.walk(folder) for name in (*folders, *files))
    return [name for name in found if name.startswith("sort-")]


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("space", [0, 100_000, 300_000])
def test_the_next_sort_works_after_a_full_disk(cluster, tmp_path, monkeypatch, space):
    left = [space]
    write = disk.DiskShardsBuffer._write_frames

    def write_what_fits(self, frames, id):
        frames = list(frames)
        left[0] -= sum(map(len, frames))
        if left[0] < 0:
            with FULL.open("ab") as file:
                file.writelines(frames)
        write(self, frames, id)

    def sort(array):
        with groups(6):
            return dask_gpusort.sort(da.from_array(array, chunks=2000), exchange="p2p", stable=True).compute()

    # Records are written while others arrive, as those of a large array are.
    monkeypatch.setattr(p2p_engine, "PENDING_BYTES", 20_000)
    monkeypatch.setattr(disk.DiskShardsBuffer, "_write_frames", write_what_fits)
    assert ARRAY.nbytes > space
    for _ in range(2):
        with pytest.raises(OSError, match=r"disk space.*increasing.* the size of the attached disk"):
            sort(ARRAY)
        until(lambda: not left_in(tmp_path), "the removal of all files")
    monkeypatch.setattr(disk.DiskShardsBuffer, "_write_frames", write)
    oracle.assert_same_bits(sort(ARRAY), oracle.sort(ARRAY))
    np.testing.assert_array_equal(sort(-ARRAY), np.sort(-ARRAY))
    for worker in cluster.workers.values():
        limiter = worker.plugins["shuffle"].memory_limiter_disk
        assert limiter.available == limiter.limit
