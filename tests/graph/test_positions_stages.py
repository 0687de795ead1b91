"""Tests of the stages of the exchange by position, each against its definition, and of the number of tasks."""

from __future__ import annotations

import sys
from itertools import pairwise

import dask
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
from dask_gpusort.builders.blocks import take_at_once
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.chunk.run import Run
from dask_gpusort.drivers.turns import Blocks, Listed, check_same, take_turn
from dask_gpusort.functions.positions import Fill, Read, Requests, Source, Write, Writes
from dask_gpusort.functions.program import Given

pytest.importorskip("distributed")
from support.without_cluster import runs_of_threads

from dask_gpusort.drivers.on_workers import OnWorkers


def turn(step, number=0, *blocks, **given):
    """What a part or a group makes in one superstep."""
    return step.work(Given(number, None, blocks, **given))


def stays(made):
    """What a part or a group has kept, for a later superstep."""
    return {"stays": lambda: made.stays, "memo": made.memo}


@given(st.data())
def test_supersteps_read_and_write(data):
    """From any parts to any groups, with the pieces that are read or written in portions of any size."""
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any))
    bounds = tuple(np.cumsum([0, *sizes]).tolist())
    source = np.arange(2 * bounds[-1]).reshape(-1, 2) if data.draw(st.booleans()) else np.arange(bounds[-1]) / 2
    shapes = data.draw(st.lists(st.sampled_from([(0,), (1,), (7,), (2, 3)]), min_size=1, max_size=4))
    parts = [np.random.default_rng(0).integers(-bounds[-1], bounds[-1], (2, *shape)) for shape in shapes]
    step = data.draw(st.integers(1, 5))

    def pieces(made, ends, receiver):
        """The rows for a receiver, of which so many come at once."""
        for sender, first, last in ends.of(receiver):
            for start in range(first, max(last, first + 1), step):
                yield sender, made[sender].run[start : min(start + step, last)]

    asked = [turn(Requests(bounds, 0), number, *part) for number, part in enumerate(parts)]
    ends = Requests(bounds, 0).decide([one.note for one in asked], None).ends
    groups = [turn(Source(), number, source[slice(*own)]) for number, own in enumerate(pairwise(bounds))]
    replies = []
    for number, own in enumerate(groups):
        made = turn(Read(), number, pieces=pieces(asked, ends, number), **stays(own))
        replies.append(made._replace(run=Run.concat(list(made.run))))
    for number, (part, own) in enumerate(zip(parts, asked, strict=True)):
        filled = turn(Fill(source.dtype), number, pieces=pieces(replies, ends.back, number), **stays(own)).arrays[0]
        for found, indices in zip(filled, part, strict=True):
            oracle.assert_same_bits(found, source[indices])
    if source.ndim > 1:
        return
    flat = [part.reshape(2, -1) for part in parts]
    sent = [turn(Writes(bounds, 0), number, *part, *-part) for number, part in enumerate(flat)]
    wanted = source.copy()
    for part in flat:
        wanted[part.ravel()] = -part.ravel()
    for number, own in enumerate(pairwise(bounds)):
        block = source[slice(*own)]
        (written,) = turn(Write(), number, block[:3], block[3:], pieces=pieces(sent, ends, number)).arrays
        oracle.assert_same_bits(np.concatenate(written), wanted[slice(*own)])


def test_indices_that_changed_when_they_were_computed_again_are_refused():
    """A worker notices even those that name the same elements in another order."""
    step, indices = Requests((0, 2, 4), 0), np.array([0, 2])
    with runs_of_threads():
        own, same, others = (
            take_turn(step, 0, OnWorkers(), Blocks([one], declared_chunks("x", one.dtype, [(2,)])), None, None)
            for one in (indices, indices.copy(), indices[::-1])
        )
    listed = Listed(None, {"part": [own.mark]}, [], None, None)
    check_same(step, 0, same, listed)
    with pytest.raises(RuntimeError, match="chunk 0 of x is not what it was .*persist"):
        check_same(step, 0, others, listed)


def test_the_size_of_requests_is_known_to_dask():
    tasks = ours_at.built(dask_gpusort.take_along_axis, "tasks", 1, *[da.arange(1000, chunks=500)] * 2, 0).dask
    (key,) = [key for key in tasks if key[0].startswith("take-requests") and "note" not in key[0]]
    (made,) = dask.get(dict(tasks), [key])
    assert 12_000 <= sys.getsizeof(made) <= 13_000


@pytest.mark.parametrize("chunks", [64, 256])
def test_tasks_grow_with_the_chunks(chunks):
    x = da.zeros(chunks * 4, chunks=4)
    at = da.zeros(chunks * 4, chunks=4, dtype=int)
    found = ours_at.built(dask_gpusort.take_along_axis, "tasks", 8, x, at, 0)
    assert len(dict(found.dask)) <= 3 * chunks + 2 * 8 * 8 + 4 * 8 + 1
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
