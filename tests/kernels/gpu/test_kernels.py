"""The functions of `dask_gpusort.kernels` on a GPU, bit by bit against NumPy and `dask_gpusort.keys`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_checks import assert_bits, expected_codes, expected_positions, expected_sorted
from support.gpu_data import DISTRIBUTIONS, DTYPES, make_keys, random_bits, special_keys

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.kernels.policy import tuning

pytestmark = pytest.mark.gpu

ALGORITHMS = ["auto", "msd", "lsd"]
CAPACITIES = sorted({shape.capacity for shapes in tuning.BLOCK_SORT.values() for shape in shapes})
TILES = sorted({tile.keys for table in (tuning.PARTITION, tuning.LSD) for tile in table.values()})
EDGES = sorted({0, 1, 2, 31, 33, 1009, 65537, *(edge + d for edge in CAPACITIES + TILES for d in (-1, 0, 1))})
MIDDLE = 300_007  # several tiles, few buckets; a prime
LARGE = (1 << 22) + 3  # two levels of partition, or stable passes
TWO_LEVELS = (1 << 23) + 5  # of partition, for every dtype


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_equal_those_of_numpy(cp: Any, dtype: str, descending: bool) -> None:
    keys = np.concatenate([special_keys(np.dtype(dtype)), make_keys(dtype, 100_000, "random")])
    codes = kernels.encode(cp.asarray(keys), descending)
    assert_bits(codes, expected_codes(keys, descending))
    assert_bits(kernels.decode(codes, dtype, descending), keys)
    assert_bits(kernels.decode(codes, dtype, descending, out=codes.view(dtype)), keys)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_keys(cp: Any, guarded: Any, dtype: str, distribution: str, algorithm: str) -> None:
    for descending in (False, True):
        keys = make_keys(dtype, MIDDLE, distribution)
        out = guarded(MIDDLE, dtype)
        kernels.sort_keys(cp.asarray(keys), descending=descending, out=out, algorithm=algorithm)
        assert_bits(out, expected_sorted(keys, descending))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorted_codes(cp: Any, dtype: str, descending: bool) -> None:
    for n in (0, 5, 20_011, MIDDLE, LARGE):
        keys = make_keys(dtype, n, "random")
        assert_bits(
            kernels.sorted_codes(cp.asarray(keys), descending=descending), np.sort(expected_codes(keys, descending))
        )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["u4", "f4", "i8", "f8"])
def test_sort_keys_of_two_levels(cp: Any, guarded: Any, dtype: str, distribution: str, algorithm: str) -> None:
    keys = make_keys(dtype, LARGE, distribution)
    out = guarded(LARGE, dtype)
    kernels.sort_keys(cp.asarray(keys), out=out, algorithm=algorithm)
    assert_bits(out, expected_sorted(keys, False))


@pytest.mark.parametrize("distribution", ["random", "equal", "few", "low entropy"])
@pytest.mark.parametrize("dtype", ["u4", "i8"])
def test_arrays_beyond_one_block(cp: Any, guarded: Any, dtype: str, distribution: str) -> None:
    for n in (CAPACITIES[-1] + 1, 1 << 16, 1 << 19, (1 << 19) + 1, 1 << 22):
        keys = make_keys(dtype, n, distribution)
        out = guarded(n, dtype)
        kernels.sort_keys(cp.asarray(keys), out=out)
        assert_bits(out, expected_sorted(keys, False))


@pytest.mark.parametrize("call", ["keys", "positions"])
@pytest.mark.parametrize("distribution", ["random", "few", "low entropy", "sorted"])
@pytest.mark.parametrize("dtype", ["u4", "f8"])
def test_more_than_two_levels(cp: Any, monkeypatch: Any, dtype: str, distribution: str, call: str) -> None:
    monkeypatch.setattr(tuning, "MOST_TWO_LEVELS", LARGE - 1)
    monkeypatch.setattr(tuning, "PART_KEYS", LARGE // 6)
    monkeypatch.setattr(tuning, "PARTITIONED_KEYS", {})
    keys = make_keys(dtype, LARGE, distribution)
    if call == "keys":
        for algorithm in ("auto", "msd"):
            assert_bits(kernels.sort_keys(cp.asarray(keys), algorithm=algorithm), expected_sorted(keys, False))
    else:
        assert_bits(kernels.argsort(cp.asarray(keys)), expected_positions(keys, False))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_with_positions(cp: Any, dtype: str, descending: bool) -> None:
    for n in (0, 5, MIDDLE):
        keys = make_keys(dtype, n, "special")
        order = expected_positions(keys, descending)
        keys_out, positions = kernels.sort_with_positions(cp.asarray(keys), descending=descending)
        assert_bits(keys_out, keys[order])
        assert_bits(positions, order.astype(np.uint32))


@pytest.mark.parametrize("dtype", ["u1", "u4"])
def test_more_than_2_to_31_keys(cp: Any, dtype: str) -> None:
    n = (1 << 31) + 7
    words = cp.random.default_rng(1).integers(0, 1 << 32, -(-n * np.dtype(dtype).itemsize // 4), dtype=cp.uint32)
    keys = words.view(dtype)[:n]
    total, squares = (int((keys.astype(cp.uint64) ** power).sum()) for power in (1, 2))
    kernels.sort_keys(keys, out=keys)
    assert bool((keys[1:] >= keys[:-1]).all())
    assert [int((keys.astype(cp.uint64) ** power).sum()) for power in (1, 2)] == [total, squares]


@pytest.mark.parametrize("distribution", ["random", "few", "low entropy"])
@pytest.mark.parametrize("values_dtype", ["u4", "f8"])
@pytest.mark.parametrize("dtype", ["u4", "i4", "u8", "f4"])
def test_large_pairs(cp: Any, guarded: Any, dtype: str, values_dtype: str, distribution: str) -> None:
    keys, values = make_keys(dtype, LARGE, distribution), make_keys(values_dtype, LARGE, "random", seed=4)
    keys_out, values_out = guarded(LARGE, dtype), guarded(LARGE, values_dtype)
    kernels.sort_pairs(cp.asarray(keys), cp.asarray(values), keys_out=keys_out, values_out=values_out)
    order = expected_positions(keys, False)
    assert_bits(keys_out, keys[order])
    assert_bits(values_out, values[order])


def assert_sorts_with_early_values(
    cp: Any, guarded: Any, monkeypatch: Any, keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any], **options: Any
) -> None:
    """Sort pairs with early values for any number of pairs; skewed keys may be left to LSD passes."""
    monkeypatch.setattr(tuning, "EARLY_VALUES_PAIRS", {4: 1, 8: 1})
    keys_out, values_out = guarded(keys.size, keys.dtype), guarded(values.size, values.dtype).reshape(values.shape)
    kernels.sort_pairs(cp.asarray(keys), cp.asarray(values), keys_out=keys_out, values_out=values_out, **options)
    order = expected_positions(keys, options.get("descending", False))
    assert_bits(keys_out, keys[order])
    assert_bits(values_out, values[order])


@pytest.mark.parametrize("values_dtype", ["u1", "i2", "f4", "u8", "c16"])
@pytest.mark.parametrize("dtype", ["i4", "u4", "f4", "i8", "u8", "f8", "c8"])
def test_early_values(cp: Any, guarded: Any, monkeypatch: Any, dtype: str, values_dtype: str) -> None:
    values = random_bits(np.random.default_rng(5), np.dtype(values_dtype), TWO_LEVELS)
    keys = make_keys(dtype, TWO_LEVELS, "random")
    assert_sorts_with_early_values(cp, guarded, monkeypatch, keys, values, descending=values_dtype == "i2")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["u4", "f4", "i8", "f8", "c8"])
def test_early_values_of_any_distribution(
    cp: Any, guarded: Any, monkeypatch: Any, dtype: str, distribution: str
) -> None:
    keys = make_keys(dtype, TWO_LEVELS, distribution)
    for descending in (False, True):
        positions = np.arange(TWO_LEVELS, dtype="u8")  # show whether equal keys keep their order
        assert_sorts_with_early_values(cp, guarded, monkeypatch, keys, positions, descending=descending)


@pytest.mark.parametrize("distribution", ["random", "zipf"])
@pytest.mark.parametrize(("dtype", "values_dtype"), [("u4", "u4"), ("u8", "u8"), ("f8", "c16")])
def test_early_values_around_a_tile(
    cp: Any, guarded: Any, monkeypatch: Any, dtype: str, values_dtype: str, distribution: str
) -> None:
    tile = tuning.STABLE[np.dtype(dtype).itemsize, np.dtype(values_dtype).itemsize].keys
    whole = TWO_LEVELS // tile * tile
    for n in (whole - 1, whole, whole + 1):
        keys, values = make_keys(dtype, n, distribution), np.arange(n).astype(values_dtype)
        assert_sorts_with_early_values(cp, guarded, monkeypatch, keys, values)


def test_early_values_that_are_rows(cp: Any, guarded: Any, monkeypatch: Any) -> None:
    rows = random_bits(np.random.default_rng(6), np.dtype("u2"), 4 * TWO_LEVELS)
    for width in (2, 3, 4):  # one access moves 2 or 4 values; 3 need several
        values = rows[: width * TWO_LEVELS].reshape(TWO_LEVELS, width)
        assert_sorts_with_early_values(cp, guarded, monkeypatch, make_keys("u4", TWO_LEVELS, "random"), values)


@pytest.mark.parametrize("values_dtype", ["u4", "f8", "c16"])
@pytest.mark.parametrize("dtype", ["u1", "i2"])
def test_pairs_of_narrow_keys(cp: Any, guarded: Any, dtype: str, values_dtype: str) -> None:
    keys, values = make_keys(dtype, LARGE, "random"), np.arange(LARGE).astype(values_dtype)
    keys_out, values_out = guarded(LARGE, dtype), guarded(LARGE, values_dtype)
    kernels.sort_pairs(cp.asarray(keys), cp.asarray(values), keys_out=keys_out, values_out=values_out)
    order = expected_positions(keys, False)
    assert_bits(keys_out, keys[order])
    assert_bits(values_out, values[order])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", ["u1", "u4", "f8"])
def test_sort_keys_around_every_block_size(cp: Any, guarded: Any, dtype: str, algorithm: str) -> None:
    for n in EDGES:
        keys = make_keys(dtype, n, "random", seed=1)
        out = guarded(n, dtype)
        kernels.sort_keys(cp.asarray(keys), out=out, algorithm=algorithm)
        assert_bits(out, expected_sorted(keys, False))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_stable_sort_keeps_the_order_of_zeros_and_nans(cp: Any, dtype: str) -> None:
    keys = make_keys(dtype, MIDDLE, "special")
    for descending in (False, True):
        got = kernels.sort_keys(cp.asarray(keys), descending=descending, stable=True)
        assert_bits(got, keys[expected_positions(keys, descending)])


@pytest.mark.parametrize("dtype", ["u2", "i4", "f8"])
def test_sort_in_place_and_unaligned(cp: Any, dtype: str) -> None:
    keys = make_keys(dtype, MIDDLE, "random")
    for skip in (0, 1, 3):
        array = cp.asarray(keys)[skip:]
        assert kernels.sort_keys(array, out=array) is array
        assert_bits(array, expected_sorted(keys[skip:], False))


@pytest.mark.parametrize("algorithm", ["auto", "lsd"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_argsort_is_stable(cp: Any, guarded: Any, dtype: str, distribution: str, algorithm: str) -> None:
    for descending in (False, True):
        keys = make_keys(dtype, MIDDLE, distribution)
        out = guarded(MIDDLE, np.int64)
        kernels.argsort(cp.asarray(keys), descending=descending, out=out, algorithm=algorithm)
        assert_bits(out, expected_positions(keys, descending))


@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_argsort_around_every_block_size(cp: Any, guarded: Any, dtype: str) -> None:
    for n in EDGES:
        keys = make_keys(dtype, n, "few", seed=2)
        out = guarded(n, np.int64)
        kernels.argsort(cp.asarray(keys), out=out)
        assert_bits(out, expected_positions(keys, False))


@pytest.mark.parametrize("distribution", ["random", "equal", "few", "low entropy"])
@pytest.mark.parametrize("dtype", ["u4", "f8"])
def test_argsort_of_two_levels(cp: Any, dtype: str, distribution: str) -> None:
    keys = make_keys(dtype, LARGE, distribution)
    assert_bits(kernels.argsort(cp.asarray(keys)), expected_positions(keys, False))


@pytest.mark.parametrize("algorithm", ["auto", "lsd"])
@pytest.mark.parametrize("values_dtype", ["u4", "f8", "i1", "c16"])
@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f4", "u8", "f8", "c8"])
def test_sort_pairs_is_stable(cp: Any, guarded: Any, dtype: str, values_dtype: str, algorithm: str) -> None:
    for distribution in ("few", "special"):
        keys = make_keys(dtype, MIDDLE, distribution)
        values = make_keys(values_dtype, MIDDLE, "random") if values_dtype != "c16" else np.arange(MIDDLE) * (1 + 2j)
        order = expected_positions(keys, False)
        keys_out, values_out = guarded(MIDDLE, dtype), guarded(MIDDLE, values_dtype)
        kernels.sort_pairs(
            cp.asarray(keys), cp.asarray(values), keys_out=keys_out, values_out=values_out, algorithm=algorithm
        )
        assert_bits(keys_out, keys[order])
        assert_bits(values_out, values[order])


ROWS = [(1, 1), (7, 1), (300, 31), (100, 320), (40, 321), (30, 1152), (9, 5000), (3, 17408), (5, 30_000), (2, 200_003)]


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8", "c8"])
def test_rows(cp: Any, guarded: Any, dtype: str) -> None:
    for shape in ROWS:
        for distribution in ("random", "few"):
            keys = make_keys(dtype, shape[0] * shape[1], distribution).reshape(shape)
            device = cp.asarray(keys)
            out = guarded(keys.size, dtype).reshape(shape)
            kernels.sort_rows(device, out=out)
            assert_bits(out, np.stack([expected_sorted(row, False) for row in keys]))
            positions = kernels.argsort_rows(device, descending=True)
            assert_bits(positions, np.stack([expected_positions(row, True) for row in keys]))


def check_rows(cp: Any, keys: np.ndarray[Any, Any], positions: bool = True) -> None:
    """Sort rows to another array and in place, and compare positions."""
    wanted = np.stack([expected_sorted(row, False) for row in keys])
    device = cp.asarray(keys)
    assert_bits(kernels.sort_rows(device), wanted)
    if positions:
        assert_bits(kernels.argsort_rows(device), np.stack([expected_positions(row, False) for row in keys]))
    kernels.sort_rows(device, out=device)
    assert_bits(device, wanted)


#: Lengths that exceed a block: whole tiles, one key less and one more. Rows of odd length are unaligned.
TILE_ROWS = sorted({m * tile + d for tile in TILES for m in (4, 7) for d in (-1, 0, 1)})
LONG_ROWS = [(40, 12_289), (7, 16_384), (5, 25_601), (6, 100_003), (3, 1 << 18)]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows(cp: Any, monkeypatch: Any, dtype: str, distribution: str) -> None:
    monkeypatch.setattr(tuning, "PARTITIONED_ROWS", 0)
    for shape in LONG_ROWS:
        check_rows(cp, make_keys(dtype, shape[0] * shape[1], distribution).reshape(shape))


@pytest.mark.parametrize("dtype", ["u4", "f8"])
def test_rows_around_whole_tiles(cp: Any, monkeypatch: Any, dtype: str) -> None:
    monkeypatch.setattr(tuning, "PARTITIONED_ROWS", 0)
    for length in TILE_ROWS:
        check_rows(cp, make_keys(dtype, 5 * length, "random").reshape(5, length))


@pytest.mark.parametrize("distribution", ["random", "few", "low entropy"])
@pytest.mark.parametrize("dtype", ["u1", "u4", "f4", "u8", "f8"])
def test_rows_with_more_digits_or_several_levels(cp: Any, dtype: str, distribution: str) -> None:
    for length in (1_179_649, 2_359_297, 4_915_201):
        check_rows(cp, make_keys(dtype, 2 * length, distribution).reshape(2, length), positions=False)


#: Floats for every path of a block sort: bins by value, bins by code, bins of a single code, and merges.
BLOCK_FLOATS = {
    "uniform": lambda rng, shape: rng.random(shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 4, shape),
    "whole": lambda rng, shape: rng.integers(-20, 20, shape),
    "powers": lambda rng, shape: np.ldexp(1.0, rng.integers(-30, 30, shape)),
    "one outlier": lambda rng, shape: np.where(np.arange(shape[1]) == 77, 1e9, rng.standard_normal(shape)),
    "clusters": lambda rng, shape: np.ldexp(1 + rng.random(shape) * 1e-5, rng.integers(0, 4, shape)),
}


@pytest.mark.parametrize("length", [1_153, 2_000, 4_096, 12_800, 16_384])
@pytest.mark.parametrize("kind", BLOCK_FLOATS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_of_floats_in_a_block(cp: Any, dtype: str, kind: str, length: int) -> None:
    check_rows(cp, BLOCK_FLOATS[kind](np.random.default_rng(length), (300, length)).astype(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_uniform_rows(cp: Any, monkeypatch: Any, dtype: str) -> None:
    monkeypatch.setattr(tuning, "ROW_KEYS", 300_000)  # several batches
    keys = np.random.default_rng(1).random((9, 100_003)).astype(dtype)
    check_rows(cp, keys)
    # All keys together are uniform, but no row is.
    check_rows(cp, (keys * 1000 + np.arange(9)[:, None] * 1000).astype(dtype))
    check_rows(cp, (keys * np.linspace(0.5, 1.5, 9)[:, None]).astype(dtype))
    keys[4] = 0.25
    check_rows(cp, keys)


def test_rows_of_different_distributions(cp: Any) -> None:
    length = 100_000
    check_rows(cp, np.stack([make_keys("f8", length, name) for name in DISTRIBUTIONS]))


def test_many_rows_that_fit_a_block(cp: Any) -> None:
    keys = cp.random.default_rng(1).random((1 << 11, 17_001), dtype=np.float32)
    assert keys.size >= tuning.PARTITIONED_ROWS
    assert_bits(kernels.sort_rows(keys), np.sort(keys.get()))


FLOATS = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.standard_normal(n) * 3 - 1,
    "lognormal": lambda rng, n: np.exp(4 * rng.standard_normal(n)),
    "exponential": lambda rng, n: rng.standard_exponential(n),
    "far from zero": lambda rng, n: 1000 + rng.random(n),
    "tiny": lambda rng, n: rng.random(n) * 1e-40,
    "huge": lambda rng, n: (rng.random(n) - 0.5) * 6e38,
    "some NaN": lambda rng, n: np.where(rng.random(n) < 1e-5, np.nan, rng.random(n)),
    "many NaN": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
    "infinities": lambda rng, n: np.where(rng.random(n) < 1e-5, -np.inf, rng.random(n)),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.1, -0.0, rng.random(n) - 0.5),
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_are_mapped_by_value(cp: Any, dtype: str, kind: str, descending: bool) -> None:
    keys = FLOATS[kind](np.random.default_rng(1), TWO_LEVELS).astype(dtype)
    source = cp.asarray(keys)
    got = kernels.sort_keys(source, descending=descending, algorithm="msd")
    assert_bits(got, expected_sorted(keys, descending))
    assert_bits(kernels.argsort(source, descending=descending), expected_positions(keys, descending))


#: 64-bit keys in a range of at most 2^32: the least key, and the size of the range.
CLOSE = {"2^24": (0, 1 << 24), "no power of two": (-5, 3_000_000_000), "at the end": ((1 << 63) - 1000, 1000)}


@pytest.mark.parametrize("outlier", [False, True])
@pytest.mark.parametrize("range_of_keys", CLOSE)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_wide_keys_of_a_small_range(cp: Any, dtype: str, range_of_keys: str, outlier: bool) -> None:
    least, count = CLOSE[range_of_keys]
    keys = least + np.random.default_rng(2).integers(0, count, TWO_LEVELS)
    if outlier:
        keys[1_234_567] = -(1 << 62)
    keys = keys.view(dtype)
    source, order = cp.asarray(keys), np.argsort(keys, kind="stable")
    assert_bits(kernels.sort_keys(source), keys[order])
    assert_bits(kernels.argsort(source), order)
    assert_bits(kernels.sorted_codes(source), kernels.encode(cp.asarray(keys[order])).get())
    assert_bits(kernels.sort_keys(source, out=source), keys[order])


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
            listed = np.random.default_rng(n).integers(0, n, 33) if n else np.empty(0, np.int64)
            every = np.minimum(np.arange(-(-n // 97) + 1) * 97, n - 1) if n else listed
            for ties_of, classes in ((None, codes), (keys.dtype, floors)):
                for positions, indices in ((97, every), (listed, listed)):
                    least, less, at_most = kernels.rank_samples(
                        cp.asarray(codes), positions, ties_of=ties_of, descending=descending
                    )
                    assert least.dtype == codes.dtype
                    np.testing.assert_array_equal(least, classes[indices])
                    np.testing.assert_array_equal(less, np.searchsorted(classes, least, "left"))
                    np.testing.assert_array_equal(at_most, np.searchsorted(classes, least, "right"))


def test_two_streams_at_once(cp: Any) -> None:
    keys = [make_keys("u4", LARGE, "random", seed) for seed in range(6)]
    device = [cp.asarray(k) for k in keys]
    cp.cuda.Device().synchronize()
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    outputs = []
    for i, array in enumerate(device):
        with streams[i % 2]:
            outputs.append(kernels.sort_keys(array))
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
    """Needs 90 GB of device memory."""
    cp.get_default_memory_pool().free_all_blocks()
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
