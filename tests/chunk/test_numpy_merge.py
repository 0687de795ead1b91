"""Merges of sorted runs of codes, compared with NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.codes import WIDTHS, code_arrays, shapes_of_input

from dask_gpusort.chunk import numpy_merge, numpy_presorted
from dask_gpusort.chunk.numpy_merge import argmerge_runs, join_runs


@st.composite
def run_lists(draw):
    codes = draw(code_arrays(max_dims=1))
    bounds = sorted(draw(st.lists(st.integers(0, codes.size), max_size=12)))
    offsets = np.array([0, *bounds, codes.size])
    for a, b in pairwise(offsets):
        codes[a:b].sort()
    return codes, offsets


@given(run_lists(), st.sampled_from([(1 << 15, 1 << 10), (8, 2), (1, 1)]))
@settings(deadline=None)
def test_runs_are_merged(drawn, piece):
    codes, offsets = drawn
    with pytest.MonkeyPatch.context() as patch:
        # With small pieces, small runs are cut too.
        patch.setattr(numpy_merge, "_PIECE_KEYS", piece[0])
        patch.setattr(numpy_merge, "_SLICE_KEYS", piece[1])
        patch.setattr(numpy_presorted, "SMALL", 0)
        patch.setattr(numpy_merge, "_FOUND_RUNS", 1)
        check_merges(codes, offsets)


def check_merges(codes, offsets):
    before = codes.copy()
    want = np.sort(codes)
    runs = [codes[a:b] for a, b in pairwise(offsets)]
    joined = join_runs(runs)
    assert joined.dtype == codes.dtype
    assert np.array_equal(joined, want)
    assert not np.shares_memory(joined, codes)
    assert np.array_equal(argmerge_runs(codes, offsets), np.argsort(codes, kind="stable"))
    assert np.array_equal(codes, before)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("num_runs", [1, 2, 5, 100])
def test_long_runs_are_merged(num_runs, dtype):
    for name, codes in shapes_of_input(100_000, dtype):
        runs = np.array_split(codes.copy(), num_runs)
        offsets = np.cumsum([0, *map(len, runs)])
        try:
            check_merges(np.concatenate([np.sort(run) for run in runs]), offsets)
        except AssertionError as error:
            raise AssertionError(f"input: {name}") from error


def test_merge_of_no_runs_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        join_runs([])
