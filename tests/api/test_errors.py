"""Errors of computations have NumPy's types, and name the chunk and the remedy."""

from __future__ import annotations

import os

import dask
import dask.array as da
import numpy as np
import pytest
from dask.core import flatten
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort


def mislabelled(array, chunks, make, dtype=None):
    """An array whose chunks differ from its meta: `make` changes each chunk."""
    x = da.from_array(array, chunks=chunks, name=False)
    dtype = x.dtype if dtype is None else dtype
    return x.map_blocks(make, dtype=dtype, meta=np.empty((0,) * x.ndim, dtype))


ROW = np.arange(12) % 5


def test_strings_longer_than_the_meta():
    # The meta of astype(str) does not give the length of the strings.
    words = np.array(["bb", "a", "dddd", "c"])
    x = mislabelled(words, 2, lambda block: block, "U1")
    for chunks in (2, 3):
        np.testing.assert_array_equal(computed(dask_gpusort.sort(x, chunks=chunks)), np.sort(words))
    moved = dask_gpusort.sort_by_key(da.arange(4, chunks=2), x, descending=True)[1]
    np.testing.assert_array_equal(computed(moved), words[::-1])
    # Dask would truncate the strings when it joins chunks.
    with pytest.raises(TypeError, match="<U4 where its array says <U1"):
        computed(dask_gpusort.sort(mislabelled(words.reshape(1, 4), 2, lambda block: block, "U1")))


def test_byte_order_that_contradicts_the_meta():
    x = mislabelled(ROW, 3, lambda block: block.astype(">i8"))
    np.testing.assert_array_equal(computed(dask_gpusort.sort(x)), np.sort(ROW))


@pytest.mark.parametrize("chunks", [[5, 5], [[5, 5]], np.array([4, 6]), ([2, 8],), {0: [7, 3]}])
def test_valid_unhashable_chunks_are_accepted(chunks):
    # dask.array.rechunk accepts some of these and fails on others.
    x = da.zeros(10, chunks=3)
    try:
        found = dask_gpusort.sort(x, chunks=chunks)
    except (TypeError, ValueError) as error:
        assert "chunks" in str(error).lower()
    else:
        assert sum(found.chunks[0]) == 10


ONE_SHORT = da.zeros(4, chunks=4).map_blocks(lambda block: block[:-1], dtype="f8", meta=np.empty(0))
WRONG_SIZES = [
    *((ONE_SHORT, {"chunks": chunks}, "compute_chunk_sizes") for chunks in (2, 4)),
    (da.zeros(4, chunks=2), {"key": lambda block: block[:1]}, "key must return an array"),
]


@pytest.mark.parametrize("count", [None, 3])
@pytest.mark.parametrize(("x", "options", "message"), WRONG_SIZES)
def test_wrong_chunk_sizes(x, options, message, count):
    with groups(count):
        for found in (dask_gpusort.sort(x, **options), dask_gpusort.argsort(x, **options)):
            with pytest.raises(ValueError, match=message):
                computed(found)


def test_a_chunk_that_is_too_long_is_found_before_it_is_divided():
    x = da.arange(8, chunks=4).map_blocks(lambda block: np.append(block, 99), dtype="i8", meta=np.empty(0, "i8"))
    keys = da.zeros(8, chunks=2)
    for found in (dask_gpusort.sort_by_key(keys, x)[1], dask_gpusort.lexsort((x, keys))):
        with pytest.raises(ValueError, match=r"chunk \d of the input has shape \(5,\) where its array says \(4,\)"):
            computed(found)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("chunks", [3, 12])
def test_message_names_incomparable_objects(chunks, descending):
    elements = [5, 1, 2, 3, "seven", 4, 8, 6, 0, 9, 11, 10]
    x = da.from_array(ours._objects(elements), chunks=chunks, name=False)
    with groups(3):
        for find in (dask_gpusort.sort, dask_gpusort.argsort):
            with pytest.raises(TypeError, match=r"'seven'.*key="):
                computed(find(x, descending=descending))


@pytest.mark.parametrize("exchange", ["join", "gather", "tasks"])
def test_incomparable_objects_in_different_chunks(exchange):
    # The objects of one chunk are comparable. Only the scan, or the merge of a group, compares both kinds.
    x = da.from_array(ours._objects([3, 1, 2, "c", "a", "b"]), chunks=3, name=False)
    for count in (None, 2):
        with groups(count), pytest.raises(TypeError, match=r"could not compare"):
            computed(dask_gpusort.sort(x, exchange=exchange))


def changing_source(folder):
    """An array whose chunks lose one element each time they are computed."""

    def block(block_id):
        marks = os.listdir(folder)
        (folder / f"{block_id[0]}-{len(marks)}").touch()
        return np.arange(100 - sum(mark.startswith(f"{block_id[0]}-") for mark in marks))

    return da.map_blocks(block, chunks=((100, 100, 100),), dtype="i8", meta=np.empty(0, "i8"))


@pytest.mark.parametrize("stages", [("sort-scan",), ("sort-scan", "sort-count")])
def test_a_source_that_changes_is_detected(tmp_path, stages):
    # After the loss of a worker, a chunk may be computed again although its cuts are known.
    with groups(2):
        found = dask_gpusort.sort(ours.forget_sizes(changing_source(tmp_path)), exchange="tasks")
    graph = dict(found.__dask_graph__())
    known = [key for key in graph if isinstance(key, tuple) and key[0].startswith(stages)]
    graph.update(zip(known, dask.get(graph, known), strict=True))
    with pytest.raises(RuntimeError, match=r"chunk \d.*changes when it is computed again; persist it") as caught:
        dask.get(graph, found.__dask_keys__())
    assert "compute_chunk_sizes" not in str(caught.value)


@pytest.mark.parametrize("exchange", ["join", "gather", "tasks", "device"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_source_that_changes_before_its_recount_names_both_remedies(tmp_path, exchange, count):
    # A lost worker may have held the counts too. Then a changed source and wrong chunk sizes look the same.
    x = changing_source(tmp_path)
    with groups(count):
        found = dask_gpusort.sort(x, exchange=exchange)
    dask.get(dict(x.__dask_graph__()), list(flatten(x.__dask_keys__())))
    says = r"chunk \d of the input has .*\b99\b.* where .* says .*\b100\b.*: .*call compute_chunk_sizes\(\).*persist it"
    with pytest.raises(ValueError, match=says):
        dask.get(dict(found.__dask_graph__()), found.__dask_keys__())
