"""Runs that workers keep: stores, slices, how long runs are kept, and clusters that lose workers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import os
import pickle
import re
import select
import socket
import stat
import threading
import time
from importlib import import_module
from itertools import product
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from dask.graph_manipulation import bind, clone
from hypothesis import given
from hypothesis import strategies as st
from support import cuts, oracle
from support import strategies as ours
from support.marks import grid, slow_but_first
from support.sorting import groups

import dask_gpusort
from dask_gpusort.chunk.run import Run
from dask_gpusort.drivers import kept, notes, turns
from dask_gpusort.functions import program
from dask_gpusort.functions import sort as programs
from dask_gpusort.order import Order
from dask_gpusort.plan import counting, search
from dask_gpusort.table import Bounds

distributed = pytest.importorskip("distributed")
to_serialize = pytest.importorskip("distributed.protocol").to_serialize
gangs = pytest.importorskip("support.gangs")
runs = pytest.importorskip("support.runs")
plugins = pytest.importorskip("dask_gpusort.graph.runs.plugins")
keep_and_take = pytest.importorskip("dask_gpusort.graph.runs.keep_and_take")
files = pytest.importorskip("dask_gpusort.graph.runs.files")
handles = pytest.importorskip("dask_gpusort.graph.runs.handles")
store = pytest.importorskip("dask_gpusort.graph.runs.store")

SIZE, CHUNK = 6000, 500
ARRAY = ours.make("f8", SIZE, "zipf")
SORTED = oracle.sort(ARRAY)


def refuse(*_):
    raise files.RunIsGone("of another host")


@pytest.fixture
def kept_in(monkeypatch):
    """Where all runs are kept, and how slices of them are read."""

    def change(where):
        monkeypatch.setattr(store, "MEMORY_SHARE", 0 if "files" in where else 1)
        monkeypatch.setattr(handles, "PICKLED_ROWS", 7)
        if "of others" in where:
            monkeypatch.setattr(keep_and_take, "read", refuse)
            monkeypatch.setattr(keep_and_take, "read_into", dict.fromkeys)

    return change


KEPT = ("memory", "files", "memory of others", "files of others")


# ---- stores ----

KINDS = {
    "u8": lambda i: Run(i.astype("u8")),
    "datetime and rows": lambda i: Run(
        i.astype("M8[ns]"), (i.astype("S4"), np.stack([i, -i], 1), np.zeros((len(i), 0)))
    ),
    "structured": lambda i: Run(np.array([(k, str(k)) for k in i], [("a", ">i4"), ("b", "U5")])),
    "objects": lambda i: Run(i.astype("f2"), (i.astype("S3").astype("U").astype(object), i.astype("c16"))),
    "StringDType": lambda i: Run(np.array([str(k) for k in i], np.dtypes.StringDType()), (i,)),
}


def store_in(folder, capacity=0.0):
    return store.Store("address", folder / "runs", lambda: capacity)


def nothing_is_left(own):
    """Whether a store has no runs, once what it removes is gone."""
    own._remover.submit(int).result()
    return not any((own._names, own._kept, own.folder.exists() and os.listdir(own.folder)))


@pytest.mark.parametrize("capacity", [0.0, 1e9])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_slices_come_back(tmp_path, monkeypatch, make, capacity):
    monkeypatch.setattr(handles, "PICKLED_ROWS", 4)
    own = store_in(tmp_path, capacity)
    (handle,) = own.put("key", [make(np.arange(11))])
    assert os.path.exists(own.folder / handle.name) == (capacity == 0)
    handle = pickle.loads(pickle.dumps(handle))
    for start, stop in [(0, 11), (0, 0), (3, 4), (4, 8), (3, 9), (11, 11), (10, 11)]:
        found, wanted = own.take(handle.name, start, stop), make(np.arange(11))[start:stop]
        for one, other in zip(found.arrays, wanted.arrays, strict=True):
            oracle.assert_same_bits(one, other)
            assert one.dtype == other.dtype
    own.drop("key")
    with pytest.raises(files.RunIsGone, match="address"):
        own.take(handle.name, 0, 1)
    assert nothing_is_left(own)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has memory with a path")
def test_memory_is_read_by_its_path_while_it_is_kept(tmp_path, monkeypatch):
    own, other = store_in(tmp_path, 1e9), store_in(tmp_path)
    (handle,) = own.put("key", [Run(np.arange(9), (np.arange(18).reshape(9, 2),))])
    (later,) = own.put("other", [Run(np.arange(9))])
    oracle.assert_same_bits(handles.read(handle, 2, 5).values[0], np.arange(4, 10).reshape(3, 2))
    oracle.assert_same_bits(other.open(handle).keys, np.arange(9))
    # Another process may have that path.
    elsewhere = dataclasses.replace(handle, path=later.path)
    with pytest.raises(files.RunIsGone, match="not its memory"):
        handles.read(elsewhere, 2, 5)
    assert other.open(elsewhere) is None
    own.drop("key")
    own._remover.submit(int).result()
    wait_for_closed_files()
    for one in (handle, dataclasses.replace(handle)):
        with contextlib.nullcontext() if one is handle else pytest.raises(files.RunIsGone):
            handles.read(one, 2, 5)  # who has opened it may read on


def wait_for_closed_files():
    reader, writer = os.pipe()
    files.Descriptor(writer)
    assert not os.read(reader, 1)  # the end: the other side is closed
    os.close(reader)
    return writer


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has memory with a path")
@pytest.mark.parametrize("kind", ["socket", "pipe", "epoll", "file", "closed"])
def test_a_path_of_memory_may_be_that_of_something_else(tmp_path, kind):
    (handle,) = store_in(tmp_path, 1e9).put("key", [Run(np.arange(9))])
    with contextlib.ExitStack() as stack:
        if kind == "socket":
            number = stack.enter_context(socket.socket()).fileno()
        elif kind == "epoll":
            number = stack.enter_context(select.epoll()).fileno()
        elif kind == "pipe":
            number, other = os.pipe()
            for end in (number, other):
                stack.callback(os.close, end)
        else:
            file = stack.enter_context(open(tmp_path / "file", "wb"))
            number = file.fileno()
            if kind == "closed":
                file.close()
        elsewhere = dataclasses.replace(handle, path=f"/proc/{os.getpid()}/fd/{number}")
        with pytest.raises(files.RunIsGone):
            handles.read(elsewhere, 2, 5)


def test_too_many_open_files_are_told(tmp_path, monkeypatch):
    (handle,) = store_in(tmp_path).put("key", [Run(np.arange(9))])

    def refuse_more(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse_more)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        handles.read(handle, 2, 5)


def test_memory_has_no_path_if_many_files_are_open(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_OPEN", 4)
    own = store_in(tmp_path, 1e9)
    (handle,) = own.put("key", [Run(np.arange(9))])
    assert handle.path == ""
    oracle.assert_same_bits(own.take(handle.name, 2, 5).keys, np.arange(2, 5))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_files_are_readable_by_their_owner_alone(tmp_path):
    own = store_in(tmp_path)
    own.put("key", [Run(np.arange(3))])
    assert stat.S_IMODE(own.folder.stat().st_mode) == 0o700


def test_a_key_that_is_made_again_replaces_its_runs(tmp_path):
    own = store_in(tmp_path)
    (first,) = own.put("key", [Run(np.arange(3))])
    (second,) = own.put("key", [Run(np.arange(4))])
    own._remover.submit(int).result()
    assert os.listdir(own.folder) == [second.name]
    with pytest.raises(files.RunIsGone):
        own.take(first.name, 0, 1)
    # Who asks for the first one is late: it is not gone, but made again.
    assert asyncio.run(own.serve([first.name], ["key"], [(0, 1)]))["status"] == "old"
    assert asyncio.run(own.serve([second.name, first.name], ["key", "other"], [(0, 1)] * 2))["status"] == "gone"
    own.close()
    assert not own.folder.exists()


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_truncated_or_missing_file_is_refused(tmp_path, make):
    own = store_in(tmp_path)
    (handle,) = own.put("key", [make(np.arange(9))])
    size = os.stat(handle.path).st_size
    os.truncate(handle.path, size - 1)
    with pytest.raises(files.RunIsGone):
        own.take(handle.name, 0, 9)
    assert own.open(handle) is None
    os.unlink(handle.path)
    with pytest.raises(files.RunIsGone):
        own.take(handle.name, 0, 9)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@given(data=st.data())
def test_a_changed_bit_is_found_where_it_is_read(tmp_path_factory, make, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PART_BYTES", data.draw(st.sampled_from([8, 24, 64])))
        patch.setattr(files, "BLOCK_BYTES", files.PART_BYTES * data.draw(st.integers(1, 3)))
        patch.setattr(handles, "PICKLED_ROWS", 4)
        own = store_in(tmp_path_factory.mktemp("store"))
        (handle,) = own.put("key", [make(np.arange(23))])
        change_file(handle.path, data.draw(st.floats(0, 0.999)))
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, 23)] * 2)))
        with pytest.raises(files.RunIsDamaged, match="other bytes than were written"):
            own.take(handle.name, 0, 23)
        with contextlib.suppress(files.RunIsDamaged):  # a part that is read may be the changed one
            for one, other in zip(own.take(handle.name, start, stop).arrays, make(np.arange(23)).arrays, strict=True):
                oracle.assert_same_bits(one, other[start:stop])
        own.close()


@given(data=st.data())
def test_slices_of_a_changed_file_alone_are_lost(tmp_path_factory, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PART_BYTES", 24)
        patch.setattr(files, "BLOCK_BYTES", files.PART_BYTES * data.draw(st.integers(1, 9)))
        own = store_in(tmp_path_factory.mktemp("store"))
        rows = [Run(np.arange(k, 23), (np.arange(k, 23, dtype="u1"),)) for k in range(5)]
        kept = own.put("key", rows)
        changed = data.draw(st.integers(0, 4))
        change_file(kept[changed].path, data.draw(st.floats(0, 0.999)))
        ends = [
            (0, len(run)) if n == changed else sorted(data.draw(st.tuples(*[st.integers(0, len(run))] * 2)))
            for n, run in enumerate(rows)
        ]
        targets = [
            handles.empty_run(handle.like, stop - start) for handle, (start, stop) in zip(kept, ends, strict=True)
        ]
        lost = handles.read_into({n: (kept[n], ends[n][0], targets[n]) for n in data.draw(st.permutations(range(5)))})
        assert lost.keys() == {changed}
        assert isinstance(lost[changed], files.RunIsDamaged)
        for n in {*range(5)} - {changed}:
            for one, other in zip(targets[n].arrays, rows[n].arrays, strict=True):
                oracle.assert_same_bits(one, other[slice(*ends[n])])
        own.close()


def test_checksums_of_many_runs_are_read_once_for_many_groups(tmp_path):
    own = store_in(tmp_path)
    kept = own.put("key", (Run(np.arange(40)) for _ in range(1100)))
    before = files._checksums_at.cache_info().misses
    for group in range(4):
        targets = [handles.empty_run(handle.like, 10) for handle in kept]
        slices = {n: (handle, 10 * group, targets[n]) for n, handle in enumerate(kept)}
        assert not handles.read_into(slices)
        assert all(np.array_equal(run.keys, np.arange(10 * group, 10 * group + 10)) for run in targets)
    assert files._checksums_at.cache_info().misses - before == len(kept)
    own.close()


@pytest.mark.parametrize("size", [127, 128, 129, 300])
def test_checksums_are_read_in_blocks(tmp_path, monkeypatch, size):
    monkeypatch.setattr(files, "PART_BYTES", 8)
    own = store_in(tmp_path)
    (handle,) = own.put("key", [Run(np.arange(size), (np.arange(size) * 2,))])
    for start, stop in ((0, size), (100, size), (127, 128 if size > 127 else 127), (size - 1, size)):
        found = own.take(handle.name, start, stop)
        assert np.array_equal(found.keys, np.arange(start, stop))
        assert np.array_equal(found.values[0], np.arange(start, stop) * 2)
    change_file(handle.path, (8 * size - 1) / os.path.getsize(handle.path))  # in the last part of the keys
    for start in (0, size - 1):
        with pytest.raises(files.RunIsDamaged, match="other bytes than were written"):
            own.take(handle.name, start, size)
    own.close()


def test_a_file_is_closed_by_another_thread(monkeypatch):
    # The last one to close a removed file waits until the disk has its blocks back.
    threads, close = {}, os.close
    monkeypatch.setattr(
        os, "close", lambda number: threads.setdefault(number, threading.current_thread()) and close(number)
    )
    writer = wait_for_closed_files()
    monkeypatch.undo()
    assert threads[writer] is not threading.current_thread()


@given(data=st.data())
def test_changed_bits_change_the_checksum_of_their_part(data):
    size = data.draw(st.integers(1, 3 * files.PART_BYTES))
    written = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    # Any bit alone, or any of the lower half of some words.
    bits = {data.draw(st.integers(0, 8 * size - 1))}
    if size >= 8 and data.draw(st.booleans()):
        words = data.draw(st.sets(st.integers(0, size // 8 - 1), min_size=2 if size >= 16 else 1, max_size=4))
        bits = {64 * word + data.draw(st.integers(0, 31)) for word in words}
    read = np.unpackbits(written, bitorder="little")
    read[list(bits)] ^= 1
    first, second = (
        np.frombuffer(files.checksums(one), np.uint64) for one in (written, np.packbits(read, bitorder="little"))
    )
    assert len(first) == -(-size // files.PART_BYTES)
    assert set(np.flatnonzero(first != second)) == {bit // 8 // files.PART_BYTES for bit in bits}


def test_an_error_of_the_disk_is_a_damaged_run(tmp_path, monkeypatch):
    own = store_in(tmp_path)
    (handle,) = own.put("key", [Run(np.arange(9))])

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(files.RunIsDamaged, match="Input/output error"):
        own.take(handle.name, 0, 9)


@pytest.mark.parametrize("number", range(1, 7))  # three of each run: its keys, its values, their checksums
@pytest.mark.parametrize(
    ("code", "message"), [(errno.ENOSPC, "disk of worker address is full.*dask.config"), (errno.EIO, "error")]
)
def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, number, code, message):
    writes, write = iter(range(1, 9)), handles.write_all

    def fail(file, view):
        if next(writes) == number:
            raise OSError(code, os.strerror(code))
        write(file, view)

    monkeypatch.setattr(handles, "write_all", fail)
    own = store_in(tmp_path)
    with pytest.raises(OSError, match=message) as caught:
        own.put("key", (Run(np.arange(9), (np.arange(9),)) for _ in range(2)))
    assert caught.value.errno == code
    assert nothing_is_left(own)


@pytest.fixture
def directories(tmp_path):
    """Two of them, in the settings."""
    found = [tmp_path / name for name in ("first", "second")]
    for directory in found:
        directory.mkdir()
    with dask.config.set({"gpusort.directories": list(map(str, found))}):
        yield found


def test_files_go_to_all_directories_in_turn(tmp_path, directories):
    own = store_in(tmp_path)
    assert not any(map(os.listdir, directories))
    handles = own.put("key", [Run(np.arange(number)) for number in range(4)])
    assert [len(files_of(directory)) for directory in directories] == [2, 2]
    assert {handle.path.split(os.sep)[-4] for handle in handles[:2]} == {"first", "second"}
    if os.name != "nt":
        assert {stat.S_IMODE(os.stat(os.path.dirname(handle.path)).st_mode) for handle in handles} == {0o700}
    for number, handle in enumerate(handles):
        oracle.assert_same_bits(own.take(handle.name, 0, number).keys, np.arange(number))
    own.drop("key")
    assert nothing_is_left(own)
    assert not any(map(files_of, directories))
    own.put("key", [Run(np.arange(3))])
    own.close()
    assert not any(map(files_of, directories))
    assert not list(tmp_path.rglob("worker-*"))
    assert not own.folder.exists()


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_directory_that_cannot_be_written_is_told(tmp_path, directories, kind):
    own, other = store_in(tmp_path), tmp_path / "other"
    if kind == "file":
        other.touch()
    error = pytest.raises(OSError, match=r"worker address .* gpusort\.directories.*make the folder")
    with dask.config.set({"gpusort.directories": [str(directories[0]), str(other)]}), error as caught:
        own.put("key", [Run(np.arange(3))])
    assert caught.value.filename == str(other)
    assert not files_of(tmp_path)
    assert other.exists() == (kind == "file")


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="nothing is refused")
def test_a_directory_of_another_is_told(tmp_path, directories):
    directories[1].chmod(0o500)
    with pytest.raises(PermissionError, match=r"gpusort\.directories"):
        store_in(tmp_path).put("key", [Run(np.arange(3))])


@pytest.mark.parametrize("value", ["/tmp", [], [1], {"a"}])
def test_wrong_directories_are_refused(tmp_path, value):
    with dask.config.set({"gpusort.directories": value}), pytest.raises(ValueError, match="a list of folders"):
        store_in(tmp_path).put("key", [Run(np.arange(3))])


@pytest.mark.parametrize(
    ("limit", "available", "capacity"),
    [(1000, 0, 200), (None, 9000, 2000), (None, 7100, 100), (None, 5000, -2000), (None, 99_000, 2900)],
)
def test_the_capacity_of_runs_follows_the_memory_of_the_worker(monkeypatch, limit, available, capacity):
    monkeypatch.setattr(store, "MEMORY_LIMIT", 10_000)  # which may be that of a container, less than is available
    monkeypatch.setattr(store.psutil, "virtual_memory", lambda: SimpleNamespace(available=available))
    monitor = SimpleNamespace(get_process_memory=lambda: 100)
    worker = SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=limit), monitor=monitor)
    assert store.capacity_of(worker) == capacity


def test_who_asked_in_vain_is_known_until_the_runs_are_forgotten(monkeypatch):
    """Also of tasks that are cancelled, which do not ask again."""
    monkeypatch.setattr(plugins, "make_transitions", lambda scheduler, found, cause: made.append(set(found)))
    made, plugin = [], plugins.RunSchedulerPlugin()
    state = SimpleNamespace(state="memory", run_spec=None, waiters=())
    plugin.scheduler = SimpleNamespace(tasks={"run": state}, clients={}, workers={})
    plugin.restart(plugin.scheduler)
    for by in ("one", "cancelled", "one"):
        assert plugin.make_again("run", "name", "worker", "old", by=by)
    assert made == [{"run"}]
    plugin.transition("run", "released", "forgotten")
    assert plugin.make_again("run", "name", "worker", "old", by="one")
    assert made == [{"run"}]
    plugin.scheduler.tasks.clear()
    plugin.transition("run", "released", "forgotten")
    assert plugin.make_again("run", "name", "worker", "old", by="cancelled")
    assert not plugin._asked


# ---- slices, wherever they are ----


@pytest.mark.parametrize(("where", "dtype"), slow_but_first(*product(KEPT, [np.dtype("f8"), *ours.COMPARED])))
def test_every_width_from_everywhere(on_cluster, kept_in, where, dtype):
    kept_in(where)
    keys, values = ours.make(dtype, 400, "special"), ours.make(dtype, 400, "bits", seed=1)
    rows = np.arange(3 * 400).reshape(-1, 3)
    x, y, z = (ours.dask_array(array, chunks) for array, chunks in ((keys, 37), (values, 37), (rows, (50, 2))))
    with groups(5), dask.config.set({"gpusort.exchange": "runs"}):
        found = dask.compute(
            *dask_gpusort.sort_by_key(x, y, z, descending=True),
            dask_gpusort.argsort(ours.forget_sizes(x)),
            dask_gpusort.take(y, da.from_array(rows[::-1, 0] // 3, chunks=70)),
        )
    order = oracle.argsort(keys, descending=True)
    wanted = keys[order], values[order], rows[order], oracle.argsort(keys), values[::-1]
    for one, other in zip(found, wanted, strict=True):
        oracle.assert_same_bits(one, other)


SMALL = ours.make("i8", 300, "few")
AT = np.random.default_rng(0).permutation(300)
#: What is called with `SMALL` and `AT`, and what NumPy gives; other functions are in the contract of all.
CALLS = {
    "a copy": (lambda x, at: clone(dask_gpusort.sort(x)), lambda x, at: np.sort(x)),
    "bound": (lambda x, at: bind(dask_gpusort.sort(x), at.sum()), lambda x, at: np.sort(x)),
    "search for no needles": (
        lambda x, at: dask_gpusort.searchsorted(dask_gpusort.sort(x), at[at < 0]),
        lambda x, at: at[:0],
    ),
    "inverse of several dimensions": (
        lambda x, at: dask_gpusort.unique_inverse(x.reshape(3, 100)).inverse_indices,
        lambda x, at: np.unique_inverse(x.reshape(3, 100)).inverse_indices,
    ),
    "read": (lambda x, at: dask_gpusort.take(x, at), lambda x, at: x[at]),
}
#: The same that keep no runs.
WITHOUT_RUNS = {
    "one key": (lambda x, at: dask_gpusort.sort(x[3:4].rechunk(1)), lambda x, at: x[3:4]),
    "lanes": (lambda x, at: dask_gpusort.sort(at.reshape(3, 100), 1), lambda x, at: np.sort(at.reshape(3, 100), 1)),
    "search in no keys": (
        lambda x, at: dask_gpusort.searchsorted(da.zeros(9, int, chunks=3)[:0], at),
        lambda x, at: np.zeros(300, int),
    ),
}


@pytest.fixture
def small_arrays(monkeypatch):
    monkeypatch.setattr(search, "is_small", lambda *_: False)
    with groups(4), dask.config.set({"gpusort.exchange": "runs", "array.chunk-size": "800B"}):
        yield [da.from_array(array, chunks=40) for array in (SMALL, AT)]


@pytest.mark.parametrize("where", KEPT)
def test_calls(on_cluster, kept_in, small_arrays, where):
    kept_in(where)
    for function, oracles in CALLS.values():
        oracle.assert_same_bits(function(*small_arrays).compute(), oracles(SMALL, AT))
    runs.check_nothing_is_left(on_cluster)


@pytest.mark.parametrize("name", [*CALLS, *WITHOUT_RUNS])
def test_calls_built_for_another_scheduler(on_cluster, small_arrays, name):
    function, oracles = (CALLS | WITHOUT_RUNS)[name]
    kept = function(*small_arrays)
    with dask.config.set({"scheduler": "threads", "gpusort.exchange": "auto"}):
        moved = function(*small_arrays)
    oracle.assert_same_bits(moved.compute(), oracles(SMALL, AT))
    if name in WITHOUT_RUNS:
        oracle.assert_same_bits(kept.compute(scheduler="threads"), oracles(SMALL, AT))
        return
    with pytest.raises(RuntimeError, match="lacks the plugin 'gpusort-runs': build the array with the Client that"):
        kept.compute(scheduler="threads")


DISTINCT = np.random.default_rng(1).permutation(120_000)
#: What is called with keys that all differ.
STREAMS = {
    "unique": lambda x: [dask_gpusort.unique(x)],
    "counts": lambda x: dask_gpusort.unique_counts(x),
    "first positions": lambda x: dask_gpusort.unique(x, return_index=True),
    "inverse": lambda x: [dask_gpusort.unique_inverse(x)[1]],
    "nunique": lambda x: [dask_gpusort.nunique(x)],
    "union1d": lambda x: [dask_gpusort.union1d(x, x + 7)],
    "intersect1d": lambda x: dask_gpusort.intersect1d(x, x + 7, return_indices=True),
    "setdiff1d": lambda x: [dask_gpusort.setdiff1d(x, x + 7)],
    "setxor1d": lambda x: [dask_gpusort.setxor1d(x, x + 7)],
    "rank": lambda x: [dask_gpusort.rank(x)],
    "ordinal ranks": lambda x: [dask_gpusort.rank(x, method="ordinal")],
    "searchsorted": lambda x: [dask_gpusort.searchsorted(dask_gpusort.sort(x), x[::-1])],
    "isin": lambda x: [dask_gpusort.isin(x[::-1], x + 7)],
}


@pytest.mark.parametrize("names", slow_but_first([*STREAMS][:2], [*STREAMS][2:]))
def test_no_stage_holds_all_keys(kept_in, monkeypatch, names):
    kept_in("files")
    monkeypatch.setattr(search, "is_small", lambda *_: False)
    monkeypatch.setattr(search, "KEPT_SHARE", 0.0)
    x = da.from_array(DISTINCT, chunks=5_000).map_blocks(np.copy, meta=DISTINCT[:0])
    with runs.cluster(2) as client, groups(24):
        for name in names:
            with runs.watched(client) as held:
                dask.compute([one.sum() for one in STREAMS[name](x)])
            assert held.most < DISTINCT.nbytes / 4, name


@pytest.mark.parametrize("in_tables", [False, True])
def test_groups_are_cut_where_the_bounds_say(monkeypatch, in_tables):
    # Each of two chunks has keys that may belong to either of two groups.
    first, last = np.array([[[0, 3, 7, 10], [0, 2, 6, 9]], [[0, 5, 8, 10], [0, 4, 6, 9]]])
    bounds = Bounds(first, last, ranks=np.array([0, 6, 14, 19]), starts=np.array([0, 10, 19]))
    monkeypatch.setattr(programs, "bounds_at_ranks", lambda *_: bounds)
    local = programs.LocalSort(Order(np.dtype("i8")), positions=False)
    summaries = [SimpleNamespace(size=size) for size in (10, 9)]
    contents = tuple((chunk, chunk + 1, 0, 1) for chunk in range(3))
    decision = programs.SortRuns(local, 2, 0, programs.Groups((6, 8, 5), contents)).decide(summaries, None)
    ends = decision.ends
    if in_tables:
        ends = notes.KeptEnds(tuple(table_of(ends, number) for number in range(2)), turns.Store())
    listed = turns.Listed(decision, [], [(Run(np.arange(10)),), (Run(np.arange(10, 19)),)], ends, ends)
    found = []
    merge = programs.Merge(lambda *given: found.append(given) or (), cuts=False)
    for group, kept_rows in enumerate([slice(0, 6), slice(1, 9), slice(1, 6)]):
        turns.take_turn(merge, group, turns.Store(), None, None, listed)
        pieces, own = found.pop()
        assert [start for start, _ in pieces] == [0, 10]
        for number, (start, run) in enumerate(pieces):
            wanted = np.arange(start + first[number, group], start + last[number, group + 1])
            assert run.keys.tolist() == wanted.tolist()
        assert own == kept_rows == cuts.kept(bounds, group)


def table_of(ends, number):
    """The kept table of the ends of one run."""
    step = SimpleNamespace(ends=lambda ends, _, first: program.Ends(ends.first[[first]], ends.last[[first]]))
    return notes.keep_ends(step, [SimpleNamespace(note=None)], number, SimpleNamespace(decision=ends), turns.Store())


@pytest.mark.parametrize(("where", "kind", "dtype"), grid(KEPT, ["bits", "few", "constant"], ["i8", "f4", "S5"]))
def test_cuts_between_candidates(on_cluster, kept_in, monkeypatch, dtype, kind, where):
    count_candidates(monkeypatch)
    kept_in(where)
    keys, values = ours.make(dtype, 900, kind), np.arange(900)
    x = da.from_array(keys, chunks=37)
    with groups(6), dask.config.set({"gpusort.exchange": "runs"}):
        assert "counts before 112" in dask_gpusort.explain(x).detail
        found = dask.compute(
            *dask_gpusort.sort_by_key(x, da.from_array(values, chunks=50)),
            dask_gpusort.argsort(ours.forget_sizes(x), method="merge"),
            dask_gpusort.sort(x, stable=True),
        )
    order = oracle.argsort(keys)
    for one, other in zip(found, (keys[order], order, order, keys[order]), strict=True):
        oracle.assert_same_bits(one, other)
    runs.check_nothing_is_left(on_cluster)


def count_candidates(monkeypatch):
    """As if there were so many chunks that no task could have samples enough."""
    monkeypatch.setattr(counting, "TASK_SAMPLES", 1)
    monkeypatch.setattr(counting, "MOST_TASK_SAMPLES", 1)
    monkeypatch.setattr(counting, "FAN_IN", 4)


def test_who_lists_counted_runs_gets_handles_alone(on_cluster, monkeypatch):
    count_candidates(monkeypatch)
    with groups(6):
        graph = dask_gpusort.sort(source(), exchange="runs").__dask_graph__()
    listed = {key for key in graph if key[0].startswith("sort-list")}
    (needed,) = (sorted(graph[key].dependencies, key=str) for key in listed)
    found = on_cluster.get(graph, needed)
    made = [one for one in found if not isinstance(one, turns.Listed)]
    kept = [handle for one in made for handle in (one.runs if isinstance(one, turns.Turn) else [one])]
    assert all(isinstance(one, handles.Handle) for one in kept)
    assert len(kept) == len(needed) - 1 > SIZE // CHUNK
    runs.check_nothing_is_left(on_cluster)


# ---- events ----


def source(function=np.copy):
    """An array of chunks that tasks make, and make again."""
    return da.from_array(ARRAY, chunks=CHUNK).map_blocks(function, meta=ARRAY[:0])


def sort(x=None, **options):
    with groups(6):
        return dask_gpusort.sort(source() if x is None else x, exchange="runs", stable=True, **options)


def check(client, found):
    """Assert that a result is right, and that nothing is left."""
    future = client.compute(found, retries=2)
    oracle.assert_same_bits(gangs.result_of(future), SORTED)
    del future
    runs.check_nothing_is_left(client)


def lose_with_handles(scheduler, address):
    """Lose the other worker when it alone has the handles of its runs, as the memory manager of Dask may have it."""
    lost = [key for key, keeper in scheduler.plugins[plugins.NAME]._keepers.items() if keeper != address]
    scheduler.request_remove_replicas(address, lost, stimulus_id="dropped")
    return runs.lose_another(scheduler, address)


def test_tasks_that_are_queued_when_runs_are_lost():
    # Dask queues the lost runs, because the worker that is left has a group; then the group is cancelled.
    saturation = {"distributed.scheduler.worker-saturation": 1.0}
    with runs.cluster(2, **saturation) as client, runs.call_at(client, "sort-scan", (1,), lose_with_handles):
        check(client, sort())


@pytest.mark.parametrize("lost", ["first", "last"])
def test_a_worker_lost_after_a_part_is_released(lost):
    with runs.cluster(3) as client:
        futures = client.compute(list(sort().to_delayed()), retries=2)
        distributed.wait(futures)
        gangs.until(lambda: runs.left(client).keys() == {"lists"}, "the end of all runs")
        client.compute(sort().sum()).result()
        assert runs.left(client).keys() == {"lists"}, "runs are wanted by a list that nobody needs"
        del futures[1::2]
        addresses = sorted(client.cluster.scheduler.workers)
        client.sync(lambda: runs.lose(client.cluster.scheduler, addresses[0 if lost == "first" else -1]))
        for number, block in enumerate(client.gather(futures)):
            oracle.assert_same_bits(block, SORTED[2 * number * CHUNK :][:CHUNK])
        del futures
        runs.check_nothing_is_left(client)


def begin(client, gate):
    """A sort of which all runs but the last one are kept, and that one waits at a gate."""

    def wait(block, block_id=None):
        if block_id[0] == SIZE // CHUNK - 1:
            distributed.secede()
            gate.arrive("last")
        return block

    future, plugin = client.compute(sort(source(wait))), client.cluster.scheduler.plugins[plugins.NAME]
    gangs.until(lambda: gate.arrived("last") and len(plugin._keepers) == SIZE // CHUNK - 1, "runs")
    return future


def test_a_worker_that_is_paused_gives_its_runs(tmp_path):
    gate = gangs.Gate(tmp_path)
    with runs.cluster(3) as client:
        future, states = begin(client, gate), client.cluster.scheduler.workers.values()
        paused = next(state for state in states if not state.processing)
        for worker in client.cluster.workers.values():
            if worker.address == paused.address:
                worker.status = distributed.Status.paused
        gangs.until(lambda: paused.status == distributed.Status.paused, "a paused worker")
        gate.open()
        oracle.assert_same_bits(gangs.result_of(future), SORTED)
        assert paused.status == distributed.Status.paused


def test_replicas_of_handles_may_go(kept_in):
    kept_in("files")
    dropped = []

    def handles(scheduler):
        states = (state for key, state in scheduler.tasks.items() if key[0].startswith("sort-local"))
        return sum(len(state.who_has or ()) for state in states)

    def reduce_replicas(scheduler, address):
        scheduler.extensions["amm"].run_once()
        dropped.append(handles(scheduler))

    with runs.cluster(3) as client, runs.call_at(client, "sort-merge", range(1, 7), reduce_replicas):
        client.amm.start()
        check(client, sort())
    assert min(dropped) == SIZE // CHUNK  # one of each


def test_an_old_handle_of_a_lost_worker_is_made_again(tmp_path):
    """A worker may have one: it comes from another worker after the run was made again."""
    gate = gangs.Gate(tmp_path)
    with runs.cluster(3) as client:
        future, (key, *_) = begin(client, gate), client.cluster.scheduler.plugins[plugins.NAME]._keepers
        for worker in client.cluster.workers.values():
            if key in worker.data:
                turn, lost = worker.data[key], {"worker": "tcp://127.0.0.1:1", "path": "", "name": "of no run"}
                old = tuple(dataclasses.replace(handle, **lost) for handle in turn.runs)
                worker.data[key] = dataclasses.replace(turn, runs=old)
        gate.open()
        oracle.assert_same_bits(gangs.result_of(future), SORTED)
        del future
        runs.check_nothing_is_left(client)


@pytest.mark.parametrize("owner", ["its worker", "another worker"])
def test_an_old_handle_that_tasks_take_is_made_again(kept_in, monkeypatch, owner):
    """A worker may get one of a task that was made again: its tasks ask for that run, whose worker has another one."""
    kept_in("files of others")
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.01)
    put, made, array = store.Store.put, [], ours.make("i8", SIZE, "zipf")

    def put_twice(self, key, runs):
        runs = list(runs)
        found = put(self, key, runs)
        made.append(key)
        if made.count(key) == 1 and key[1] in (2, 5):
            put(self, key, runs)
            other = next(worker.address for worker in workers if worker.address != self.address)
            lost = {"path": "", **({"worker": other} if owner == "another worker" else {})}
            found = [dataclasses.replace(handle, **lost) for handle in found]
        return found

    monkeypatch.setattr(store.Store, "put", put_twice)
    with runs.cluster(2) as client, dask.config.set({"gpusort.exchange": "runs"}), groups(4):
        workers = list(client.cluster.workers.values())
        futures = client.compute(runs.results(da.from_array(array, chunks=CHUNK)))
        runs.assert_right(map(gangs.result_of, futures), array)
        assert {made.count(key) for key in made} == {1, 2}
        del futures
        runs.check_nothing_is_left(client)


def fail(block, block_id=None):
    if block_id == (3,):
        raise ZeroDivisionError("of the source")
    return block


def test_errors_leave_nothing(on_cluster):
    for x, error in ((source(fail), ZeroDivisionError), (source(lambda block: block[1:]), ValueError)):
        future = on_cluster.compute(sort(x))
        assert isinstance(gangs.error_of(future), error)
        del future
        runs.check_nothing_is_left(on_cluster)


#: Chunks for which `fail_once` was called. Workers in this process share it.
FAILED: set[tuple[int, ...]] = set()


def fail_once(block, block_id=None):
    if block_id not in FAILED:
        FAILED.add(block_id)
        raise OSError("once")
    return block


def test_a_task_that_fails_once_is_tried_again(on_cluster):
    FAILED.clear()
    check(on_cluster, sort(source(fail_once)))
    assert len(FAILED) == SIZE // CHUNK


def test_a_worker_that_does_not_answer_is_asked_again(on_cluster, kept_in, monkeypatch):
    kept_in("memory of others")
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0)
    take, refused = store.Store.take, []

    def refuse_once(self, name, *ends):
        if len(refused) < 3 and threading.current_thread().name.startswith("Dask-Offload"):
            refused.append(name)
            raise ConnectionError("once")
        return take(self, name, *ends)

    monkeypatch.setattr(store.Store, "take", refuse_once)
    check(on_cluster, sort())
    assert len(refused) == 3


def refuse_peers(self, name, *ends):
    """In place of `Store.take`: nothing for a peer."""
    assert threading.current_thread().name.startswith("Dask-Offload")
    raise ConnectionError("never")


def test_a_worker_that_never_answers_is_told(on_cluster, kept_in, monkeypatch):
    kept_in("memory of others")
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(keep_and_take, "SILENT_SECONDS", 2)
    with monkeypatch.context() as context:
        context.setattr(store.Store, "take", refuse_peers)
        future = on_cluster.compute(sort())
        message = str(gangs.error_of(future))
    first, second = re.search("^worker (.*) has asked worker (.*) for sorted runs in vain", message).groups()
    assert {first, second} <= set(on_cluster.scheduler_info(n_workers=-1)["workers"])
    assert "let workers reach each other" in message
    assert "never" in message
    del future
    runs.check_nothing_is_left(on_cluster)
    check(on_cluster, sort())  # an answer ends the count


def test_a_lost_worker_that_the_scheduler_notices_late(kept_in, monkeypatch):
    kept_in("memory of others")
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(keep_and_take, "SILENT_SECONDS", 0.2)
    take, silent, refused = store.Store.take, set(), []

    def refuse_of_silent(self, name, *ends):
        if self.address in silent and threading.current_thread().name.startswith("Dask-Offload"):
            refused.append(time.monotonic())
            raise ConnectionError("silent")
        return take(self, name, *ends)

    def go_silent(scheduler, address):
        silent.add(address)
        worker = next(worker for worker in client.cluster.workers.values() if worker.address == address)
        worker.status = distributed.Status.paused  # as it may ask others, but not itself
        worker.periodic_callbacks["heartbeat"].stop()

    monkeypatch.setattr(store.Store, "take", refuse_of_silent)
    with runs.cluster(3) as client, runs.call_at(client, "sort-scan", (1,), go_silent):
        future = client.compute(sort())
        gangs.until(lambda: refused and refused[-1] - refused[0] > 2, "a silent worker")
        (address,) = silent
        client.sync(lambda: runs.lose(client.cluster.scheduler, address))
        oracle.assert_same_bits(gangs.result_of(future), SORTED)


def change_file(path, part):
    """Change one bit at some part of a file."""
    with open(path, "r+b") as file:
        file.seek(int(os.path.getsize(path) * part))
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 16]))


def change_memory(handle):
    """Forget a run, as no worker should."""
    worker = distributed.worker.Worker._instances
    (own,) = (one.plugins[plugins.NAME].store for one in worker if one.address == handle.worker)
    own._kept.pop(handle.name, None)


#: What happens to a run, where it is kept, how often it is made again then, and the word for it.
LOSSES = {
    "removed": ("files", lambda handle: os.unlink(handle.path), 3, "gone"),
    "cut": ("files", lambda handle: os.truncate(handle.path, os.path.getsize(handle.path) - 1), 3, "gone"),
    "changed": ("files", lambda handle: change_file(handle.path, 0.5), 1, "damaged"),
    "changed, and read by its worker alone": (
        "files of others",
        lambda handle: change_file(handle.path, 0.99),
        1,
        "damaged",
    ),
    "its checksums changed": ("files", lambda handle: change_file(handle.path, 0.999), 1, "damaged"),
    "forgotten": ("memory of others", change_memory, 3, "gone"),
}


@pytest.fixture
def losses(monkeypatch, kept_in):
    """Let runs be lost between the task that lists them and those that read them: `numbers`, in the first `times`."""

    def let(where, lose, numbers, times):
        listed = []
        kept_in(where)
        find = kept.list_turns

        def lose_some(step, made, senders, *others):
            found = find(step, made, senders, *others)
            handles = [turn.runs[0] for turn in senders]
            listed.append([handles[number].name for number in numbers])
            if len(listed) <= times:
                for number in numbers:
                    with contextlib.suppress(FileNotFoundError):  # one that was lost before, and is to be made again
                        lose(handles[number])
            return found

        monkeypatch.setattr(kept, "list_turns", lose_some)
        monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.01)
        return listed

    return let


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_that_is_lost_is_made_again(on_cluster, losses, loss):
    where, lose, most, _ = LOSSES[loss]
    listed = losses(where, lose, [3, 7], most)
    check(on_cluster, sort())
    assert most < len(listed) <= 2 * most + 1  # both at once, or one after the other
    assert len({names[0] for names in listed}) > most


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_that_is_lost_again_is_told(on_cluster, losses, loss):
    where, lose, most, word = LOSSES[loss]
    listed = losses(where, lose, [3], 99)
    future = on_cluster.compute(sort())
    message = str(gangs.error_of(future))
    assert re.search(f"a sorted run is {word} on worker .*://.*, after it was made again.*disk", message)
    if where.startswith("files"):
        assert listed[-1][0] in message  # the file
    assert len(listed) == most + 1
    del future
    runs.check_nothing_is_left(on_cluster)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["removed", "cut", "changed"])
@pytest.mark.parametrize("number", [1, 2])  # of a function; that of the sort is above
def test_files_of_other_functions_that_are_lost(kept_in, monkeypatch, loss, number):
    kept_in("files")
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.01)
    _, lose, _, _ = LOSSES[loss]
    array, lost = ours.make("i8", SIZE, "zipf"), []

    def lose_all(scheduler, address):
        for worker in cluster.workers.values():
            for one in worker.plugins[plugins.NAME].store._kept.values():
                lost.append(one.handle.name)
                lose(one.handle)

    with runs.cluster(2) as client, dask.config.set({"gpusort.exchange": "runs"}), groups(4):
        cluster = client.cluster
        found = runs.results(da.from_array(array, chunks=CHUNK))
        with runs.call_at(client, "unique-list", (1,), lose_all):
            future = client.compute(found[number])
            got = gangs.result_of(future)
        assert len(lost) >= SIZE // CHUNK
        del future
        runs.check_nothing_is_left(client)
        wanted = dask.compute(*found)
    runs.assert_right(wanted, array)
    np.testing.assert_array_equal(got, wanted[number])


def test_cuts_of_a_damaged_run_are_found_again(on_cluster, kept_in, monkeypatch):
    count_candidates(monkeypatch)
    kept_in("files")
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.01)
    list_kept, listed = notes.list_kept, []

    def change_one(decided, tables, senders, own):
        found = list_kept(decided, tables, senders, own)
        listed.append([table.name for table in tables])
        if len(listed) == 1:
            change_file(senders[3].runs[0].path, 0.5)
        return found

    monkeypatch.setattr(notes, "list_kept", change_one)
    check(on_cluster, sort())
    first, second = listed
    assert first != second


@pytest.mark.parametrize(
    ("times", "what", "part"), [(1, "runs", 0), (1, "runs", 0.5), (1, "runs", 0.999), (10**9, "checksums", 0.5)]
)
def test_an_answer_that_is_damaged_is_asked_for_again(on_cluster, kept_in, monkeypatch, times, what, part):
    kept_in("memory of others")
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(keep_and_take, "SILENT_SECONDS", 1)
    pickled, sent = store.Store._pickled, []

    def damage(self, names, *others):
        reply = pickled(self, names, *others)
        sent.append(names)
        if len(sent) <= times:
            changed = bytearray(getattr(reply[what], "data", reply[what]))
            changed[int(len(changed) * part)] ^= 16
            reply[what] = to_serialize(bytes(changed)) if what == "runs" else bytes(changed)
        return reply

    monkeypatch.setattr(store.Store, "_pickled", damage)
    if times == 1:
        check(on_cluster, sort())
    else:
        future = on_cluster.compute(sort())
        assert re.search("in vain .*its answer has other bytes than were sent", str(gangs.error_of(future)))
        del future
        runs.check_nothing_is_left(on_cluster)
    assert len(sent) > 1


def ranks():
    with groups(6), dask.config.set({"gpusort.exchange": "runs"}):
        return dask_gpusort.rank(source())


@pytest.mark.parametrize(("function", "seconds"), [(sort, 0.5), (sort, 10**9), (ranks, 10**9)])
def test_a_list_whose_worker_cannot_reach_another(monkeypatch, function, seconds):
    # Dask's own fetch fails, as behind a firewall: the first worker and the others are apart.
    monkeypatch.setattr(keep_and_take, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(keep_and_take, "SILENT_SECONDS", 2)
    get, since = distributed.worker.get_data_from_worker, []

    async def get_of_near(rpc, keys, worker, *, who=None, **options):
        since.append(time.monotonic())
        if since[-1] - since[0] < seconds:
            raise OSError("no route")
        return await get(rpc, keys, worker, who=who, **options)

    monkeypatch.setattr(distributed.worker, "get_data_from_worker", get_of_near)
    with runs.cluster(2) as client:
        if seconds < 1:  # it heals
            check(client, sort())
        else:
            future = client.compute(function())
            message = str(gangs.error_of(future))
            found = re.search("^worker (.*) has asked worker (.*) for sorted runs in vain", message).groups()
            assert set(found) == set(client.scheduler_info(n_workers=-1)["workers"])
            assert "firewalls" in message
            del future
            runs.check_nothing_is_left(client)
    assert len(since) > 1


@pytest.mark.parametrize("where", ["memory", "files", "files in directories"])
@pytest.mark.parametrize("end", ["cancel", "close"])
def test_a_sort_that_is_ended(tmp_path, request, kept_in, where, end):
    kept_in(where)
    gate = gangs.Gate(tmp_path)
    if "directories" in where:
        request.getfixturevalue("directories")

    with runs.cluster(2, **{"temporary-directory": str(tmp_path)}) as client:
        future = begin(client, gate)
        assert len(files_of(tmp_path)) == (SIZE // CHUNK - 1) * ("files" in where)
        assert bool(files_of(tmp_path / "first")) == ("directories" in where)
        if end == "cancel":
            future.cancel()
            gate.open()
            runs.check_nothing_is_left(client)
            check(client, sort())
        gate.open()
    assert not files_of(tmp_path)


def files_of(folder):
    """Names of the files of runs."""
    return [name for _, _, files in os.walk(folder) for name in files if re.fullmatch("[0-9a-f]{32}", name)]


@pytest.mark.parametrize(("where", "end"), grid(["own folders", "directories"], ["restart", "kill"]))
def test_a_restart_or_a_killed_worker_leaves_nothing(tmp_path, request, where, end):
    gate = gangs.Gate(tmp_path)
    if where == "directories":
        request.getfixturevalue("directories")

    def wait(block, block_id=None):
        if block_id[0] == SIZE // CHUNK - 1:
            gate.arrive("last")
        return block

    def only_files(dask_worker):
        import_module("dask_gpusort.graph.runs.store").MEMORY_SHARE = 0

    config = {"temporary-directory": str(tmp_path), "scheduler": "distributed"}
    with dask.config.set(config), gangs.cluster(2) as client, client.as_current():
        client.run(only_files)
        found = client.compute(sort(source(wait)))
        gangs.until(lambda: len(files_of(tmp_path)) >= SIZE // CHUNK // 2, "files")
        assert bool(files_of(tmp_path / "first")) == (where == "directories")
        if end == "restart":
            client.restart()
            assert not files_of(tmp_path)
            assert found.status == "cancelled"
        else:
            found.cancel()
            gangs.kill(client, gangs.addresses(client)[0])
            client.wait_for_workers(2, timeout=gangs.LONG)
            gangs.until(lambda: not files_of(tmp_path), "the end of all files")
        gate.open()
        check(client, sort())


def test_sorts_that_share_their_stages(on_cluster):
    whole, halves = sort(), sort(chunks=SIZE // 2)
    first, second = on_cluster.compute([whole, halves])
    oracle.assert_same_bits(gangs.result_of(first), SORTED)
    del first
    oracle.assert_same_bits(gangs.result_of(second), SORTED)
    del second
    runs.check_nothing_is_left(on_cluster)


def test_one_worker_of_several(on_cluster):
    address = min(on_cluster.scheduler_info()["workers"])
    with dask.annotate(workers=[address]):
        found = sort()
    with dask.config.set({"optimization.fuse.active": False}):
        future = on_cluster.compute(found, workers=[address])
    oracle.assert_same_bits(gangs.result_of(future), SORTED)
