"""Runs where the system has less than Linux: no files in memory, no `/proc`, no removal of files that are open."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import groups

from dask_gpusort.chunk.run import Run

pytest.importorskip("distributed")
gangs = pytest.importorskip("support.gangs")
runs = pytest.importorskip("support.runs")
keep_and_take = pytest.importorskip("dask_gpusort.graph.runs.keep_and_take")
handles = pytest.importorskip("dask_gpusort.graph.runs.handles")
store = pytest.importorskip("dask_gpusort.graph.runs.store")

ARRAY = ours.make("i8", 20_000, "zipf")
UNLINK = Path.unlink


@pytest.fixture
def macos(monkeypatch):
    """No files in memory, and no list of processes."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(handles, "PROCESSES", "/no such folder/")


@pytest.fixture
def windows(monkeypatch, macos):
    """Nor reads at a place, nor the removal of an open file; gives those that were refused."""
    refused = []

    def unlink_closed(path, missing_ok=False):
        opened = []
        for number in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # another thread has closed it
                opened.append(os.readlink(f"/proc/self/fd/{number}"))
        elsewhere = not refused  # another process has the first one open
        if elsewhere or str(path) in opened or str(path) in Path("/proc/self/maps").read_text():
            refused.append(path)
            raise PermissionError(13, "it is open", str(path))
        UNLINK(path, missing_ok)

    monkeypatch.delattr(os, "preadv")
    monkeypatch.setattr(Path, "unlink", unlink_closed)
    monkeypatch.setattr(store, "REMOVE_SECONDS", 0.1)
    return refused


def check(client):
    x = da.from_array(ARRAY, chunks=1000)
    with dask.config.set({"scheduler": "distributed", "gpusort.exchange": "runs"}), groups(4):
        runs.assert_right(dask.compute(*runs.results(x)), ARRAY)
    runs.check_nothing_is_left(client)


@pytest.mark.parametrize("share", [0, 1])
def test_no_files_in_memory_and_no_list_of_processes(on_cluster, monkeypatch, macos, share):
    monkeypatch.setattr(store, "MEMORY_SHARE", share)
    asked, ask = [], keep_and_take._ask
    monkeypatch.setattr(keep_and_take, "_ask", lambda *given: asked.append(given) or ask(*given))
    check(on_cluster)
    assert bool(asked) == bool(share)  # workers ask each other for what is in memory


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the test finds open files in /proc")
def test_open_files_are_not_removed(on_cluster, monkeypatch, windows):
    monkeypatch.setattr(store, "MEMORY_SHARE", 0)
    check(on_cluster)
    assert windows


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the test finds open files in /proc")
def test_a_failed_write_to_an_open_file_is_told(tmp_path, monkeypatch, windows):
    def fail(*_):
        raise OSError(28, "no space")

    own = store.Store("address", tmp_path / "runs", lambda: 0)
    monkeypatch.setattr(handles, "write_all", fail)
    with pytest.raises(OSError, match="disk of worker address is full"):
        own.put("key", [Run(np.arange(9))])
    gc.collect()  # the error has the open file
    gangs.until(lambda: not os.listdir(own.folder), "the end of a file")
    own.close()
