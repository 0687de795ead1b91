"""A disk that is full in the middle of a P2P exchange: a clear error, no files, and the next sort works."""

from __future__ import annotations

import errno
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
core = pytest.importorskip("distributed.core")
disk = pytest.importorskip("distributed.shuffle._disk")
p2p_engine = pytest.importorskip("dask_gpusort.graph.p2p_engine")

ARRAY = ours.make("f8", 40_000, "zipf")
#: The device that is always full: a write to it raises ENOSPC.
FULL = Path("/dev/full")
WRITE = disk.DiskShardsBuffer._write_frames


@pytest.fixture
def cluster(tmp_path):
    options = {"n_workers": 3, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
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


def sort(array):
    with groups(6):
        return dask_gpusort.sort(da.from_array(array, chunks=2000), exchange="runs", stable=True).compute()


@pytest.fixture
def failing_disk(monkeypatch):
    """Make writes fail once a number of bytes is written: those of one worker, or of all."""
    # Records are written while others arrive, as those of a large array are.
    monkeypatch.setattr(p2p_engine, "PENDING_BYTES", 20_000)

    def fail_after(space, fail, worker=None):
        left = [space]

        def write_what_fits(self, frames, id):
            frames = list(frames)
            if worker is None or self.directory.is_relative_to(worker.local_directory):
                left[0] -= sum(map(len, frames))
                if left[0] < 0:
                    fail(frames)
            WRITE(self, frames, id)

        monkeypatch.setattr(disk.DiskShardsBuffer, "_write_frames", write_what_fits)

    return fail_after


def write_to_full_disk(frames):
    with FULL.open("ab") as file:
        file.writelines(frames)


def break_disk(frames):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("of_all", [True, False])
@pytest.mark.parametrize("space", [0, 40_000, 80_000])
def test_the_next_sort_works_after_a_full_disk(cluster, tmp_path, failing_disk, monkeypatch, space, of_all):
    for _ in range(2):
        failing_disk(space, write_to_full_disk, worker=None if of_all else cluster.workers[0])
        with pytest.raises(OSError, match=r"disk space.*increasing.* the size of the attached disk"):
            sort(ARRAY)
        until(lambda: not left_in(tmp_path), "the removal of all files")
    monkeypatch.setattr(disk.DiskShardsBuffer, "_write_frames", WRITE)
    oracle.assert_same_bits(sort(ARRAY), oracle.sort(ARRAY))
    np.testing.assert_array_equal(sort(-ARRAY), np.sort(-ARRAY))
    for worker in cluster.workers.values():
        limiter = worker.plugins["shuffle"].memory_limiter_disk
        assert limiter.available == limiter.limit


def test_the_cause_of_another_disk_error_is_told(cluster, failing_disk):
    failing_disk(80_000, break_disk)
    with pytest.raises(RuntimeError) as caught:
        sort(ARRAY)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EIO


def test_a_disk_error_can_be_pickled_however_often_it_is_raised():
    run = p2p_engine.SortRun.__new__(p2p_engine.SortRun)
    run._disk_error = disk.P2POutOfDiskError()
    for _ in range(1000):
        with pytest.raises(disk.P2POutOfDiskError) as caught:
            run._raise_disk_error()
    _, sent, _ = core.clean_exception(core.error_message(caught.value)["exception"].data)
    assert isinstance(sent, disk.P2POutOfDiskError)
