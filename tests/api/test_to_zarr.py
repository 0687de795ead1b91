"""Tests of `to_zarr`: a store has what NumPy selects, or finds distinct, and nothing before all of it is there."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from hypothesis import given, settings
from hypothesis import strategies as st
from support import strategies as ours
from support.sorting import no_computation

import dask_gpusort
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.chunk.zarr_chunks import NOTHING_LEFT, Span, ZarrTarget, finish_array, join_spans, write_chunk

zarr = pytest.importorskip("zarr")

DTYPES = ["?", "i1", "<i8", ">i4", "f4", "f8", "c16", "M8[s]", "m8[ns]", "S3", "U4", np.dtypes.StringDType()]


class Written(zarr.storage.WrapperStore):
    """A store in memory that notes what is written, and read, beside metadata."""

    def __init__(self):
        super().__init__(zarr.storage.MemoryStore())
        self.writes, self.reads = Counter(), Counter()

    def with_read_only(self, read_only=False):
        return self._store.with_read_only(read_only)

    async def get(self, key, *args, **options):
        self.reads[key] += 1
        return await self._store.get(key, *args, **options)

    async def set(self, key, value):
        self.writes[key] += 1
        await asyncio.sleep(0)
        await self._store.set(key, value)

    def chunks(self, count):
        return {key: number for key, number in count.items() if not key.endswith((".json", ".zarray", ".zattrs"))}


@st.composite
def lengths(draw):
    """Sizes of chunks, some of them empty, of which few or many fit a Zarr chunk."""
    most = draw(st.sampled_from([1, 3, 9, 40]))
    return tuple(draw(st.lists(st.integers(0, most) | st.just(0), min_size=1, max_size=25)))


@given(st.data())
@settings(max_examples=60)
def test_as_numpy(data):
    draw = data.draw
    ndim = draw(st.integers(1, 3))
    known = draw(st.booleans())
    axis = 0 if known else draw(st.integers(0, ndim - 1))
    dtype = draw(st.sampled_from(DTYPES))
    chunks = [draw(ours.chunk_sizes(draw(st.integers(0, 7)))) for _ in range(ndim)]
    chunks[axis] = draw(lengths())
    # None is the fill value, so that all chunks are stored.
    array = np.random.default_rng(draw(st.integers(0, 99))).integers(1, 100, tuple(map(sum, chunks))).astype(dtype)
    source = da.from_array(array, chunks=tuple(chunks))
    if not known:
        source = ours.forget_sizes(source, (axis,))
    units = draw(st.none() | st.integers(1, 50) | st.tuples(*[st.integers(1, 12)] * ndim))
    options = draw(st.sampled_from([{}, {"zarr_format": 2}, {"compressors": None}]))
    if isinstance(units, tuple) and draw(st.booleans()):
        options = {"shards": tuple(unit * draw(st.integers(1, 3)) for unit in units)}
    store, name = Written(), draw(st.sampled_from([None, "a", "a/b"]))
    with dask.config.set(num_workers=draw(st.integers(1, 12))), no_computation():
        stored = dask_gpusort.to_zarr(source, store, name, chunks=units, compute=False, **options)
    empty = zarr.open_array(store, path=name)
    assert empty.shape == (*array.shape[:axis], 0, *array.shape[axis + 1 :])
    store.reads.clear()
    length = stored.compute(scheduler=draw(st.sampled_from(["threads", "sync"])))
    assert length == array.shape[axis]
    assert "shards" in options or not store.chunks(store.reads)  # of a part of a shard Zarr reads the others
    found = zarr.open_array(store, path=name)
    np.testing.assert_array_equal(found[...], array)
    assert np.can_cast(found.dtype, array.dtype, "equiv")  # zarr may give the native byte order
    sizes = [max(1, *one, 1) for one in chunks]
    if not known:
        sizes[axis] = found.chunks[axis]
    assert found.chunks == (
        units if isinstance(units, tuple) else (*sizes[:axis], units or sizes[axis], *sizes[axis + 1 :])
    )
    # Each Zarr chunk is written once.
    whole = found.shards or found.chunks
    wanted = np.prod([-(-size // unit) for size, unit in zip(array.shape, whole, strict=True)])
    written = store.chunks(store.writes)
    assert len(written) == wanted
    assert set(written.values()) <= {1}


def distinct(chunks=7):
    array = np.random.default_rng(0).integers(0, 300, 1000)
    return array, da.from_array(array, chunks=chunks)


def test_chunks_of_about_eight_mebibytes():
    store = zarr.storage.MemoryStore()
    for dtype, shape in (("i8", ()), ("i2", (4,))):
        wide = ours.forget_sizes(da.zeros((1000, *shape), dtype=dtype, chunks=(100, *shape)), (0,))
        dask_gpusort.to_zarr(wide, store, dtype)
        found = zarr.open_array(store, path=dtype)
        assert np.prod(found.chunks) * found.dtype.itemsize == 8 << 20


RESULTS = {
    "unique": (lambda x: dask_gpusort.unique(x, return_counts=True), lambda a: np.unique(a, return_counts=True)),
    "union1d": (lambda x: (dask_gpusort.union1d(x, x + 9),), lambda a: (np.union1d(a, a + 9),)),
    "intersect1d": (lambda x: (dask_gpusort.intersect1d(x, x * 3),), lambda a: (np.intersect1d(a, a * 3),)),
    "selection": (lambda x: (x[x > 100],), lambda a: (a[a > 100],)),
    "rows": (
        lambda x: (x.reshape(100, 10)[x.reshape(100, 10).max(axis=1) > 280],),
        lambda a: (a.reshape(100, 10)[a.reshape(100, 10).max(axis=1) > 280],),
    ),
    "join": (
        lambda x: dask_gpusort.join_indices(x, x[:200]),
        lambda a: np.nonzero(a[:, None] == a[None, :200]),
    ),
}


def store_all(arrays, url, **options):
    stored = [dask_gpusort.to_zarr(one, url, str(n), compute=False, **options) for n, one in enumerate(arrays)]
    return dask.compute(*stored)


def check_all(url, wanted):
    for number, one in enumerate(wanted):
        np.testing.assert_array_equal(zarr.open_array(url, path=str(number), mode="r")[...], one, strict=True)


@pytest.mark.parametrize("unit", [1, 16, 10_000])
@pytest.mark.parametrize("name", RESULTS)
def test_results_of_unknown_sizes(name, unit, tmp_path):
    function, numpys = RESULTS[name]
    array, x = distinct()
    assert set(store_all(function(x), tmp_path, chunks=unit)) == {len(numpys(array)[0])}
    check_all(tmp_path, numpys(array))


def test_several_arrays_are_computed_once():
    calls = Counter()

    def counted(block, block_id):
        calls[block_id] += 1
        return np.unique(block)

    array, x = distinct(100)
    x = x.map_blocks(counted, dtype=x.dtype, meta=x._meta)
    store = zarr.storage.MemoryStore()
    values, counts = dask_gpusort.unique(ours.forget_sizes(x), return_counts=True)
    lengths = store_all((values, counts), store)
    assert set(calls.values()) == {1}
    assert len(calls) == 10
    assert lengths[0] == lengths[1] == len(np.unique(array))


def test_tasks_that_run_again_write_the_same():
    _, x = distinct()
    store = zarr.storage.MemoryStore()
    stored = dask_gpusort.to_zarr(dask_gpusort.unique(x), store, chunks=16, compute=False)
    first = stored.compute()
    before = {key: value.to_bytes() for key, value in store._store_dict.items()}
    assert stored.compute() == first
    assert {key: value.to_bytes() for key, value in store._store_dict.items()} == before


def test_calls_have_tasks_of_their_own():
    """On a cluster those of the same names would not run again."""
    _, x = distinct()
    one, other = (dask_gpusort.to_zarr(x, zarr.storage.MemoryStore(), compute=False) for _ in range(2))
    assert one.name != other.name


#: Locations, of a folder: what is given, and what is opened.
LOCATIONS = {
    "str": lambda path: (str(path), str(path)),
    "path": lambda path: (path, path),
    "group": lambda path: (zarr.open_group(path / "g").create_group("of"), path / "g" / "of"),
    "local store": lambda path: (zarr.storage.LocalStore(path), path),
    "store in memory": lambda path: (zarr.storage.MemoryStore(),) * 2,
    "memory URL": lambda path: (f"memory://{path.name}",) * 2,
}


@pytest.mark.parametrize("name", LOCATIONS)
def test_locations(name, tmp_path):
    given, opened = LOCATIONS[name](tmp_path)
    given = given[0] if isinstance(given, tuple) else given
    array, x = distinct()
    assert dask_gpusort.to_zarr(x[x > 9], given, "part") is None
    opened = given if name == "store in memory" else opened
    np.testing.assert_array_equal(zarr.open_array(opened, path="part", mode="r")[:], array[array > 9])


def test_options_of_the_file_system(tmp_path):
    pytest.importorskip("fsspec")
    _, x = distinct()
    dask_gpusort.to_zarr(x, f"file://{tmp_path}/new", storage_options={"auto_mkdir": True})
    with pytest.raises(TypeError, match="storage_options"):
        dask_gpusort.to_zarr(x, tmp_path / "other", storage_options={"auto_mkdir": True})


def test_attributes_and_other_options():
    _, x = distinct()
    store = zarr.storage.MemoryStore()
    config = {"write_empty_chunks": True}
    dask_gpusort.to_zarr(x[x < 0], store, attributes={"units": "K"}, dimension_names=["t"], config=config)
    found = zarr.open_array(store)
    assert (found.shape, found.attrs["units"], found.metadata.dimension_names) == ((0,), "K", ("t",))


class OwnError(Exception):
    pass


@pytest.mark.parametrize("scheduler", ["threads", "sync", "processes"])
def test_what_fails_is_an_empty_array(scheduler, tmp_path):
    array, x = distinct(100)

    def fail(block, block_id):
        if block_id == (7,):
            raise OwnError("no such file")
        return block[block > 9]

    bad = ours.forget_sizes(x.map_blocks(fail, dtype=x.dtype, meta=x._meta))
    with dask.config.set(scheduler=scheduler):
        with pytest.raises(OwnError):
            dask_gpusort.to_zarr(bad, tmp_path, chunks=10)
        assert zarr.open_array(tmp_path, mode="r").shape == (0,)
        with pytest.raises(zarr.errors.ContainsArrayError) as raised:
            dask_gpusort.to_zarr(x[x > 9], tmp_path, chunks=10)
        assert raised.value.__notes__ == ["Give overwrite=True to delete what is there, or another component."]
        dask_gpusort.to_zarr(x[x > 9], tmp_path, chunks=10, overwrite=True)
        np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[:], array[array > 9])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda block: block.astype("f8"), TypeError, "has dtype float64 where its array says int64"),
        (lambda block: block[:, None], ValueError, "has shape .* where its array is 1-dimensional"),
        (np.ma.asarray, TypeError, "is a masked array"),
        (list, TypeError, "is of type list"),
    ],
)
def test_a_wrong_chunk_is_named(change, error, message):
    _, x = distinct(100)

    def changed(block, block_id):
        return change(block) if block_id == (3,) else block

    bad, store = ours.forget_sizes(x.map_blocks(changed, dtype=x.dtype, meta=x._meta)), zarr.storage.MemoryStore()
    with pytest.raises(error, match=f"chunk 3 of the array {message}"):
        dask_gpusort.to_zarr(bad, store)
    assert zarr.open_array(store).shape == (0,)


def target(chunks=(10,)):
    made = zarr.create_array({}, shape=(0,) * len(chunks), chunks=chunks, dtype="i8")
    return ZarrTarget(made, None, 0)


def test_no_chunk_is_kept_with_what_is_left_of_it():
    block = np.arange(28)
    for start, sizes in ((0, (0, 8)), (3, (7, 1)), (1, (9, 9)), (95, (5, 3))):
        span = write_chunk(block, declared_chunks("", block.dtype, ((28,),))[0], target(), (), start, [])
        assert (span.start, span.end) == (start, start + 28)
        assert (len(span.head[0]), len(span.tail[0])) == sizes
        assert not any(np.shares_memory(block, piece) for piece in span.head + span.tail)


def test_sizes_that_change_are_an_error():
    """As where a chunk that was lost differs when it is made again."""
    spans = [Span(0, 5, (np.arange(5),), (np.arange(5),)), Span(6, 8, (np.arange(2),), ())]
    with pytest.raises(RuntimeError, match="other sizes than before, so it is not stored.*persist"):
        join_spans([NOTHING_LEFT, *spans], target(), ())
    ends = [[NOTHING_LEFT._replace(end=end, tail=(np.arange(end),))] for end in (4, 3)]
    own = target((10, 1))
    with pytest.raises(RuntimeError, match=r"columns of chunks have \[3, 4\] rows"):
        finish_array(ends, [(slice(0, 1),), (slice(1, 2),)], own)
    assert own.array.shape == (0, 0)


X = da.from_array(np.arange(12).reshape(4, 3), chunks=2)
WRONG = [
    ({"arr": (X, X)}, TypeError, r"not several: store each with compute=False, all with dask.compute\(\*them\)"),
    ({"arr": ours.forget_sizes(X)}, ValueError, r"unknown sizes along axes \[0, 1\].*arr.compute_chunk_sizes\(\)"),
    ({"arr": da.ones(())}, ValueError, r"arr must have a dimension: give arr\[None\]"),
    ({"arr": X.astype(object)}, TypeError, r"arr of object cannot be stored: give arr.astype\(dtype\)"),
    ({"arr": da.from_array(np.ma.masked_array([1, 2], [0, 1]), chunks=1)}, TypeError, "arr .*masked.*filled"),
    ({"arr": X.astype("g")}, (KeyError, ValueError), "float128|f16"),  # of Zarr
    ({"arr": "abc"}, TypeError, "arr must be an array"),
    ({"chunks": (2,)}, ValueError, "chunks has 1 sizes for 2 axes: give one for each, or an int"),
    *(({"chunks": wrong}, ValueError, "chunks must be 1 or more.*leave it out") for wrong in (0, (2, -1))),
    *(({"chunks": wrong}, TypeError, "chunks must be an int, or one for each axis") for wrong in (2.5, ("a", 1), {})),
    ({"shards": (3, 3), "chunks": (2, 2)}, ValueError, "divi"),
    ({"mode": "w"}, TypeError, "mode"),
    ({"shape": (3,)}, TypeError, "shape"),
    ({"component": 3}, (TypeError, AttributeError), "int"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_leave_what_is_there(number, tmp_path):
    given, error, message = WRONG[number]
    url = str(tmp_path / "x.zarr")
    dask_gpusort.to_zarr(X, url)
    with no_computation(), pytest.raises(error, match=message) as raised:
        dask_gpusort.to_zarr(**{"arr": X, "url": url, "overwrite": True, **given})
    assert "\n" not in str(raised.value)
    np.testing.assert_array_equal(zarr.open_array(url, mode="r")[:], X.compute())
    assert os.listdir(tmp_path) == ["x.zarr"]


def test_locations_that_are_refused(tmp_path):
    there = zarr.create_array(tmp_path / "x", shape=(3,), dtype="i8")
    with pytest.raises(TypeError, match="url must be a path.*give url.store, component=url.path"):
        dask_gpusort.to_zarr(X, there)
    for url in ({}, zarr.storage.MemoryStore()):
        with dask.config.set(scheduler="processes"), pytest.raises(RuntimeError, match="would write to copies: give"):
            dask_gpusort.to_zarr(X, url)
    with pytest.raises(TypeError, match="explain the function that makes its array"):
        dask_gpusort.explain(dask_gpusort.to_zarr, X, tmp_path / "y")
    assert not (tmp_path / "y").exists()


def test_cupy_chunks_are_refused():
    array = da.zeros(12, chunks=4)
    array._meta = type("ndarray", (), {"__module__": "cupy", "dtype": np.dtype("f8"), "ndim": 1, "shape": (0,)})()
    with pytest.raises(TypeError, match="cupy"):
        dask_gpusort.to_zarr(array, {})


def test_zarr_2_is_refused():
    with mock.patch.object(zarr, "create_array"):
        del zarr.create_array
        with pytest.raises(ImportError, match=r"to_zarr needs Zarr 3, and .* is installed"):
            dask_gpusort.to_zarr(X, {})


def test_chunks_are_freed_as_they_are_written():
    """In the order of Dask few chunks are there at a time, whether Zarr chunks are smaller or larger."""
    most, lock = 0, threading.Lock()

    class Holding(Callback):
        def _posttask(self, key, value, graph, state, worker):
            nonlocal most
            with lock:
                now = sum(isinstance(one, np.ndarray) and one.nbytes > 500 for one in state["cache"].values())
                most = max(most, now)

    for unit in (10, 2000):
        x = da.arange(20_000, chunks=100).map_blocks(np.copy)
        most = 0
        with dask.config.set(num_workers=2), Holding():
            dask_gpusort.to_zarr(x[x % 7 > 0], zarr.storage.MemoryStore(), chunks=unit)
        assert most < 12, unit


distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def processes():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.parametrize("name", RESULTS)
def test_on_processes(name, processes, tmp_path):
    function, numpys = RESULTS[name]
    array, x = distinct(40)
    store_all(function(x), str(tmp_path), chunks=24)
    check_all(tmp_path, numpys(array))


def test_a_store_in_memory_is_refused_on_processes(processes):
    with pytest.raises(RuntimeError, match="would write to copies: give a path"):
        dask_gpusort.to_zarr(X, zarr.storage.MemoryStore())


def test_an_error_on_processes(processes, tmp_path):
    def fail(block):
        raise OwnError("no such file")

    _, x = distinct()
    with pytest.raises(OwnError):
        dask_gpusort.to_zarr(ours.forget_sizes(x.map_blocks(fail, dtype=x.dtype, meta=x._meta)), tmp_path)
    assert zarr.open_array(tmp_path, mode="r").shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unique", "selection"])
def test_a_killed_worker(name, tmp_path):
    """What it wrote is written again, and what it had computed again."""
    config = {"distributed.comm.timeouts.connect": "5s", "distributed.scheduler.allowed-failures": 10}
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": ":0"}
    array = np.random.default_rng(1).integers(0, 60_000, 200_000)
    slow = da.from_array(array, chunks=2_000).map_blocks(_late, dtype=array.dtype)
    found, wanted = {
        "unique": (dask_gpusort.unique(slow), np.unique(array)),
        "selection": (slow[slow % 5 > 0], array[array % 5 > 0]),
    }[name]
    with (
        dask.config.set(config),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        stored = dask_gpusort.to_zarr(found, str(tmp_path), chunks=700, compute=False)
        future = client.compute(stored)
        while len(list(Path(tmp_path).rglob("c/*"))) < 10:
            assert future.status == "pending"
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, signal.SIGKILL)
        assert zarr.open_array(tmp_path, mode="r").shape == (0,)
        assert future.result(timeout=120) == len(wanted)
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[:], wanted)


def _late(block):
    threading.Event().wait(0.02)
    return block
