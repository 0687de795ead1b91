"""Radix sorts of codes on one chunk, compared with NumPy's stable sorts."""

from __future__ import annotations

import dask
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.codes import BLOCK_KEYS, WIDTHS, code_arrays, shapes_of_input

from dask_gpusort.chunk import numpy_radix
from dask_gpusort.chunk.numpy_radix import argsort, sort, sort_with_positions


def check(codes):
    before = codes.copy()
    want = np.argsort(codes, axis=-1, kind="stable")
    positions = argsort(codes)
    assert positions.dtype == np.int64
    assert np.array_equal(positions, want)
    sorted_codes, positions = sort_with_positions(codes)
    assert sorted_codes.dtype == codes.dtype
    assert positions.dtype == np.int64
    assert np.array_equal(positions, want)
    assert np.array_equal(sorted_codes, np.sort(codes, axis=-1))
    assert np.array_equal(codes, before)
    sort(before)
    assert np.array_equal(before, sorted_codes)


@given(code_arrays())
@settings(deadline=None)
@example(np.zeros((3, 0), np.uint32))
@example(np.zeros((0, 3), np.uint64))
@example(np.array([[2**64 - 1]], np.uint64))
@example(np.array([2**64 - 1, 0, 2**64 - 1, 1], np.uint64))
def test_sorts_agree_with_numpy(codes):
    check(codes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_radix, "SMALL", 0)  # disables the path for few keys
        patch.setattr(numpy_radix, "_SHORT_ROW", 0)
        patch.setattr(numpy_radix, "_CACHED_ROW", 0)
        check(codes)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("n", [3 * BLOCK_KEYS - 1, 3 * BLOCK_KEYS, 3 * BLOCK_KEYS + 1, 70_000])
@pytest.mark.usefixtures("small_blocks")
def test_long_rows_agree_with_numpy(n, dtype):
    for name, codes in shapes_of_input(n, dtype):
        try:
            check(codes)
        except AssertionError as error:
            raise AssertionError(f"input: {name}") from error


@pytest.mark.parametrize("shape", [(5_000, 13), (3, 20_000), (2, 300, 40)])
@pytest.mark.usefixtures("small_blocks")
def test_many_and_long_rows_with_tied_high_parts(shape):
    random = np.random.default_rng(3)
    # The range of the codes leaves no bits for the position, and high parts repeat.
    codes = random.integers(0, 4, shape, dtype=np.uint64) << np.uint64(62)
    codes += random.integers(0, 3, shape, dtype=np.uint64)
    check(codes)


def test_counting_sort_of_long_rows(monkeypatch):
    monkeypatch.setattr(numpy_radix, "_COUNT_BLOCK", 100)
    for dtype in ("u1", "u2"):
        codes = np.random.default_rng(0).integers(0, 256, (2, 1234 * 2), dtype=np.uint8).view(dtype)
        want = np.sort(codes, axis=-1)
        sort(codes)
        assert np.array_equal(codes, want)


def test_arrays_without_dimensions_are_refused():
    with pytest.raises(ValueError, match="reshape"):
        argsort(np.zeros((), np.uint32))


def test_ties_in_the_high_part_are_resolved_in_each_row_from_the_least_code():
    # All high parts are equal, across the ends of rows too, and the low bits of the least code are not zero.
    codes = np.random.default_rng(0).integers((1 << 20) - 3, (1 << 20) + 5, (3, 3000), np.uint64)
    codes[2, 7] = ~np.uint64(0)
    np.testing.assert_array_equal(numpy_radix.argsort(codes), np.argsort(codes, axis=-1, kind="stable"))


@pytest.mark.parametrize("dtype", ["u4", "i8", "f8"])
@pytest.mark.parametrize("merged", [0, 3])
@pytest.mark.parametrize(
    ("out_of_order", "repaired"),
    [
        ([], True),
        ([slice(67_000, 67_584)], True),
        ([slice(0, 900), slice(40_000, 40_001), slice(64_000, 64_066)], True),
        ([slice(place, place + 1) for place in (1024, 9 * 1024, 17 * 1024 - 1, 33 * 1024)], True),
        ([slice(place, place + 1) for place in range(10, 67_584, 100)], False),  # all blocks have one
        ([slice(0, 20_000)], False),
    ],
)
@given(ordered=st.booleans(), seed=st.integers(0, 9))
def test_a_row_in_order_but_for_some_keys_is_repaired(out_of_order, repaired, merged, dtype, ordered, seed):
    random = np.random.default_rng(seed)
    row = np.sort(random.integers(0, 1 << 31, 66 * 1024)).astype(dtype)
    for part in out_of_order:
        keys = random.integers(0, 1 << 31, part.stop - part.start).astype(dtype)
        row[part] = np.sort(keys) if ordered and repaired else keys
    before = row.copy()
    with dask.config.set({"gpusort.merged_runs": merged}):
        assert numpy_radix.repair(row) == repaired
    np.testing.assert_array_equal(row, np.sort(before) if repaired else before)


def test_runs_of_many_lengths_are_merged_only_where_that_is_faster():
    row = np.sort(np.random.default_rng(0).integers(0, 1 << 62, (7, 10_000)), axis=1).ravel()
    for merged in (6, 7):
        with dask.config.set({"gpusort.merged_runs": merged}):
            kept = row.copy()
            assert numpy_radix.repair(kept) == (merged == 7)
            np.testing.assert_array_equal(kept, np.sort(row) if merged == 7 else row)
