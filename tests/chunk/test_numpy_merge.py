"""Merges of sorted runs of codes, compared with NumPy."""

from __future__ import annotations

from itertools import pairwise

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codes import WIDTHS, code_arrays, shapes_of_input
from support.oracle import assert_same_bits

from dask_gpusort.chunk import numpy_ops, numpy_radix, numpy_sorts
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


@given(run_lists(), st.booleans(), st.randoms(use_true_random=False))
def test_runs_with_values_are_merged_or_follow(drawn, follow, random):
    codes, offsets = drawn
    parts = [(np.sort(codes) if follow else codes)[a:b] for a, b in pairwise(offsets)]
    random.shuffle(parts)
    check_merge_of(parts, Order(codes.dtype))


def check_merge_of(parts, order):
    """Merge sorted keys with their positions, and without."""
    joined = np.concatenate(parts)
    wanted = np.argsort(joined, kind="stable")
    runs = [numpy_ops.local_sort(part, (), order, positions=True) for part in parts]
    starts = np.cumsum([0, *map(len, parts)])
    runs = [Run(run.keys, (run.values[0] + start,)) for run, start in zip(runs, starts, strict=False)]
    merged = numpy_sorts.merge(runs, order)
    np.testing.assert_array_equal(merged.values[0], wanted)
    assert_same_bits(numpy_ops.decode(merged.keys, order), joined[wanted])
    alone = [numpy_ops.local_sort(part, (), order, positions=False) for part in parts]
    assert_same_bits(numpy_ops.decode(numpy_sorts.merge(alone, order).keys, order), joined[wanted])


@pytest.mark.parametrize(
    ("runs", "placed"),
    [
        ([[7, 7]], [0]),
        ([[4, 5], [0, 3], [6, 9]], [1, 0, 2]),
        ([[5, 5], [3, 5]], None),  # equal keys of a later run first
        ([[5, 9], [5, 5]], None),
        ([[4, 5], [5, 5], [5, 6]], [0, 1, 2]),
        ([[0, 5], [4, 9]], None),  # one key overlaps
        ([[4, 9], [0, 5]], None),
    ],
)
def test_runs_that_are_apart_are_placed(runs, placed):
    found = numpy_radix.order_of_runs(*np.array(runs, "u4").T)
    assert (None if found is None else found.tolist()) == placed
    check_merge_of([*np.array(runs, "u4"), np.empty(0, "u4")], Order(np.dtype("u4"), stable=True))


def test_signed_zeros_of_runs_keep_their_order():
    check_merge_of([np.array(part) for part in ([0.0, -0.0], [-0.0, 1.0], [2.0])], Order(np.dtype("f8"), stable=True))
    check_merge_of([np.array(part) for part in ([0.0, 1.0], [-1.0, -0.0])], Order(np.dtype("f8"), stable=True))


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
