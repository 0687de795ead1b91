"""Tests of the numbers and the totals of tie groups that span sorted chunks, against all keys at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.chunk.tie_groups import TieGroups
from dask_gpusort.graph.sets.distinct import OfGroups, numbers
from dask_gpusort.graph.sets.local import spread
from dask_gpusort.graph.sets.number import Numbering, edge_of, number_chunk, scan_edges

COLUMNS = ("values", "chunks", "counts", "firsts")
SECOND = 3


def passed(numbered):
    return numbered.passed


def before(numbered):
    return (numbered.before)[numbered.groups.numbers]


OUTPUTS = (
    OfGroups("values"),
    OfGroups("counts", side=0),
    OfGroups("counts", side=1),
    OfGroups("firsts", side=0),
    OfGroups("firsts", side=1),
    numbers,
    passed,
)


def columns(size, values, seed):
    """Sorted keys, with NaN, and their companions."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, values, size).astype(float)
    keys[keys == values - 1] = np.nan
    chunks = rng.integers(0, 6, size)
    order = np.lexsort([chunks, keys])
    return [keys[order], chunks[order], rng.integers(1, 9, size), rng.integers(0, 99, size)]


def split(arrays, cuts):
    ends = [0, *sorted(cuts), len(arrays[0])]
    return [[array[start:stop] for array in arrays] for start, stop in zip(ends, ends[1:], strict=False)]


def number_all(blocks, numbering):
    edges = [edge_of(block, numbering) for block in blocks]
    scan = scan_edges(edges, numbering.equal_nan)
    found = [number_chunk(block, scan, chunk, numbering) for chunk, block in enumerate(blocks)]
    return scan, [np.concatenate(column) for column in zip(*found, strict=True)]


@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 999), st.booleans(), st.data())
def test_chunks_give_the_results_of_one_chunk(size, values, seed, equal_nan, data):
    arrays = columns(size, values, seed)
    cuts = data.draw(st.lists(st.integers(0, size), max_size=9))
    numbering = Numbering((), COLUMNS, len(cuts) + 1, equal_nan, OUTPUTS, counted=True, second=SECOND)
    scan, found = number_all(split(arrays, cuts), numbering)
    one, expected = number_all([arrays], numbering)
    assert (scan.keys, scan.nans) == (one.keys, one.nans)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 999))
def test_one_chunk_by_definition(size, values, seed):
    keys, chunks, counts, firsts = arrays = columns(size, values, seed)
    numbering = Numbering((), COLUMNS, 1, True, OUTPUTS, counted=True, second=SECOND)
    scan, (distinct, *sides, number, earlier) = number_all([arrays], numbering)
    same = [(keys == value) | (np.isnan(keys) & np.isnan(value)) for value in distinct]
    for side, (total, first) in enumerate(zip(sides[:2], sides[2:], strict=True)):
        own = [mask & ((chunks >= SECOND) == side) for mask in same]
        assert total.tolist() == [counts[mask].sum() for mask in own]
        assert first.tolist() == [firsts[mask][0] if mask.any() else -1 for mask in own]
    np.testing.assert_array_equal(distinct[number], keys)
    np.testing.assert_array_equal(earlier, np.cumsum(counts) - counts)
    assert scan.keys == counts.sum()
    assert scan.nans == counts[np.isnan(keys)].sum()


@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 999), st.data())
def test_keys_before_a_group(size, values, seed, data):
    keys, _, counts, _ = columns(size, values, seed)
    cuts = data.draw(st.lists(st.integers(0, size), max_size=9))
    numbering = Numbering((), ("values", "counts"), len(cuts) + 1, True, (before,), counted=True)
    _, (found,) = number_all(split([keys, counts], cuts), numbering)
    starts = TieGroups(keys, True)
    expected = (np.cumsum(counts) - counts)[starts.bounds[:-1]][starts.numbers]
    np.testing.assert_array_equal(found, expected)


def test_what_is_spread_must_fit_the_distinct_keys():
    inverse = np.array([1, 0, 2, 1], np.uint32)
    assert spread(np.array([5, 6, 7]), inverse).tolist() == [6, 5, 7, 6]
    assert spread(np.empty(0), inverse[:0]).tolist() == []
    for known in ([5, 6, 7, 8], [5, 6], []):
        with pytest.raises(RuntimeError, match=rf"3 distinct keys, where {len(known)} were sorted.*persist"):
            spread(np.array(known), inverse)
