"""Merges of sorted runs of codes, compared with NumPy."""

from __future__ import annotations

from itertools import pairwise

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codes import WIDTHS, code_arrays, shapes_of_input

from dask_gpusort.chunk import numpy_radix, numpy_sorts
from dask_gpusort.chunk.numpy_radix import argmerge_runs, merge_runs
from dask_gpusort.chunk.run import Run
from dask_gpusort.order import Order


@st.composite
def run_lists(draw):
    codes = draw(code_arrays(max_dims=1))
    bounds = sorted(draw(st.lists(st.integers(0, codes.size), max_size=12)))
    offsets = np.array([0, *bounds, codes.size])
    for a, b in pairwise(offsets):
        codes[a:b].sort()
    return codes, offsets


#: Settings that always sort afresh, measure, and always merge.
MERGED_RUNS = [0, None, 1 << 20]


@given(run_lists(), st.sampled_from(MERGED_RUNS), st.sampled_from([0, 1 << 20]))
def test_runs_are_merged(drawn, merged, least_span):
    codes, offsets = drawn
    with pytest.MonkeyPatch.context() as patch, dask.config.set({"gpusort.merged_runs": merged}):
        patch.setattr(numpy_radix, "SMALL", 0)
        patch.setattr(numpy_radix, "_FOUND_RUNS", 1)
        patch.setattr(numpy_radix, "_LEAST_SPAN", least_span)
        check_merges(codes, offsets)


def check_merges(codes, offsets):
    before = codes.copy()
    want = np.sort(codes)
    assert np.array_equal(argmerge_runs(codes, offsets), np.argsort(codes, kind="stable"))
    assert np.array_equal(codes, before)
    merge_runs(codes, np.asarray(offsets))
    assert np.array_equal(codes, want)


@given(run_lists(), st.booleans())
def test_runs_with_values_are_merged_or_follow(drawn, follow):
    codes, offsets = drawn
    codes = np.sort(codes) if follow else codes
    runs = [Run(codes[a:b].copy(), (np.arange(a, b),)) for a, b in pairwise(offsets)]
    merged = numpy_sorts.merge(runs, Order(codes.dtype))
    np.testing.assert_array_equal(merged.keys, np.sort(codes))
    np.testing.assert_array_equal(merged.values[0], np.argsort(codes, kind="stable"))
    assert numpy_radix.runs_follow(codes, offsets) == (np.sort(codes) == codes).all()


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("num_runs", [1, 2, 5, 100])
@pytest.mark.parametrize("merged", MERGED_RUNS)
@pytest.mark.usefixtures("small_blocks")
def test_long_runs_are_merged(num_runs, dtype, merged):
    for name, codes in shapes_of_input(20_000, dtype):
        runs = np.array_split(codes.copy(), num_runs)
        offsets = np.cumsum([0, *map(len, runs)])
        try:
            with dask.config.set({"gpusort.merged_runs": merged}):
                check_merges(np.concatenate([np.sort(run) for run in runs]), offsets)
        except AssertionError as error:
            raise AssertionError(f"input: {name}") from error
