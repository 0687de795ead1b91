"""The papers' sorts and the scan on the host, with random thread orders, and on a GPU, against NumPy.

Arrays are poisoned and have canaries on both sides.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_checks import assert_bits, assert_values, expected_sorted
from support.gpu_data import DTYPES, make_keys
from support.marks import only_gpu, only_host

from dask_gpusort.kernels.launch.launch import Launch, instance
from dask_gpusort.kernels.papers import count_scan_reorder, four_step, split
from dask_gpusort.kernels.papers.passes import THREADS, KeyValueArrays, keys_per_thread, sort_keys
from dask_gpusort.kernels.primitives import scan

ALGORITHMS = {"four_step": four_step, "split": split, "count_scan_reorder": count_scan_reorder}
#: Dtypes of keys and values. Every dtype of keys occurs with and without values.
PAIRS = [("u1", None), ("u1", "u8"), ("u2", None), ("u2", "u4"), ("u4", None), ("u4", "u4"), ("u8", None), ("u8", "u8")]
#: Dtypes that are sorted with every digit width.
WIDTHS_PAIR = ("u2", "u4")
TILES = {dtype: THREADS * keys_per_thread(np.dtype(dtype).itemsize) for dtype in ("u1", "u2", "u4", "u8")}
COUNT_BYTES = instance("count_sections", "u8", THREADS)


def calls(recorder):
    """Kernel calls of the tests of the papers' sorts."""
    for dtype, value in PAIRS:
        for module in ALGORITHMS.values():
            recorder.record(module.sort, *empty_columns(recorder.empty, dtype, value))
    for bits in four_step.RADIX_BITS:
        recorder.record(four_step.sort, *empty_columns(recorder.empty, *WIDTHS_PAIR), radix_bits=bits)
    recorder.record(scan.exclusive_scan, recorder.empty(scan.ONE_BLOCK_VALUES + 1, np.uint64))


def empty_columns(empty, key, value):
    return [KeyValueArrays(empty(1000, key), None if value is None else empty(1000, value))] * 2


def random_keys(rng, dtype, n, kind="uniform"):
    keys = rng.integers(0, np.iinfo(dtype).max, n, dtype=dtype, endpoint=True)
    if kind == "few":
        keys %= np.array(5, dtype)
    elif kind == "equal":
        keys[:] = keys[:1]
    elif kind == "descending":
        keys = np.sort(keys)[::-1].copy()
    return keys


def check_sort(sort, device, keys, value=None, given=True):
    """Sort keys with values of dtype `value`, given ones or positions, and compare with NumPy."""
    n = keys.size
    values = np.random.default_rng(n).permutation(n).astype(value) if value and given else None
    source = KeyValueArrays(device.array(keys), None if values is None else device.array(values))
    out = KeyValueArrays(device.empty(n, keys.dtype), None if value is None else device.empty(n, value))
    sort(source, out)
    positions = np.argsort(keys, kind="stable")
    assert_values(out.keys, keys[positions])
    if value:
        assert_values(out.values, positions if values is None else values[positions])
    assert_values(source.keys, keys)


@pytest.mark.parametrize("dtype", TILES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_around_the_tile(device, algorithm, dtype):
    rng, tile = np.random.default_rng(1), TILES[dtype]
    for n in (0, 1, 2, 31, 257, tile - 1, tile, tile + 1, 2 * tile + 1):
        check_sort(ALGORITHMS[algorithm].sort, device, random_keys(rng, dtype, n))


@pytest.mark.parametrize("kind", ["uniform", "few", "equal", "descending"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_any_distribution(device, algorithm, kind):
    rng = np.random.default_rng(2)
    for dtype, value in (("u1", "u8"), ("u2", "u4"), ("u4", "u4")):
        check_sort(ALGORITHMS[algorithm].sort, device, random_keys(rng, dtype, 5003, kind), value)


@pytest.mark.parametrize(("dtype", "value"), [pair for pair in PAIRS if pair[1]])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_stably_with_positions(device, algorithm, dtype, value):
    keys = random_keys(np.random.default_rng(3), dtype, TILES[dtype] + 1, "few")
    check_sort(ALGORITHMS[algorithm].sort, device, keys, value, given=False)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_in_many_orders_of_threads(device, algorithm):
    rng = np.random.default_rng(4)
    for _ in range(8):
        check_sort(ALGORITHMS[algorithm].sort, device, random_keys(rng, "u2", 2053, "few"), "u4")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_in_place(device, algorithm):
    keys = random_keys(np.random.default_rng(5), "u4", 3001)
    columns = KeyValueArrays(device.array(keys))
    ALGORITHMS[algorithm].sort(columns, columns)
    assert_values(columns.keys, np.sort(keys))


@pytest.mark.parametrize("radix_bits", four_step.RADIX_BITS)
def test_four_step_sorts_by_any_digit_width(device, radix_bits):
    def sort(source, out):
        four_step.sort(source, out, radix_bits=radix_bits)

    dtype, value = WIDTHS_PAIR
    check_sort(sort, device, random_keys(np.random.default_rng(6), dtype, 4099), value)


@only_gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_keys_of_every_dtype(device, algorithm, dtype):
    for n in (0, 1, 1_023, 1_025, 40_009):
        keys = make_keys(dtype, n, "special")
        found = device.array(keys)
        sort_keys(ALGORITHMS[algorithm].sort, found, found)
        assert_bits(found, expected_sorted(keys, False))


def test_invalid_arguments_raise(device):
    keys = KeyValueArrays(device.empty(3, "u4"))
    with pytest.raises(ValueError, match="radix_bits must be one of"):
        four_step.sort(keys, keys, radix_bits=3)
    for out in (device.empty(3, "u8"), device.empty(4, "u4")):
        with pytest.raises(ValueError, match="must be like"):
            split.sort(keys, KeyValueArrays(out))
    with pytest.raises(ValueError, match="as many as"):
        split.sort(keys, KeyValueArrays(device.empty(3, "u4"), device.empty(2, "u4")))
    with pytest.raises(ValueError, match="values in need values out"):
        split.sort(KeyValueArrays(keys.keys, device.empty(3, "u4")), keys)
    with pytest.raises(TypeError, match="unsigned"):
        count_scan_reorder.sort(KeyValueArrays(device.empty(3, "f4")), KeyValueArrays(device.empty(3, "f4")))


@pytest.mark.parametrize(
    "n", [1, 255, scan.TILE_VALUES - 1, scan.TILE_VALUES, scan.TILE_VALUES + 1, scan.ONE_BLOCK_VALUES + 1, 20011]
)
def test_scan_of_64_bit_counts(device, n):
    counts = np.random.default_rng(n).integers(0, 1 << 40, n, dtype=np.uint64)
    by_tiles, by_one_block = device.array(counts), device.array(counts)
    scan.exclusive_scan(by_tiles)
    scan.scan_in_one_block(by_one_block)
    assert_values(by_tiles, np.cumsum(counts) - counts)
    assert_values(by_one_block, by_tiles.get())


@only_host
@pytest.mark.parametrize("equal", [True, False])
def test_packed_counters_are_flushed_before_they_overflow(device, equal):
    n, section = 200_003, 140_000  # a thread counts 140,000 / 256 = 546 keys, so it flushes twice
    keys = np.random.default_rng(7).integers(0, 16, n, dtype=np.uint8)
    if equal:
        keys[:] = 15
    table = device.empty(32, np.uint64)
    arguments = (device.array(keys), np.uint64(n), np.uint64(section), np.int32(0), table)
    device.launch(Launch(count_scan_reorder.SOURCE, COUNT_BYTES, 2, THREADS, arguments))
    expected = [np.bincount(part, minlength=16) for part in (keys[:section], keys[section:])]
    np.testing.assert_array_equal(table.reshape(16, 2).T, expected)
