"""The functions of `dask_gpusort.kernels` on a GPU, bit by bit against NumPy and `dask_gpusort.keys`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from support.gpu_checks import assert_bits, expected_codes, expected_sorted
from support.gpu_data import DISTRIBUTIONS, DTYPES, make_keys, special_keys

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of

pytestmark = pytest.mark.gpu

LARGE = (1 << 22) + 3  # two levels of partition, or stable passes


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_equal_those_of_numpy(cp: Any, dtype: str, descending: bool) -> None:
    keys = np.concatenate([special_keys(np.dtype(dtype)), make_keys(dtype, 100_000, "random")])
    codes = kernels.encode(cp.asarray(keys), descending)
    assert_bits(codes, expected_codes(keys, descending))
    assert_bits(kernels.decode(codes, dtype, descending), keys)
    assert_bits(kernels.decode(codes, dtype, descending, out=codes.view(dtype)), keys)


@pytest.mark.parametrize("dtype", ["u1", "u4"])
def test_more_than_2_to_31_keys(cp: Any, dtype: str) -> None:
    n = (1 << 31) + 7
    words = cp.random.default_rng(1).integers(0, 1 << 32, -(-n * np.dtype(dtype).itemsize // 4), dtype=cp.uint32)
    keys = words.view(dtype)[:n]
    total, squares = (int((keys.astype(cp.uint64) ** power).sum()) for power in (1, 2))
    kernels.sort_keys(keys, out=keys)
    assert bool((keys[1:] >= keys[:-1]).all())
    assert [int((keys.astype(cp.uint64) ** power).sum()) for power in (1, 2)] == [total, squares]


@pytest.mark.parametrize("dtype", DTYPES)
def test_search_sorted(cp: Any, dtype: str) -> None:
    for descending in (False, True):
        keys = expected_sorted(make_keys(dtype, 10_000, "special"), descending)
        needles = np.concatenate([special_keys(np.dtype(dtype)), make_keys(dtype, 1000, "random")])
        floors = [
            codes_of.tie_floor(expected_codes(a, descending), a.dtype, descending=descending) for a in (keys, needles)
        ]
        for side in ("left", "right"):
            got = kernels.search_sorted(cp.asarray(keys), cp.asarray(needles), side, descending=descending)
            assert_bits(got, np.searchsorted(*floors, side=side))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rank_samples(cp: Any, dtype: str, distribution: str) -> None:
    for n in (0, 1, 2, 65, 4097, LARGE):
        keys = make_keys(dtype, n, distribution)
        for descending in (False, True):
            codes = np.sort(expected_codes(keys, descending))
            floors = codes_of.tie_floor(codes, keys.dtype, descending=descending)
            every = np.minimum(np.arange(-(-n // 97) + 1) * 97, n - 1) if n else np.empty(0, np.int64)
            for ties_of, classes in ((None, codes), (keys.dtype, floors)):
                found = kernels.rank_samples(cp.asarray(codes), 97, ties_of=ties_of, descending=descending)
                least, less, at_most = found
                assert least.dtype == codes.dtype
                np.testing.assert_array_equal(least, classes[every])
                np.testing.assert_array_equal(less, np.searchsorted(classes, least, "left"))
                np.testing.assert_array_equal(at_most, np.searchsorted(classes, least, "right"))


@pytest.mark.parametrize("sort", [kernels.sort_keys, partial(kernels.sort_by_comparison, less="a < b")])
def test_two_streams_at_once(cp: Any, sort: Any) -> None:
    keys = [make_keys("u4", LARGE, "random", seed) for seed in range(6)]
    device = [cp.asarray(k) for k in keys]
    cp.cuda.Device().synchronize()
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    outputs = []
    for i, array in enumerate(device):
        with streams[i % 2]:
            outputs.append(sort(array))
    for stream in streams:
        stream.synchronize()
    for got, wanted in zip(outputs, keys, strict=True):
        assert_bits(got, np.sort(wanted))


def test_current_allocator_and_temporary_memory(cp: Any) -> None:
    """All temporary memory comes from the current allocator, at most 1.1 times the size of the keys."""
    n = 1 << 24
    pool = cp.cuda.MemoryPool()
    for dtype in ("u1", "u2", "u4", "f8"):
        keys = cp.asarray(make_keys(dtype, n, "random"))
        out = cp.empty_like(keys)
        with cp.cuda.using_allocator(pool.malloc):
            kernels.sort_keys(keys, out=out)
        peak = pool.total_bytes()
        assert 0 < peak <= 1.1 * keys.nbytes + (2 << 20)
        pool.free_all_blocks()


def count_of_each(cp: Any, keys: Any, shift: int = 0) -> Any:
    """Number of keys of each value of their bits from `shift` on, of at most 16, for arrays of any size."""
    parts = (keys[first : first + (1 << 28)] >> shift for first in range(0, keys.size, 1 << 28))
    return sum(cp.bincount(part, minlength=1 << 16) for part in parts)


@pytest.mark.thorough
def test_more_than_2_to_32_keys(cp: Any) -> None:
    n = (1 << 32) + 12_345
    keys = cp.random.default_rng(5).integers(0, 1 << 16, n, dtype=cp.uint16)
    counts = count_of_each(cp, keys)
    assert int(counts.sum()) == n
    out = kernels.sort_keys(keys)
    assert bool((count_of_each(cp, out) == counts).all())
    assert bool((out[1:] >= out[:-1]).all())
    del keys, out
    wide = cp.random.default_rng(6).integers(0, 1 << 32, n, dtype=cp.uint32)
    total = int(wide.sum(dtype=cp.uint64))
    counts = count_of_each(cp, wide, 16)
    kernels.sort_keys(wide, out=wide)
    assert bool((wide[1:] >= wide[:-1]).all())
    assert int(wide.sum(dtype=cp.uint64)) == total
    assert bool((count_of_each(cp, wide, 16) == counts).all())


@pytest.mark.thorough
def test_positions_of_more_than_2_to_32_keys(cp: Any) -> None:
    if cp.cuda.Device().mem_info[1] < 90e9:
        pytest.skip("needs 90 GB of device memory")
    n = (1 << 32) + 12_345
    few = cp.random.default_rng(7).integers(0, 1 << 8, n, dtype=cp.uint8)
    positions = kernels.argsort(few)
    assert int(positions.min()) == 0
    assert int(positions.max()) == n - 1
    ordered = few[positions]
    assert bool((count_of_each(cp, ordered) == count_of_each(cp, few)).all())
    for first in range(0, n - 1, 1 << 28):
        ordered, found = few[positions[first : first + (1 << 28) + 1]], positions[first : first + (1 << 28) + 1]
        ahead = found[1:] > found[:-1]
        assert bool(((ordered[1:] > ordered[:-1]) | ((ordered[1:] == ordered[:-1]) & ahead)).all())


def test_invalid_arguments_raise(cp: Any) -> None:
    keys = cp.arange(10)
    with pytest.raises(TypeError, match="complex128"):
        kernels.sort_keys(cp.zeros(3, np.complex128))
    with pytest.raises(TypeError, match="asarray"):
        kernels.sort_keys(np.zeros(3))
    with pytest.raises(ValueError, match="contiguous"):
        kernels.sort_keys(keys[::2])
    with pytest.raises(ValueError, match="out"):
        kernels.sort_keys(keys, out=cp.zeros(3, keys.dtype))
    with pytest.raises(ValueError, match="algorithm"):
        kernels.sort_keys(keys, algorithm="bogo")
    with pytest.raises(ValueError, match="values"):
        kernels.sort_pairs(keys, cp.zeros(3))
