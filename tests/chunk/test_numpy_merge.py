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
from dask_gpusort.chunk.run import Run
from dask_gpusort.order import Order, of_words


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
    codes, _ = drawn
    with pytest.MonkeyPatch.context() as patch, dask.config.set({"gpusort.merged_runs": merged}):
        patch.setattr(numpy_radix, "SMALL", 0)
        patch.setattr(numpy_radix, "_LEAST_SPAN", least_span)
        check_sorts(codes)


def check_sorts(codes):
    before = codes.copy()
    want = np.sort(codes)
    assert np.array_equal(numpy_radix.argsort(codes), np.argsort(codes, kind="stable"))
    assert np.array_equal(codes, before)
    numpy_radix.sort(codes)
    assert np.array_equal(codes, want)


@pytest.mark.parametrize("kind", ["codes", "S20", "c16", "words", "less"])
@given(run_lists(), st.booleans(), st.randoms(use_true_random=False))
def test_runs_with_values_are_merged_or_follow(kind, drawn, follow, random):
    codes, offsets = drawn
    keys = codes.astype(kind) if kind in ("S20", "c16") else codes
    order = Order(keys.dtype, less=np.less if kind == "less" else None)
    if kind == "words":
        keys, order = np.stack([codes // 2, codes % 2], axis=1).astype(np.uint64), of_words(2)
    keys = keys[stable_order(keys)] if follow else keys
    parts = [keys[a:b] for a, b in pairwise(offsets)]
    random.shuffle(parts)
    check_merge_of(parts, order)


def stable_order(keys):
    return np.argsort(keys, kind="stable") if keys.ndim == 1 else np.lexsort(keys.T[::-1])


def check_merge_of(parts, order):
    """Merge sorted keys with their positions, and without."""
    joined = np.concatenate(parts)
    wanted = stable_order(joined)
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
    parts, order = [np.empty(0, "u4"), *np.array(runs, "u4")], Order(np.dtype("u4"), stable=True)
    found = numpy_sorts._following(list(map(Run, parts)), order)
    assert [run.keys.tolist() for run in found] == [runs[number] for number in placed or ()]
    check_merge_of(parts, order)


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
        try:
            with dask.config.set({"gpusort.merged_runs": merged}):
                check_sorts(np.concatenate([np.sort(run) for run in runs]))
        except AssertionError as error:
            raise AssertionError(f"input: {name}") from error
