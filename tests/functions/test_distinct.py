"""Distinct keys as a program: what its supersteps make, of parts that are drawn, without a driver of Dask."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import oracle, programs

from dask_gpusort.chunk.distinct import Columns
from dask_gpusort.chunk.tie_groups import Ranking, rank_rows
from dask_gpusort.functions import distinct, numbered, sets
from dask_gpusort.functions.program import Ends, ends_of_cuts
from dask_gpusort.order import Order

#: Keys of few values, so that most tie groups are in several parts, and of NaN of several bits.
KEYS = st.lists(st.lists(st.lists(st.integers(-3, 9), max_size=9), min_size=1, max_size=3), min_size=1, max_size=5)
VALUES = numbered.OfGroups("values")


def program(dtype, columns, groups, makes, reply=None, samples=4, divided=False, counts="u4", equal_nan=True):
    """The supersteps that find distinct keys."""
    order = Order(np.dtype(dtype), stable=True)
    first = (
        distinct.Distinct(order, columns, equal_nan, groups, samples, np.dtype(counts)),
        distinct.Cut(order, groups),
    )
    merged = distinct.Merged(order, columns, equal_nan)
    if reply is None:
        return (*first, distinct.Merge(merged, makes))
    answered = distinct.Reply(merged, makes, reply, np.dtype(counts))
    return (*first, answered, distinct.Spread(reply.in_whole, divided), *[distinct.Results()] * bool(makes))


def arrays_of(drawn, dtype):
    """Chunks of each part; of inexact numbers 9 is NaN, -3 a NaN of other bits, and -2 the negative zero."""
    parts = [[np.array(chunk, dtype) for chunk in part] for part in drawn]
    if np.dtype(dtype).kind in "fc":
        for chunk in (chunk for part in parts for chunk in part):
            for value, other in ((9, np.nan), (-3, np.copysign(np.nan, -1)), (-2, -0.0)):
                chunk[chunk == value] = other
            if chunk.dtype.kind == "c":  # so that NaN differ in their order
                chunk.imag[chunk.real > 7] = np.nan
    return parts, np.concatenate([chunk for part in parts for chunk in part])


@given(KEYS, st.sampled_from(["i2", "f4", "f8", "U2"]), st.integers(1, 6), st.integers(1, 9))
def test_unique_of_parts_in_groups(drawn, dtype, groups, samples):
    parts, whole = arrays_of(drawn, dtype)
    columns = Columns(counts=True, firsts=True, inverse=True)
    makes = tuple(map(numbered.OfGroups, ("values", "firsts", "counts")))
    steps = program(dtype, columns, groups, makes, numbered.NumberOf(), samples)
    *_, spread, results = programs.run(steps, parts, groups)
    found = [np.concatenate(column) for column in zip(*(one.arrays for one in results), strict=True)]
    inverse = [chunk for one in spread for chunk in one.arrays[0]]
    values, firsts, at, counts = np.unique(whole, True, True, True)
    for mine, theirs in zip(found, (values, firsts, counts), strict=True):
        oracle.assert_same_values(mine, theirs)
    assert [one.shape for one in inverse] == [chunk.shape for part in parts for chunk in part]
    assert np.concatenate(inverse).tolist() == at.reshape(-1).tolist()
    # Without replies the groups give the same at once.
    merged = programs.run(program(dtype, columns, groups, makes, samples=samples), parts, groups)[-1]
    for mine, theirs in zip(zip(*(one.arrays for one in merged), strict=True), found, strict=True):
        oracle.assert_same_bits(np.concatenate(mine), theirs)


@given(
    KEYS,
    st.sampled_from(["u4", "i8"]),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from(["average", "min", "max", "dense", "ordinal"]),
)
def test_ranks_of_parts_in_groups(drawn, counts, groups, pct, method):
    parts, whole = arrays_of(drawn, "f8")
    ranking = Ranking(method, "omit", pct)
    columns = Columns(counts=True, inverse=True, repeats=method == "ordinal")
    rank = numbered.RankOf(ranking, np.dtype(float))
    steps = program("f8", columns, groups, (), rank, divided=pct, counts=counts)
    found = np.concatenate([chunk for one in programs.run(steps, parts, groups)[-1] for chunk in one.arrays[0]])
    oracle.assert_same_values(found, rank_rows(whole, ranking, 0))


@example([[[9]], [[8]]], "c16", 1, 1)
@given(KEYS, st.sampled_from(["i2", "f4", "f8", "c16", "U2", "O"]), st.integers(0, 5), st.integers(1, 6))
def test_sets_of_two_arrays(drawn, dtype, second, groups):
    parts, _ = arrays_of(drawn, dtype)
    second = min(second, len(parts))
    first, other = (
        np.concatenate([chunk for part in side for chunk in part] or [np.empty(0, dtype)])
        for side in (parts[:second], parts[second:])
    )
    for keep, function in (("both", np.intersect1d), ("first", np.setdiff1d), ("one", np.setxor1d)):
        *steps, merge = program(dtype, Columns(firsts=keep == "both"), groups, (VALUES,))
        made = programs.run((*steps, sets.MergeSides(merge.merged, second, keep)), parts, groups)[-1]
        found = [np.concatenate(column) for column in zip(*(one.arrays for one in made), strict=True)]
        wanted = function(first, other, return_indices=True) if keep == "both" else [function(first, other)]
        if keep == "both":
            found[2] -= len(first)
        for mine, theirs in zip(found, wanted, strict=True):
            oracle.assert_same_values(mine, theirs)


def test_nothing_but_distinct_keys_moves():
    parts = [[np.arange(first, first + 100) % 3] for first in range(0, 1000, 100)]
    steps = program("i8", Columns(), 4, (VALUES,))
    found, cut, merged = programs.run(steps, parts, 4)
    assert [len(one.run) for one in found] == [3] * 10
    assert all(one.run is None and one.stays is None for one in cut)
    assert np.concatenate([one.arrays[0] for one in merged]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["u8", "i8", "f8", "g", "c16", "U3", "S40", "M8[s]", "O"])
def test_a_run_has_its_own_memory(dtype):
    """Who receives rows of it may write to them."""
    chunk = np.arange(10).astype("i8" if dtype == "M8[s]" else dtype).view(dtype)  # distinct, and in order
    (found,), *_ = programs.run(program(dtype, Columns(), 2, (VALUES,)), [[chunk]], 2)
    assert not np.may_share_memory(found.run.keys, chunk)


@pytest.mark.parametrize("equal_nan", [True, False])
@pytest.mark.parametrize("nans", [[np.nan, np.copysign(np.nan, -1)], [complex(1, np.nan), complex(np.nan, 1)]])
def test_no_splitter_is_nan(nans, equal_nan):
    """Also of NaN that are sorted apart."""
    parts = [[np.array(nans * 8 + [1.0])] for _ in range(3)]
    steps = program(parts[0][0].dtype, Columns(), 5, (VALUES,), samples=64, equal_nan=equal_nan)
    found = [one.arrays[0] for one in programs.run(steps, parts, 5)[-1]]
    whole = np.concatenate([chunk for part in parts for chunk in part])
    oracle.assert_same_values(np.concatenate(found), np.unique(whole, equal_nan=equal_nan))
    assert sum(bool(np.isnan(one).any()) for one in found) == 1


@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=4))
def test_answers_come_back_to_who_asked(lengths):
    """The rows of each sender, in the run of replies of each receiver, are those of its own run."""
    cuts = np.cumsum([[0, *own] for own in lengths], axis=1)
    out = ends_of_cuts(cuts)
    back = out.back
    assert isinstance(back, Ends)
    for receiver in range(3):
        rows = [(sender, row) for sender, first, last in out.of(receiver) for row in range(first, last)]
        for sender in range(len(lengths)):
            own = rows[back.first[receiver, sender] : back.last[receiver, sender]]
            assert own == [(sender, row) for row in range(*cuts[sender, receiver : receiver + 2])]
