"""Pair sorts on the host, with random thread orders, and on a GPU: positions, and values of every width."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support import oracle
from support.gpu_checks import assert_bits, expected_positions
from support.gpu_data import DISTRIBUTIONS, make_keys, random_bits, special_keys
from support.host_kernels import LSD_TILE, TWO_LEVELS, bits_of_keys, use_small_blocks
from support.marks import grid, only_gpu, only_host

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.kernels import pairs
from dask_gpusort.kernels.keys.dtypes import device_key, indexed_elements
from dask_gpusort.kernels.msd import early_values, partition
from dask_gpusort.kernels.msd.partition import StablePartition
from dask_gpusort.kernels.policy import tuning

pytestmark = pytest.mark.slow

#: Keys and directions of the default run.
DIAGONAL = ("u1", False), ("f4", True), ("c8", False)


def calls(recorder):
    """Kernel calls of the default run's tests, so that their kernels are compiled together."""

    def record_pairs(dtype, values, n=TWO_LEVELS, **options):
        recorder.record(kernels.sort_pairs, recorder.empty(n, dtype), recorder.empty(n, values), **options)

    with pytest.MonkeyPatch.context() as patch:
        record_sorts_of_many(recorder, record_pairs)
        patch.setattr(pairs, "INDEX_LIMIT", 4000)
        patch.setattr(pairs, "PART_KEYS", 1500)
        record_sorts_of_many(recorder, record_pairs)
    with pytest.MonkeyPatch.context() as patch:
        use_small_blocks(patch)
        patch.setattr(tuning, "LSD_PAIRS", 1)
        for values in ("u4", "f8"):
            record_pairs("i4", values, n=3 * LSD_TILE + 5)
    with pytest.MonkeyPatch.context() as patch:
        use_small_blocks(patch)
        for dtype in ("i4", "f4", "i8"):
            recorder.record(kernels.argsort, recorder.empty(TWO_LEVELS, dtype))
        patch.setattr(tuning, "EARLY_VALUES_PAIRS", {4: 1, 8: 1})
        for dtype in ("i4", "f4", "i8", "u8"):
            record_pairs(dtype, "i8")
        record_pairs("u4", "u4")
        # The others are all sorted with early values, so none is left to LSD passes.
        sort = early_values.sort_with_early_values
        patch.setattr(early_values, "sort_with_early_values", lambda *arguments: sort(*arguments) or True)
        for dtype, values in zip(("u4", "f8", "u4", "f8", "u4"), ("u1", "u2", "f4", "i8", "c16"), strict=True):
            record_pairs(dtype, values)
        for number, dtype in enumerate(("f4", "f8", "c8", "M8[ns]")):
            record_pairs(dtype, "u4", descending=number % 2 > 0)


def record_sorts_of_many(recorder, record_pairs):
    for dtype, descending in DIAGONAL:
        keys, options = recorder.empty(5003, dtype), {"descending": descending}
        recorder.record(kernels.argsort, keys, **options)
        recorder.record(kernels.argsort, keys, **options, out=recorder.empty(5003, "i8"))
        recorder.record(kernels.sort_with_positions, keys, **options)
        record_pairs(dtype, "u4", n=5003, **options)


@pytest.mark.parametrize(("dtype", "descending"), grid(["u1", "f4", "c8"], [False, True]))
def test_more_keys_than_32_bit_positions(host, monkeypatch, dtype, descending):
    """The keys are sorted in parts that are merged; the result is that of one sort."""
    some = [0, 1, 7, 9, 255] if dtype == "u1" else [0.0, -0.0, np.nan, -np.nan, 1, 2.5, -3, np.inf]
    keys = np.random.default_rng(19).choice(some, 5003).astype(dtype)
    source, values = host.array(keys), host.array(np.arange(5003, dtype=np.uint32))
    wanted = kernels.argsort(source, descending=descending)
    ordered, positions = kernels.sort_with_positions(source, descending=descending)
    monkeypatch.setattr(pairs, "INDEX_LIMIT", 4000)
    monkeypatch.setattr(pairs, "PART_KEYS", 1500)
    out = host.array(np.empty(5003, np.int64))
    np.testing.assert_array_equal(kernels.argsort(source, descending=descending), wanted)
    np.testing.assert_array_equal(kernels.argsort(source, descending=descending, out=out), wanted)
    np.testing.assert_array_equal(out, wanted)
    for found, moved in (
        kernels.sort_with_positions(source, descending=descending),
        kernels.sort_pairs(source, values, descending=descending),
    ):
        np.testing.assert_array_equal(found.view("u1"), ordered.view("u1"))
        np.testing.assert_array_equal(moved, positions)


@pytest.mark.parametrize("case", ["i4", "f4", "i8", "i8 with an outlier"])
def test_positions_of_keys_that_share_codes(host, monkeypatch, case):
    """A bucket holds some hundred distinct codes, each of several keys."""
    use_small_blocks(monkeypatch)
    keys = np.random.default_rng(15).integers(0, TWO_LEVELS // 8, TWO_LEVELS).astype(case[:2])
    if case[:2] == "f4":
        keys = np.float32(1) + np.spacing(np.float32(1)) * keys
    if "outlier" in case:
        keys[1234] = 1 << 62
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(kernels.argsort(host.array(keys)), order)
    monkeypatch.setattr(tuning, "EARLY_VALUES_PAIRS", {4: 1, 8: 1})
    keys_out, values_out = kernels.sort_pairs(host.array(keys), host.array(np.arange(TWO_LEVELS)))
    np.testing.assert_array_equal(keys_out, keys[order])
    np.testing.assert_array_equal(values_out, order)


@pytest.mark.parametrize("values_dtype", ["u4", "f8"])
def test_lsd_of_pairs(host, monkeypatch, values_dtype):
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(tuning, "LSD_PAIRS", 1)
    n = 3 * LSD_TILE + 5
    keys, values = bits_of_keys(np.random.default_rng(3), "i4", n, "few"), np.arange(n).astype(values_dtype)
    keys_out, values_out = kernels.sort_pairs(host.array(keys), host.array(values))
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(keys_out, keys[order])
    np.testing.assert_array_equal(values_out, values[order])


#: By width in bytes: dtypes and shapes of one value.
VALUES = {1: [("u1", ())], 2: [("u2", ())], 4: [("f4", ())], 8: [("i8", ()), ("u2", (4,))], 16: [("c16", ())]}


def assert_pairs(device, keys, values, descending=False):
    """Sort pairs and compare bit by bit with a stable sort; the oracle is slow for those of a GPU."""
    order = oracle.argsort(keys, descending=descending) if device.is_small else expected_positions(keys, descending)
    keys_out, values_out = device.empty(keys.shape, keys.dtype), device.empty(values.shape, values.dtype)
    given = device.array(keys), device.array(values)
    kernels.sort_pairs(*given, keys_out=keys_out, values_out=values_out, descending=descending)
    assert_bits(keys_out, keys[order])
    assert_bits(values_out, values[order])


@pytest.fixture
def early_outcomes(device, monkeypatch):
    """Early values for any number of pairs, in small blocks on the host. For each call, whether it sorted the pairs."""
    if device.is_small:
        use_small_blocks(monkeypatch)
    monkeypatch.setattr(tuning, "EARLY_VALUES_PAIRS", {4: 1, 8: 1})
    original, outcomes = early_values.sort_with_early_values, []

    def sort_with_early_values(*arguments):
        outcomes.append(original(*arguments))
        return outcomes[-1]

    monkeypatch.setattr(early_values, "sort_with_early_values", sort_with_early_values)
    return outcomes


@pytest.mark.parametrize("dtype", ["u4", "f8"])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_first_level_of_early_values(host, monkeypatch, dtype, extra):
    use_small_blocks(monkeypatch)
    rng, n = np.random.default_rng(11), TWO_LEVELS // LSD_TILE * LSD_TILE + extra
    keys = rng.standard_normal(n) if dtype == "f8" else bits_of_keys(rng, dtype, n, "random")
    key, source = device_key(keys.dtype), host.array(keys)
    elements = indexed_elements(key, "u32")
    buckets = early_values.map_pairs(source, key, elements, lambda: False)
    partition.describe_segments(elements, buckets)
    codes, positions = host.empty(n, key.code_dtype), host.empty(n, "u4")
    starts = buckets.tables["coarse_cursors"]
    StablePartition(key, "u32", buckets.digits(True), (source, None), (codes, positions), starts).run(n)
    np.testing.assert_array_equal(np.sort(positions), np.arange(n))
    np.testing.assert_array_equal(codes, codes_of.encode(keys)[positions])
    greatest = 0
    for begin, end in pairwise([*map(int, buckets.cursors), n]):
        assert (np.diff(positions[begin:end].astype("i8")) > 0).all()
        assert codes[begin:end].min(initial=greatest) == greatest
        greatest = int(codes[begin:end].max(initial=greatest))


@only_host
@pytest.mark.parametrize(("dtype", "width"), grid(["u4", "f8"], list(VALUES)))
def test_early_values_of_any_width(device, early_outcomes, dtype, width):
    rng = np.random.default_rng(width)
    for value_dtype, row in VALUES[width]:
        keys = bits_of_keys(rng, dtype, TWO_LEVELS, "random")
        values = rng.integers(0, 256, (TWO_LEVELS, width), dtype="u1").view(value_dtype).reshape(TWO_LEVELS, *row)
        assert_pairs(device, keys, values)
    assert early_outcomes == [True] * len(VALUES[width])


@only_host
@pytest.mark.parametrize("distribution", ["random", "few", "equal", "sorted", "reversed", "low entropy", "zipf"])
@pytest.mark.parametrize("dtype", ["i4", "f4", "u8"])
def test_early_values_of_any_distribution(device, early_outcomes, dtype, distribution):
    for n in (TWO_LEVELS // LSD_TILE * LSD_TILE + extra for extra in (0, 1, LSD_TILE - 1)):
        assert_pairs(device, make_keys(dtype, n, distribution), np.arange(n, dtype="u8"))
    assert len(early_outcomes) == 3
    assert all(early_outcomes) or distribution != "random"


@only_host
@pytest.mark.parametrize(("dtype", "descending"), grid(["f4", "f8", "c8", "M8[ns]"], [False, True]))
def test_early_values_keep_the_bits_of_tied_keys(device, early_outcomes, dtype, descending):
    rng = np.random.default_rng(13)
    if dtype == "M8[ns]":
        keys = rng.integers(-(1 << 63), 1 << 63, TWO_LEVELS).view(dtype)
        keys[:5] = "NaT"
    else:
        keys = rng.standard_normal(TWO_LEVELS).astype(dtype)
        keys[rng.integers(0, keys.size, 900)] = rng.choice(special_keys(np.dtype(dtype)), 900)
    assert_pairs(device, keys, np.arange(keys.size, dtype="u4"), descending=descending)
    assert early_outcomes == [True]


@only_host
def test_few_distinct_keys_are_left_to_lsd(device, early_outcomes):
    keys = np.repeat(np.arange(5, dtype="u4"), TWO_LEVELS // 5)[::-1].copy()
    assert_pairs(device, keys, np.arange(keys.size, dtype="u4"))
    assert early_outcomes == [False]


# What takes a GPU.

MANY = (1 << 23) + 5  # two levels of partition, for every dtype


@only_gpu
@pytest.mark.parametrize("values_dtype", ["u1", "i2", "f4", "u8", "c16"])
@pytest.mark.parametrize("dtype", ["i4", "u4", "f4", "i8", "u8", "f8", "c8"])
@pytest.mark.usefixtures("early_outcomes")
def test_many_early_values(device, dtype, values_dtype):
    values = random_bits(np.random.default_rng(5), np.dtype(values_dtype), MANY)
    assert_pairs(device, make_keys(dtype, MANY, "random"), values, descending=values_dtype == "i2")


@only_gpu
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["u4", "f4", "i8", "f8", "c8"])
@pytest.mark.usefixtures("early_outcomes")
def test_many_early_values_of_any_distribution(device, dtype, distribution):
    """Skewed keys may be left to LSD passes. The values show whether equal keys keep their order."""
    for descending in (False, True):
        assert_pairs(device, make_keys(dtype, MANY, distribution), np.arange(MANY, dtype="u8"), descending=descending)


@only_gpu
@pytest.mark.parametrize("distribution", ["random", "zipf"])
@pytest.mark.parametrize(("dtype", "values_dtype"), [("u4", "u4"), ("u8", "u8"), ("f8", "c16")])
@pytest.mark.usefixtures("early_outcomes")
def test_early_values_around_a_tile(device, dtype, values_dtype, distribution):
    tile = tuning.STABLE[np.dtype(dtype).itemsize, np.dtype(values_dtype).itemsize].keys
    for n in (MANY // tile * tile + extra for extra in (-1, 0, 1)):
        assert_pairs(device, make_keys(dtype, n, distribution), np.arange(n).astype(values_dtype))


@only_gpu
@pytest.mark.usefixtures("early_outcomes")
def test_early_values_that_are_rows(device):
    for width in (2, 3, 4):  # one access moves 2 or 4 values; 3 need several
        rows = random_bits(np.random.default_rng(6), np.dtype("u2"), width * MANY).reshape(MANY, width)
        assert_pairs(device, make_keys("u4", MANY, "random"), rows)
