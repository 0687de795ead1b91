"""A disk that is full or fails in the middle of a sort: a clear error, no files, and the next sort works."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.gangs import error_of
from support.sorting import groups

import dask_gpusort
from dask_gpusort.chunk.run import Run

distributed = pytest.importorskip("distributed")
runs = pytest.importorskip("support.runs")
handles = pytest.importorskip("dask_gpusort.graph.runs.handles")
store = pytest.importorskip("dask_gpusort.graph.runs.store")

ARRAY = ours.make("f8", 40_000, "zipf")
#: The device that is always full: a write to it raises ENOSPC.
FULL = Path("/dev/full")
WRITE = handles.write_all


@pytest.fixture
def client(tmp_path):
    with runs.cluster(3, **{"temporary-directory": str(tmp_path)}) as client:
        yield client


def path_of(file):
    return Path(os.readlink(f"/proc/self/fd/{file.number}"))


def sort(array):
    with groups(6):
        return dask_gpusort.sort(da.from_array(array, chunks=2000), exchange="runs", stable=True)


@pytest.fixture
def failing_disk(monkeypatch):
    """Make writes fail once a number of bytes is written: those of one worker, or of all."""
    monkeypatch.setattr(store, "MEMORY_SHARE", 0)

    def fail_after(space, fail, worker=None):
        left = [space]

        def write_what_fits(file, data):
            if worker is None or path_of(file).is_relative_to(worker.local_directory):
                left[0] -= memoryview(data).nbytes
                if left[0] < 0:
                    fail(data)
            return WRITE(file, data)

        monkeypatch.setattr(handles, "write_all", write_what_fits)

    return fail_after


def write_to_full_disk(data):
    with FULL.open("ab", buffering=0) as file:
        file.write(data)


def break_disk(data):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
# One of the three workers surely has two runs of 16 kB, and perhaps no more.
@pytest.mark.parametrize(("space", "of_all"), [(0, True), (40_000, True), (80_000, True), (0, False), (20_000, False)])
def test_the_next_sort_works_after_a_full_disk(client, failing_disk, monkeypatch, space, of_all):
    for _ in range(2):
        failing_disk(space, write_to_full_disk, worker=None if of_all else client.cluster.workers[0])
        error = error_of(client.compute(sort(ARRAY)))
        assert isinstance(error, OSError)
        assert error.errno == errno.ENOSPC
        assert re.search(r"disk of worker .* is full.*free space.*temporary-directory in dask\.config", str(error))
        runs.check_nothing_is_left(client)
    monkeypatch.setattr(handles, "write_all", WRITE)
    oracle.assert_same_bits(sort(ARRAY).compute(), oracle.sort(ARRAY))
    np.testing.assert_array_equal(sort(-ARRAY).compute(), np.sort(-ARRAY))


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("number", [1, 2])  # of a function; that of the sort is above
def test_other_functions_meet_a_full_disk_of_one_worker(client, failing_disk, monkeypatch, number):
    array = ours.make("i8", 40_000, "zipf")
    failing_disk(20_000, write_to_full_disk, worker=client.cluster.workers[0])
    with groups(6), dask.config.set({"gpusort.exchange": "runs"}):
        found = runs.results(da.from_array(array, chunks=2000))
        error = error_of(client.compute(found[number]))
        assert error.errno == errno.ENOSPC
        assert "gpusort.directories" in str(error)
        runs.check_nothing_is_left(client)
        monkeypatch.setattr(handles, "write_all", WRITE)
        runs.assert_right(dask.compute(*found), array)


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("fails", ["full", "broken"])
@pytest.mark.parametrize("full", [("first",), ("second",), ("first", "second")])
def test_other_disks_take_over(client, tmp_path, monkeypatch, full, fails):
    fail, code = {"full": (write_to_full_disk, errno.ENOSPC), "broken": (break_disk, errno.EIO)}[fails]
    monkeypatch.setattr(store, "MEMORY_SHARE", 0)
    written = {"first": 0, "second": 0}

    def write_or_not(file, data):
        (disk,) = written.keys() & set(path_of(file).parts)
        if disk in full and written[disk] >= 40_000:
            fail(data)
        WRITE(file, data)
        written[disk] += data.nbytes

    monkeypatch.setattr(handles, "write_all", write_or_not)
    for disk in written:
        (tmp_path / disk).mkdir()
    with dask.config.set({"gpusort.directories": [str(tmp_path / disk) for disk in written]}):
        future = client.compute(sort(ARRAY))
        if len(full) == 1:
            oracle.assert_same_bits(future.result(), oracle.sort(ARRAY))
            # The others may each write a run, as one of three workers fills the disk.
            most = 3 * 16_000
            assert 40_000 <= written[full[0]] <= 40_000 + most
            # And checksums, and what the full disk took of these runs.
            assert ARRAY.nbytes < sum(written.values()) < 1.01 * ARRAY.nbytes + most
        else:
            error = error_of(future)
            assert error.errno == code
            assert re.search(r"disk of worker .*gpusort\.directories", str(error))
            assert all(str(tmp_path / disk) in error.filename for disk in written)
        del future
        runs.check_nothing_is_left(client)


def test_another_disk_error_names_worker_and_folder(client, failing_disk, tmp_path):
    failing_disk(80_000, break_disk)
    error = error_of(client.compute(sort(ARRAY)))
    assert isinstance(error, OSError)
    assert error.errno == errno.EIO
    assert re.search(r"disk of worker .*://.* cannot be written \(Input/output error\)", str(error))
    assert error.filename.startswith(str(tmp_path))
    runs.check_nothing_is_left(client)


def test_disks_without_the_space_come_last(tmp_path, monkeypatch):
    free = {"first": 10**6, "second": 0, "third": 10**6}
    for disk in free:
        (tmp_path / disk).mkdir()

    def disk_usage(folder):
        (disk,) = free.keys() & set(folder.parts)
        return SimpleNamespace(free=free[disk])

    monkeypatch.setattr(store.shutil, "disk_usage", disk_usage)
    with dask.config.set({"gpusort.directories": [str(tmp_path / disk) for disk in free]}):
        own = store.Store("address", tmp_path / "runs", lambda: 0.0)
        kept = own.put("key", [Run(np.arange(1000)) for _ in range(9)])
        for handle in kept:
            (disk,) = free.keys() & set(Path(handle.path).parts)
            free[disk] -= 1
        assert free["second"] == 0, "a disk without space is not tried before others"
        assert max(free.values()) - min(free["first"], free["third"]) <= 3
        free.update(first=0, third=0)  # which may be wrong, as of a quota: all are tried
        assert len(own.put("other key", [Run(np.arange(1000))])) == 1
        own.close()
