"""Tests of the stages of the exchange by position, each against its definition, and of the number of tasks."""

from __future__ import annotations

import sys

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import positions as ours_at
from support import strategies as ours
from support.sorting import check_sizes, computed

import dask_gpusort
from dask_gpusort.graph.input_checks import DeclaredChunk
from dask_gpusort.graph.positions.blocks import take_at_once
from dask_gpusort.graph.positions.exchange import GroupedAxis, Rows, cut_offsets, fill_bundle, make_requests, order_of


def declared(*blocks):
    """What an array with these chunks would say of them."""
    return [DeclaredChunk("the array", block.dtype, (number,), block.shape) for number, block in enumerate(blocks)]


def test_replies_fill_the_chunks():
    source = np.arange(10.0)
    blocks = [np.array([[7, 0], [5, 2]]), np.array([6, 1])]
    requests = make_requests(blocks, [], GroupedAxis((0, 3, 6, 10), 0), [declared(*blocks)])
    replies = [
        (requests.order[requests.part(group)], source[start:][cut_offsets(requests, group)])
        for group, start in enumerate((0, 3, 6))
    ]
    filled = fill_bundle(requests.shapes, replies, Rows(source.dtype, ()))
    assert [block.tolist() for block in filled] == [[[7, 0], [5, 2]], [6, 1]]
    with pytest.raises(RuntimeError, match="5 of 6 requests have a reply.*persist"):
        fill_bundle(requests.shapes, replies[::2], Rows(source.dtype, ()))
    # NumPy would write one element to all positions.
    (positions, found), *others = sorted(replies, key=lambda reply: -len(reply[0]))
    with pytest.raises(RuntimeError, match=r"1 elements arrived for \d requests.*persist"):
        fill_bundle(requests.shapes, [(positions, found[:1]), *others], Rows(source.dtype, ()))


def test_the_size_of_requests_is_known_to_dask():
    indices = np.arange(1000)
    requests = make_requests([indices], [], GroupedAxis((0, 1000), 0), [declared(indices)])
    assert 12_000 <= sys.getsizeof(requests) <= 13_000
    assert sys.getsizeof(order_of(requests)) <= 5_000


@pytest.mark.parametrize("chunks", [64, 256])
def test_tasks_grow_with_the_chunks(chunks):
    x = da.zeros(chunks * 4, chunks=4)
    at = da.zeros(chunks * 4, chunks=4, dtype=int)
    found = ours_at.built(dask_gpusort.take_along_axis, "tasks", 8, x, at, 0)
    assert len(dict(found.dask)) <= 3 * chunks + 2 * 8 * 8 + 4 * 8
    found = ours_at.built(dask_gpusort.put_along_axis, "tasks", 8, x, at, x, 0)
    assert len(dict(found.dask)) <= 4 * chunks + 2 * 8 * 8 + 4 * 8
    assert len(dict(ours_at.built(dask_gpusort.take_along_axis, "gather", None, x, at, 0).dask)) <= 6 * chunks


@given(st.data())
def test_one_task_takes_all_chunks(data):
    array = ours.make(data.draw(st.sampled_from(ours.EVERY)), data.draw(st.integers(1, 40)), "bits")
    array = array.reshape((-1, *data.draw(st.sampled_from([(), (1,)]))))
    spread, mode = (data.draw(st.sampled_from(one)) for one in (["random", "few"], ["raise", "wrap", "clip"]))
    dtype = data.draw(st.sampled_from(ours_at.INDEX_DTYPES))
    indices = ours_at.indices_below(len(array), (data.draw(st.integers(0, 40)),), dtype, 0, spread)
    x, at = (
        ours_at.chunked(data.draw, array).rechunk({1: -1} if array.ndim > 1 else {}),
        ours_at.chunked(data.draw, indices),
    )
    if data.draw(st.booleans()):
        x = x.persist(scheduler="synchronous")
    chunks = at.chunks
    if data.draw(st.booleans()):  # of unknown sizes
        at = at[da.ones(len(indices), chunks=at.chunks, dtype=bool)]
    found = take_at_once(x, at, 0, mode, ())
    assert sum(str(key[0]).startswith("take-join") for key in dict(found.dask)) == (at.npartitions > 1)
    oracle.assert_same_bits(computed(found), array.take(indices, axis=0, mode=mode))
    check_sizes(found, (*chunks, *x.chunks[1:]))


def test_one_task_refuses_chunks_and_indices_that_are_not_what_they_say():
    x, at = da.arange(10, chunks=4), da.arange(6, chunks=3)
    for wrong, error in (
        (at + 5, "index 10 is out of bounds"),
        (at.map_blocks(lambda one: one[1:], dtype=at.dtype), "true chunks="),
    ):
        with pytest.raises((IndexError, ValueError), match=error):
            take_at_once(x, wrong, 0, "raise", ()).compute(scheduler="synchronous")
    wrong = x.map_blocks(lambda one: one[1:], dtype=x.dtype)
    with pytest.raises(ValueError, match="chunk 0 of the input has 3 keys"):
        take_at_once(wrong, at, 0, "raise", ()).compute(scheduler="synchronous")
