"""Joins: all chunks are sorted in one task, which the chunks that a graph holds become a part of."""

from __future__ import annotations

import math
import re
from importlib import import_module
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from dask.array.core import slices_from_chunks
from dask.core import flatten
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.marks import grid
from support.sorting import check_sizes, computed

import dask_gpusort
from dask_gpusort.builders import staging
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.graph import runtime
from dask_gpusort.graph.runtime import held_chunks
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, fits_join


@pytest.fixture(autouse=True)
def joins():
    with dask.config.set({"gpusort.exchange": "join"}):
        yield


def own(darr):
    """Tasks of a sort: the one that sorts, and those of the output chunks."""
    names = ("sort", "argsort", "lexsort", "merge_sorted")
    keys = [key for key in dict(darr.__dask_graph__()) if str(key[0]).startswith(names)]
    sorting = [key for key in keys if key[0].startswith("sort-local")]
    return sorting, sorted(set(keys) - set(sorting))


FUNCTIONS = {
    "sort": lambda x, **options: [dask_gpusort.sort(x, **options)],
    "argsort": lambda x, **options: [dask_gpusort.argsort(x, **options)],
    "sort_by_key": lambda x, **options: dask_gpusort.sort_by_key(x, x, **options),
    "lexsort": lambda x, **options: [dask_gpusort.lexsort((x, x, x), **options)],
    "key": lambda x, **options: [dask_gpusort.sort(x, key=lambda block: block, **options)],
}


# Graphs.


@pytest.mark.parametrize("find", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("shape", [(60,), (6, 10), (2, 5, 6)])
def test_one_task_sorts(find, shape):
    x = da.ones(shape, chunks=2)
    found = find(x)
    for darr in found:
        (sorting,), outputs = own(darr)
        assert outputs == sorted(flatten(darr.__dask_keys__()))
        graph = dict(darr.__dask_graph__())
        assert graph[sorting].dependencies >= set(flatten(x.__dask_keys__()))
        assert all(graph[key].dependencies == {sorting} for key in outputs)
    # The outputs of one sort share the task.
    assert len({own(darr)[0][0] for darr in found}) == 1


def test_merge_sorted_checks_and_merges_in_one_task():
    found = dask_gpusort.merge_sorted(da.arange(9, chunks=2), da.arange(9, chunks=4))
    assert list(map(len, own(found))) == [1, 5 + 3]
    np.testing.assert_array_equal(computed(found), np.sort(np.tile(np.arange(9), 2)))
    with pytest.raises(ValueError, match="chunk 1 of array 1 is not sorted"):
        computed(dask_gpusort.merge_sorted(da.arange(9, chunks=2), da.from_array(np.array([1, 2, 2, 1]), chunks=2)))


def test_one_task_tells_whether_all_chunks_are_sorted():
    array = np.arange(60.0).reshape(6, 10)
    array[5, 9] = 0  # behind borders of both axes
    for rows, wanted in ((array[:5], True), (array, False)):
        for axis in (0, 1):
            found = dask_gpusort.is_sorted(da.from_array(rows, chunks=((4, len(rows) - 4), (9, 1))), axis)
            assert len(dict(found.__dask_graph__())) == 1
            assert computed(found) == wanted


@pytest.mark.parametrize("name", ["sort", "argsort", "sort_by_key"])
@pytest.mark.parametrize("shape", [(60,), (6, 10)])
def test_held_chunks_become_part_of_the_task(name, shape):
    given = da.from_array(ours.make("i8", 60).reshape(shape), chunks=7)
    persisted = given.map_blocks(np.negative).persist(scheduler="threads")
    for x in (given, persisted):
        assert list(held_chunks(x)) == list(flatten(x.__dask_keys__()))
        found, others = FUNCTIONS[name](x), FUNCTIONS[name](x, exchange="gather")
        assert all(len(dict(darr.__dask_graph__())) == 1 + darr.npartitions for darr in found)
        for one, other in zip(dask.compute(*found), dask.compute(*others), strict=True):
            oracle.assert_same_bits(one, other)


def test_chunks_made_by_tasks_are_not_held():
    x = da.from_array(np.arange(60), chunks=7) + 1
    assert held_chunks(x) == {}
    assert len(dict(dask_gpusort.sort(x).__dask_graph__())) == 1 + 3 * 9


def test_keys_that_are_held_and_values_that_are_not():
    keys, values = ours.make("i4", 60, "few"), np.arange(60)
    x = da.from_array(keys, chunks=7).persist(scheduler="threads")
    y = da.from_array(values, chunks=7)
    positions = np.argsort(keys, kind="stable")
    for held, made, sources in (((x, y + 1), 1, 2), ((x + 0, y), 0, 2), ((x, y), 1, 0), ((x + 0, y + 1), 1, 4)):
        found = dask_gpusort.sort_by_key(*held)
        got = dask.compute(*found, scheduler="threads")
        oracle.assert_same_bits(got[0], keys[positions])
        np.testing.assert_array_equal(got[1] - got[1].min(), positions)
        assert len(dict(found[0].__dask_graph__())) == 1 + 9 + sources * 9


# Results.


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("find", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((0,), ((0,),)),
        ((0,), ((0, 0, 0),)),
        ((5, 0), ((2, 3), (0,))),
        ((5, 0), ((2, 3), (0, 0))),
        ((0, 5), ((0,), (2, 3))),
        ((0, 5), ((0, 0), (2, 3))),
        ((3, 0, 4), ((1, 2), (0, 0), (2, 2))),
    ],
)
def test_empty_arrays(find, shape, chunks, unknown):
    for axis in range(len(shape)):
        x = ours.dask_array(np.empty(shape, "i8"), chunks, unknown=unknown)
        if unknown and len(shape) > 1 and (len(chunks[axis]) == 1 or find is FUNCTIONS["lexsort"]):
            continue
        for darr in find(x, axis=axis):
            assert computed(darr).shape == shape
            assert computed(darr).dtype == np.int64
            check_sizes(darr, chunks)


def test_rows_of_unknown_sizes_in_all_dimensions():
    array = ours.make("f4", 60, "special").reshape(10, 6)
    x = da.from_array(array, chunks=((3, 0, 7), (2, 4)))
    kept = x[x[:, 0] == x[:, 0]][:, [True] * 3 + [False] * 3]
    wanted = array[array[:, 0] == array[:, 0]][:, :3]
    for axis in (0, 1):
        found = dask_gpusort.sort(ours.forget_sizes(kept), axis, stable=True)
        oracle.assert_same_bits(computed(found), oracle.sort(wanted, axis))
        assert np.isnan(found.shape).all()


def test_strings_longer_than_the_meta():
    words = np.array([["bb", "a", "dddd", "c"], ["z", "y", "xxxxxx", "w"]])
    x = da.from_array(words, chunks=(1, 2)).map_blocks(shortest, dtype="U1", meta=np.empty((0, 0), "U1"))
    oracle.assert_same_bits(computed(dask_gpusort.sort(x, 1)), np.sort(words, 1))
    moved = dask_gpusort.sort_by_key(da.from_array(np.tile(np.arange(4)[::-1], (2, 1)), chunks=(1, 2)), x)[1]
    oracle.assert_same_bits(computed(moved), np.ascontiguousarray(words[:, ::-1]))


def shortest(block):
    return np.array(block.tolist())


# Memory.


def holding(array, chunks):
    """A Dask array whose chunks are views of an array."""
    parts = dict(zip(np.ndindex(*map(len, chunks)), slices_from_chunks(chunks), strict=True))
    return da.Array({("held", *index): array[part] for index, part in parts.items()}, "held", chunks, meta=array)


@pytest.mark.parametrize(
    ("dtype", "chunks"), grid(ours.EVERY, [((100,),), ((30, 0, 70),), ((4,), (25,)), ((1, 3), (20, 5))])
)
def test_the_input_is_not_written_and_the_output_does_not_share_its_memory(dtype, chunks):
    array = ours.make(dtype, 100, "few").reshape(tuple(map(sum, chunks)))
    before = array.copy()
    # A write to a chunk raises an error.
    array.flags.writeable = False
    x = holding(array, chunks)
    assert len(held_chunks(x)) == x.npartitions
    found = [find(x) for find in (dask_gpusort.sort, dask_gpusort.argsort)]
    found += [dask_gpusort.sort(x, stable=True), *dask_gpusort.sort_by_key(x, x)]
    found += [dask_gpusort.sort(x, key=lambda block: np.zeros(block.shape, "i1"))]
    for block in dask.compute(*(block for darr in found for block in darr.to_delayed().ravel())):
        assert not np.shares_memory(block, array)
        assert block.flags.writeable
    oracle.assert_same_bits(array, before)


@pytest.mark.parametrize("chunks", [((50,),), ((20, 30),)])
@pytest.mark.parametrize("dtype", ["i8", "f4", "S5", "U20", "c16", "O"])
def test_merges_do_not_share_memory_with_their_input(dtype, chunks):
    array = np.arange(50).astype(dtype)
    array.sort()
    array.flags.writeable = False
    x = holding(array, chunks)
    options = ({}, {"key": lambda block: block}, {"key": lambda block: block, "exchange": "gather"})
    for found in (dask_gpusort.merge_sorted(x, **option) for option in options):
        for block in dask.compute(*found.to_delayed().ravel()):
            assert not np.shares_memory(block, array)
            assert block.flags.writeable
        oracle.assert_same_bits(computed(found), array)


# Errors.


def short(x, axis):
    """The array, with chunks that lack their last key along an axis."""
    cut = tuple(slice(0, -1) if dim == axis else slice(None) for dim in range(x.ndim))
    return x.map_blocks(lambda block: block[cut], dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype))


@pytest.fixture
def nothing_is_sorted():
    """Sorts of chunks fail: an error must come first."""
    names = ("sort_chunks", "argsort_chunks", "sort_chunks_by_key", "sort_rows", "argsort_rows", "merge")
    refused = {name: mock.Mock(side_effect=AssertionError("sorted")) for name in names}
    with mock.patch.multiple(numpy_ops, **refused):
        yield


@pytest.mark.parametrize("find", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(("shape", "axis"), [((12,), 0), ((6, 8), 0), ((6, 8), 1), ((4, 4, 4), 2)])
def test_wrong_chunk_sizes(find, shape, axis, nothing_is_sorted):
    declared = (2,) * len(shape)
    found = tuple(1 if dim == axis else 2 for dim in range(len(shape)))
    named = f"chunk {0 if len(shape) == 1 else (0,) * len(shape)} of the input has shape"
    message = re.escape(f"{named} {found} where its array says {declared}: ") + r".*call compute_chunk_sizes\(\)"
    for darr in find(short(da.zeros(shape, chunks=2), axis), axis=-1):
        with pytest.raises(ValueError, match=message):
            computed(darr)


def shortened_last(block, block_id):
    """The chunk, without its second row in the last chunk of the second row of chunks."""
    return block[:1] if block_id == (1, 2) else block


def test_unknown_sizes_that_do_not_fit_together(nothing_is_sorted):
    x = da.zeros((4, 6), chunks=2).map_blocks(shortened_last, dtype="f8", meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"chunk 1 of the input has 1 keys along axis 0 .*says 2.*compute_chunk_sizes"):
        computed(dask_gpusort.sort(ours.forget_sizes(x), 1))


@pytest.mark.parametrize("exchange", ["join", "gather"])
@pytest.mark.parametrize("chunks", [(2, 3), (2, -1)])
def test_companions_of_wrong_sizes(exchange, chunks):
    x = da.zeros((2, 6), chunks=chunks)
    for axis in (0, 1):
        # The values of the one row that is left would be broadcast.
        found = dask_gpusort.sort_by_key(x, short(x, axis), exchange=exchange)
        with pytest.raises(ValueError, match="compute_chunk_sizes"):
            computed(found[1])


# The choice.


def test_explain():
    x = da.zeros(1000, chunks=100, dtype="f4")
    said = dask_gpusort.explain(x)
    lines = {line.split()[0]: line for line in said.detail.splitlines()}
    assert list(lines) == ["keys", "path", "chunks", "exchange", "cost", "steps"]
    assert "one sort of all chunks" in lines["path"]
    assert "10 in, 10 out" in lines["chunks"]
    assert lines["exchange"].split()[1] == "join:"
    assert said.tasks == 11
    assert "0 messages" in lines["cost"]
    text = dask_gpusort.explain(da.zeros((4, 6), chunks=2), 0).detail
    assert text.splitlines()[:2] == [
        "rows      6 of 4 keys, each in 2 chunks",
        "strategy  join: the chunks share one memory, which holds the sort",
    ]
    assert "unknown" in dask_gpusort.explain(ours.forget_sizes(x)).detail


@pytest.mark.parametrize("chunks", [(2, -1), (2, 3), -1])
@pytest.mark.parametrize("exchange", ["auto", "join"])
def test_plans_of_whole_rows_say_that_a_method_has_no_effect(chunks, exchange):
    x = da.zeros((4, 6), chunks=chunks)
    plain = dask_gpusort.explain(x, exchange=exchange).detail
    for method in ("radix", "merge"):
        text = dask_gpusort.explain(x, exchange=exchange, method=method).detail
        (line,) = {*text.splitlines()} - {*plain.splitlines()}
        assert re.fullmatch("path .*nothing is cut, so the method has no effect", line)


def test_rows_that_are_whole_stay_in_their_chunks():
    x = da.zeros((4, 6), chunks=(2, 6))
    assert "whole" in dask_gpusort.explain(x, 1).detail
    assert "strategy  join: " in dask_gpusort.explain(x, 0).detail
    assert own(dask_gpusort.sort(x, 1))[0] == []


@pytest.fixture
def device_bytes(monkeypatch):
    """Sets the memory of the GPU that this process would have. Graphs of CuPy chunks are built without one."""
    pytest.importorskip("cupy", reason="no CuPy: install dask_gpusort[cu13]")
    monkeypatch.setattr(staging, "require_cupy", lambda: None)
    with dask.config.set({"gpusort.exchange": "auto", "gpusort.device": "cuda"}):
        yield lambda size: monkeypatch.setattr(runtime, "own_device_memory", lambda: size)


@pytest.mark.parametrize("kind", ["threads", "synchronous"])
def test_chunks_of_one_device_are_joined_if_they_fit(kind, device_bytes):
    copies = import_module("dask_gpusort.chunk.cupy_staging")
    x, matrix = da.zeros(1 << 20, chunks=1 << 16), da.zeros((1 << 10, 1 << 10), chunks=1 << 8)
    with dask.config.set(scheduler=kind), copies.metadata_without_device():
        held = x.map_blocks(np.copy, dtype=x.dtype, meta=copies.empty(x.dtype, (0,)), name="held")
        for memory in (None, 1 << 30):
            device_bytes(memory)
            for array in (x, held):
                assert dask_gpusort.explain(array).exchange == "join"
                assert dask_gpusort.explain(array, exchange="tasks").exchange == "tasks"
            assert "one task" in dask_gpusort.explain(matrix, 0).detail
        device_bytes(8 << 20)
        assert dask_gpusort.explain(held).exchange == "device"
        # Chunks of the host stay there, also where their size is not known.
        for array in (x, ours.forget_sizes(x)):
            assert re.search("some at a time.*exchange  gather", dask_gpusort.explain(array).detail, re.DOTALL)
            assert dask_gpusort.explain(array, exchange="join").exchange == "join"
        assert "rechunk" in dask_gpusort.explain(matrix, 0).detail
        # Where the size of chunks of the GPU is not known, a join is tried.
        assert dask_gpusort.explain(ours.forget_sizes(held)).exchange == "join"


def test_several_workers_do_not_join(on_cluster, device_bytes):
    x = da.zeros(1 << 20, chunks=1 << 16)
    device_bytes(1 << 30)
    assert dask_gpusort.explain(x).exchange == "device"
    with mock.patch.object(runtime, "workers_in_use", return_value=Workers(1, 1 << 30, devices=True)):
        assert dask_gpusort.explain(x).exchange == "join"


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9), st.sampled_from(["u1", "f4", "i8"]), st.booleans())
def test_a_join_fits_memory_of_several_times_its_size_but_not_of_its_size(sizes, dtype, positions):
    order = Order(np.dtype(dtype))
    companions = 8 * positions
    given = InputChunks(tuple(sizes), companions, positions=positions)
    total = sum(sizes) * (order.transit_dtype.itemsize + companions)
    assert fits_join(order, given, Workers(1, None, devices=True))
    assert fits_join(order, given, Workers(1, 20 * total, devices=True))
    assert not sum(sizes) or not fits_join(order, given, Workers(1, total, devices=True))
    unknown = InputChunks((math.nan,), companions, positions=positions)
    assert fits_join(order, unknown, Workers(1, 1, devices=True))
