"""Tests of `lexsort`: NumPy's order of several keys, a direction for each key, and cuts by all keys."""

from __future__ import annotations

from collections import deque

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.builders.request import pack_keys


@pytest.mark.parametrize("dtype", ["i4", "i8", "g"])
def test_keys_with_different_unknown_chunks_are_refused_at_compute_time(dtype):
    # Without the check, the key of length 1 would be broadcast.
    first, second = (ours.dask_array(np.arange(10, dtype=dtype), (sizes,), unknown=True) for sizes in ((9, 1), (1, 9)))
    with pytest.raises(ValueError, match=r"shapes \(1,\), \(9,\).*compute_chunk_sizes"):
        computed(dask_gpusort.lexsort((first, second)))


def test_keys_as_one_array():
    keys = np.random.default_rng(0).integers(0, 3, (4, 50))
    for chunks in ((2, 7), (4, 50), (1, 50)):
        x = da.from_array(keys, chunks=chunks)
        with groups(3):
            np.testing.assert_array_equal(computed(dask_gpusort.lexsort(x)), np.lexsort(keys))
    np.testing.assert_array_equal(computed(dask_gpusort.lexsort(keys)), np.lexsort(keys))
    cube = keys.reshape(4, 10, 5)
    for axis in (0, 1):
        found = dask_gpusort.lexsort(da.from_array(cube, chunks=3), axis)
        np.testing.assert_array_equal(computed(found), np.lexsort(cube, axis))


@pytest.mark.parametrize(
    ("dtypes", "made"),
    [
        (("i4", "u4"), "u8"),
        (("?", "i2", "f4"), "u8"),
        (("u1", "?"), "u2"),
        (("S3", "u1"), "u4"),
        (("f8", "i4", "i4"), 2),
        (("c16", "U3"), 4),
        (("M8[s]", "?"), 2),
    ],
)
def test_narrow_keys_are_packed_into_one_code(dtypes, made):
    keys = pack_keys([da.zeros(10, chunks=5, dtype=dtype) for dtype in dtypes], [False] * len(dtypes))
    if isinstance(made, int):
        assert (keys.order.words, keys.array.shape, keys.array.dtype) == (made, (10, made), np.uint64)
        assert not keys.order.coded
    else:
        assert (keys.array.dtype, keys.array.shape) == (np.dtype(made), (10,))
        assert keys.order.coded
        assert not keys.order.has_ties
    assert keys.template.shape == (10,)
    assert computed(keys.array).dtype == keys.array.dtype


def test_the_exchange_cuts_on_all_keys():
    # Cuts by the last key alone would put all keys in one group.
    keys = [ours.make("i8", 4000, "bits"), np.zeros(4000, "f8")]
    with groups(8):
        found = dask_gpusort.lexsort([da.from_array(key, chunks=250) for key in keys], exchange="tasks")
        graph = dict(found.__dask_graph__())
        merged = [key for key in graph if str(key[0]).startswith("sort-merge")]
        sizes = [len(group.arrays[0]) for group in dask.get(graph, merged)]
    assert len(sizes) == 8
    assert sizes == [500] * 8


def test_methods():
    narrow, wide = (
        [da.from_array(ours.make(dtype, 300, "few"), chunks=40) for _ in range(2)] for dtype in ("i4", "i8")
    )
    with groups(4):
        for method in ("auto", "radix", "merge"):
            np.testing.assert_array_equal(
                computed(dask_gpusort.lexsort(narrow, method=method)), np.lexsort(list(map(computed, narrow)))
            )
        for method in ("auto", "merge"):
            np.testing.assert_array_equal(
                computed(dask_gpusort.lexsort(wide, method=method)), np.lexsort(list(map(computed, wide)))
            )
    with pytest.raises(TypeError, match=r"2 words of 64 bits.*'merge'"):
        dask_gpusort.lexsort(wide, method="radix")


def test_keys_without_dimensions():
    scalar = da.from_array(np.array(7))
    for keys in ((scalar,), (scalar, scalar + 1), da.from_array(np.array([3, 1, 2]), chunks=2)):
        found = dask_gpusort.lexsort(keys)
        assert (found.shape, found.dtype) == ((), np.int64)
        assert computed(found) == np.lexsort((7,)) == 0


def test_any_sequence_of_keys(raise_if_computes):
    keys = [ours.make("i4", 30, "few", seed) for seed in range(3)]
    arrays = deque(da.from_array(key, chunks=7) for key in keys)
    with raise_if_computes():
        found = dask_gpusort.lexsort(arrays)
    np.testing.assert_array_equal(computed(found), np.lexsort(keys))


@pytest.mark.parametrize("chunks", [1, 2, 3, 5])
@pytest.mark.parametrize("others", [1, 2, 3, 5])
def test_empty_arrays_of_different_chunks(chunks, others):
    first = da.from_array(np.zeros(0, "i8"), chunks=((0,) * chunks,))
    second = da.from_array(np.zeros(0, "f4"), chunks=((0,) * others,))
    assert computed(dask_gpusort.lexsort((first, second))).shape == (0,)
    values = dask_gpusort.sort_by_key(first, second)[1]
    assert (values.numblocks, values.dtype) == (first.numblocks, second.dtype)
    assert computed(values).shape == (0,)


@pytest.mark.parametrize("exchange", ["gather", "tasks", "join"])
@pytest.mark.parametrize("kind", ["S", "U"])
def test_text_narrower_than_its_array_says(kind, exchange):
    text, widths = np.array([["ab", "b", "a"], ["a", "abc", "b"], ["b", "a", ""]]).astype(f"{kind}3"), (2, 3, 1)
    key = da.from_array(np.zeros(9), chunks=3).map_blocks(
        lambda block, block_id: text[block_id[0]].astype(f"{kind}{widths[block_id[0]]}"),
        dtype=text.dtype,
        meta=text[0, :0],
    )
    other = np.array([1, 0] * 4 + [1])
    with dask.config.set({"gpusort.groups": 3, "gpusort.exchange": exchange}):
        found = computed(dask_gpusort.lexsort((da.from_array(other, chunks=3), key)))
    np.testing.assert_array_equal(found, np.lexsort((other, text.ravel())))
