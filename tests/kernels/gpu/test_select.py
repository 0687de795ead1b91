"""Selection on a GPU, against NumPy: counts and keys between bounds, keys at ranks, and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_data import DISTRIBUTIONS, DTYPES, make_keys

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.chunk import ops_for
from dask_gpusort.kernels import selecting

pytestmark = pytest.mark.gpu

MIDDLE = 300_007
LARGE = (1 << 24) + 3
#: Lengths at which another kernel selects, for codes of 4 and 8 bytes.
LIMITS = [threads * selecting.HELD_BYTES // size for threads in (32, *selecting.BLOCK_THREADS) for size in (4, 8)]


def encode(keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return codes_of.encode(keys.ravel()).reshape(keys.shape)


def check_extract(cp: Any, keys: np.ndarray[Any, Any], brackets: int, ties: bool, seed: int = 0) -> None:
    """Compare with a sort of the codes of each row."""
    codes, rng = np.sort(encode(keys), axis=1), np.random.default_rng(seed)
    ends = np.sort(np.stack([rng.choice(row, (2, brackets)) for row in codes]), axis=1)
    low, high = np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])
    got = kernels.extract([cp.asarray(keys)], low, high, keys.shape[1], ties=ties)
    for i, row in enumerate(codes):
        floors = codes_of.tie_floor(row, keys.dtype) if ties else row
        of_row = [codes_of.tie_floor(end[i], keys.dtype) if ties else end[i] for end in (low, high)]
        sides = [np.searchsorted(floors, end, side) for end in of_row for side in ("left", "right")]
        sides[2] = np.maximum(sides[1], sides[2])
        np.testing.assert_array_equal(got.ends[i], sides)
        inside = np.zeros(row.size, bool)
        for first, last in zip(sides[1], sides[2], strict=True):
            inside[first:last] = True
        assert got.found[i] == inside.sum()
        np.testing.assert_array_equal(np.sort(encode(got.inside[i, : got.found[i]].get())), row[inside])
    np.testing.assert_array_equal(got.nans, np.isnan(keys).sum(axis=1))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_extract(cp: Any, dtype: str, distribution: str, ties: bool) -> None:
    keys = make_keys(dtype, 3 * MIDDLE, distribution)
    for shape, brackets in (((1, -1), 5), ((3, -1), 1), ((3 * 1009, -1), 2)):
        check_extract(cp, keys[: 3 * 1009 * 297].reshape(shape), brackets, ties)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_extract_of_many_keys(cp: Any, dtype: str) -> None:
    keys = make_keys(dtype, LARGE, "random").reshape(1, -1)
    for brackets in (1, 40, 250):
        check_extract(cp, keys, brackets, True)


@pytest.mark.parametrize("skip", [1, 2, 3])
def test_extract_of_unaligned_keys(cp: Any, skip: int) -> None:
    for dtype in ("u1", "f2", "f4"):
        keys = cp.asarray(make_keys(dtype, 2 * MIDDLE + skip, "random"))[skip:].reshape(2, -1)
        none = np.zeros((2, 0), f"u{keys.itemsize}")
        np.testing.assert_array_equal(kernels.extract([keys], none, none, 0).nans, np.isnan(keys.get()).sum(axis=1))


def test_extract_stays_within_the_capacity(cp: Any) -> None:
    keys = cp.asarray(make_keys("u8", MIDDLE, "random").reshape(1, -1))
    low, high = np.zeros((1, 1), "u8"), np.full((1, 1), 1 << 63, "u8")
    wanted = int((keys < (1 << 63)).sum())
    for capacity in (0, 1, 1000, wanted - 1, wanted):
        got = kernels.extract([keys], low, high, capacity)
        assert got.found[0] == wanted
        assert bool((got.inside[0, :wanted] < (1 << 63)).all())


def test_extract_of_more_than_2_to_31_keys(cp: Any) -> None:
    n = (1 << 32) + 7
    keys = cp.random.default_rng(1).integers(0, 1 << 32, n // 4 + 1, dtype=cp.uint32).view(cp.uint8)[:n].reshape(1, -1)
    counts = cp.bincount(keys[0, : 1 << 30], minlength=256)
    for start in range(1 << 30, n, 1 << 30):
        counts += cp.bincount(keys[0, start : start + (1 << 30)], minlength=256)
    below = np.concatenate([[0], np.cumsum(counts.get())])
    got = kernels.extract([keys], np.array([[100]], "u1"), np.array([[103]], "u1"), 1 << 27)
    np.testing.assert_array_equal(got.ends[0, :, 0], below[[100, 101, 103, 104]])
    assert got.found[0] == below[103] - below[101]
    assert set(np.unique(got.inside[0, : got.found[0]].get())) == {101, 102}


def check_select(cp: Any, keys: np.ndarray[Any, Any], axis: int = 1, count: int = 4) -> None:
    """Any ranks, the first and the last, and two neighbours."""
    lanes = keys if axis == 1 else keys.T
    length, rng = lanes.shape[1], np.random.default_rng(lanes.shape)
    ranks = rng.integers(0, length, (len(lanes), count + 4))
    ranks[:, :4] = 0, length - 1, (length - 1) // 2, length // 2
    selected, nans = kernels.select_rows(cp.asarray(keys), ranks, axis)
    wanted = np.take_along_axis(np.sort(encode(np.ascontiguousarray(lanes)), axis=1), ranks, axis=1)
    np.testing.assert_array_equal(encode(selected.get()), wanted)
    np.testing.assert_array_equal(nans.get(), np.isnan(lanes).sum(axis=1))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks(cp: Any, dtype: str, distribution: str, axis: int) -> None:
    for num_lanes, length in ((1009, 365), (61, 5003), (7, 65_537)):
        keys = make_keys(dtype, num_lanes * length, distribution)
        check_select(cp, keys.reshape((num_lanes, length) if axis else (length, num_lanes)), axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_ranks_at_the_limits_of_each_kernel(cp: Any, dtype: str, axis: int) -> None:
    for length in sorted({1, 2, 31, 32, 33, *(limit + d for limit in LIMITS for d in (-1, 0, 1))}):
        for num_lanes in (1, 33):
            keys = make_keys(dtype, num_lanes * length, "random")
            check_select(cp, keys.reshape((num_lanes, length) if axis else (length, num_lanes)), axis)


@pytest.mark.parametrize("count", [0, 1, 12, 13, 50])
def test_any_number_of_ranks(cp: Any, count: int) -> None:
    for length in (365, 65_537):
        check_select(cp, make_keys("f8", 40 * length, "near").reshape(40, length), count=count)


@pytest.mark.parametrize("share", [0.5, 0.8, 1.0])
def test_long_rows_of_mostly_one_key(cp: Any, share: float) -> None:
    """Candidates do not fit shared memory, so that every digit is counted."""
    rng = np.random.default_rng(1)
    for dtype in ("f4", "f8"):
        keys = np.where(rng.random((20, 70_001)) < share, 0.0, rng.random((20, 70_001))).astype(dtype)
        check_select(cp, keys)


def test_many_short_lanes(cp: Any) -> None:
    check_select(cp, make_keys("f4", 365 << 12, "random").reshape(365, -1), 0)
    check_select(cp, make_keys("f4", 365 << 12, "random").reshape(-1, 365), 1)
    check_select(cp, make_keys("u2", 5 << 18, "random").reshape(-1, 5), 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_of_a_chunk(cp: Any, dtype: str) -> None:
    keys = make_keys(dtype, LARGE, "special")
    chunk, ops = cp.asarray(keys), ops_for(cp.empty(0))
    assert ops.count_nans(chunk) == np.isnan(keys).sum()
    positions = np.array([5, 0, LARGE - 1])
    assert ops.sample(chunk, positions).tobytes() == keys[positions].tobytes()
    codes = np.sort(encode(keys))
    ends = codes_of.decode(codes[[LARGE // 4, LARGE // 2]].copy(), keys.dtype)
    counts, inside = ops.extract(chunk, ends[:1], ends[1:])
    floors = codes_of.tie_floor(codes, keys.dtype)
    classes = codes_of.tie_floor(codes_of.encode(ends), keys.dtype)
    sides = [np.searchsorted(floors, end, side) for end in classes for side in ("left", "right")]
    sides[2] = max(sides[1:3])
    np.testing.assert_array_equal(counts[:, 0], np.ravel(sides))
    np.testing.assert_array_equal(np.sort(encode(inside.get())), codes[sides[1] : max(sides[1], sides[2])])
