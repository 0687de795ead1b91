"""Row sorts on the host, with random thread orders, and on a GPU: both sides of every choice of strategy."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_checks import assert_bits, expected_positions, expected_sorted
from support.gpu_data import DISTRIBUTIONS, make_keys
from support.gpu_data import DTYPES as OF_GPUS
from support.host_kernels import BLOCK_SORT, BLOCK_SORT_KEYS, bits_of_keys, use_small_blocks
from support.marks import only_gpu

from dask_gpusort import kernels
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.kernels import sorting
from dask_gpusort.kernels.buckets import splitters
from dask_gpusort.kernels.keys.dtypes import device_key
from dask_gpusort.kernels.msd import row_partition
from dask_gpusort.kernels.policy import tuning

pytestmark = pytest.mark.slow

TILE = tuning.Tile(128, 8, 2, 16)
WIDE_TILE = tuning.Tile(128, 8, 2, 32)
WIDE_ROW = int(TILE.digits * BLOCK_SORT_KEYS * tuning.MOST_FILL) + 1
LONGEST = int(WIDE_TILE.digits * BLOCK_SORT_KEYS * tuning.MOST_FILL)  # for one partition
DTYPES = ["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8"]


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""

    def record(dtype, shapes, sort=sorting.sort_rows, **options):
        for shape in shapes:
            recorder.record(sort, recorder.empty(shape, dtype), **options)

    with pytest.MonkeyPatch.context() as patch:
        use_small_rows(patch)
        for dtype in DTYPES:
            record(dtype, ROW_SHAPES[2:3])
        record("u4", ROW_SHAPES)
        for dtype in ("i4", "f4", "f8"):
            record(dtype, ROW_SHAPES[:3])
        for dtype in ("u4", "i4", "f4", "f8"):
            record(dtype, ROW_SHAPES[:3], sorting.argsort_rows)
            record(dtype, ROW_SHAPES[:3], record_ranks)
        for dtype, count in (("f4", 1), ("f8", 3)):
            record(dtype, ROW_SHAPES[:count], descending=True)


def record_ranks(keys):
    ordered, at = sorting.sort_rows_with_positions(keys)
    for method in kernels.ROW_RANKINGS:
        kernels.rank_rows(ordered, at, method, keys.recorder.empty(keys.shape, "f8" if method == "average" else "i8"))


#: Rows for one block, for one partition, for the wider tile, and longer ones.
ROW_SHAPES = ((5, BLOCK_SORT_KEYS // 2), (9, BLOCK_SORT_KEYS), (3, 5003), (2, WIDE_ROW), (2, LONGEST + 1))


def use_small_rows(patch):
    """Blocks and tiles so small that short rows reach every strategy."""
    use_small_blocks(patch)
    patch.setattr(tuning, "ROW_PARTITION", dict.fromkeys(tuning.BLOCK_SORT, (TILE, WIDE_TILE)))
    patch.setattr(tuning, "LONGEST_UNIFORM_ROW", BLOCK_SORT_KEYS // 4)
    patch.setattr(tuning, "BLOCK_ROW", BLOCK_SORT_KEYS // 2)
    patch.setattr(tuning, "PARTITIONED_ROWS", 3 * BLOCK_SORT_KEYS)
    patch.setattr(tuning, "COUNT_ROW_KEYS", 5000)


@pytest.fixture
def host(host, monkeypatch):
    """The host, with small blocks and tiles."""
    use_small_rows(monkeypatch)
    return host


@pytest.fixture
def strategies(monkeypatch):
    """Names of the strategies that ran, in order."""
    taken = []

    def note(name):
        function = getattr(sorting, name)

        def call(*arguments, **options):
            result = function(*arguments, **options)
            taken.append(name if result is not False else f"{name}: declined")
            return result

        monkeypatch.setattr(sorting, name, call)

    for name in ("partition_rows", "run_block_sort", "partition_rows_recursively", "sort_plain"):
        note(name)
    return taken


def check_ranks(device, keys, ordered, positions, descending):
    """Sort with positions, and rank."""
    found, at = sorting.sort_rows_with_positions(device.array(keys), descending=descending)
    np.testing.assert_array_equal(found.get(), ordered)
    np.testing.assert_array_equal(at.get() % keys.shape[1], positions)
    for method in kernels.ROW_RANKINGS:
        ranks = device.empty(keys.shape, "f8" if method == "average" else "i8")
        kernels.rank_rows(found, at, method, ranks)
        wanted = numpy_ops.rank_keys(keys, method, ranks.dtype, descending)
        np.testing.assert_array_equal(ranks.get().reshape(-1), wanted)


def check_rows(device, keys, positions=True, descending=False):
    """Sort to another array, by positions, and in place."""
    source, out = device.array(keys), device.empty(keys.shape, keys.dtype)
    wanted = np.stack([expected_sorted(row, descending) for row in keys])
    sorting.sort_rows(source, descending=descending, out=out)
    assert_bits(out, wanted)
    assert_bits(source, keys)
    if positions:
        at = np.stack([expected_positions(row, descending) for row in keys])
        assert_bits(sorting.argsort_rows(source, descending=descending), at)
        check_ranks(device, keys, wanted, at, descending)
    sorting.sort_rows(source, descending=descending, out=source)
    assert_bits(source, wanted)


@pytest.mark.parametrize(
    ("shape", "strategy"),
    [
        ((5, BLOCK_SORT_KEYS // 2), "run_block_sort"),
        ((5, BLOCK_SORT_KEYS // 2 + 1), "run_block_sort"),  # few keys in total
        ((9, BLOCK_SORT_KEYS // 2 + 1), "partition_rows"),
        ((9, BLOCK_SORT_KEYS), "partition_rows"),
        ((1, BLOCK_SORT_KEYS + 1), "partition_rows"),
        ((2, WIDE_ROW), "partition_rows"),  # needs the wider tile
        ((2, LONGEST), "partition_rows"),
        ((2, LONGEST + 1), "sort_plain"),
    ],
    ids=str,
)
def test_strategy_by_shape(host, strategies, shape, strategy):
    keys = bits_of_keys(np.random.default_rng(1), "u4", shape, "random")
    np.testing.assert_array_equal(sorting.sort_rows(host.array(keys)), np.sort(keys))
    assert set(strategies) == {strategy}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 4001), (7, 3001), (3, 5003), (4, 4096)], ids=str)
def test_every_dtype(host, dtype, shape):
    check_rows(host, make_keys(dtype, shape[0] * shape[1], "random").reshape(shape), positions=False)


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "low entropy"])
@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_any_distribution(host, dtype, kind):
    for shape in ((20, 301), (1, BLOCK_SORT_KEYS), (3, 5003)):
        check_rows(host, make_keys(dtype, shape[0] * shape[1], kind).reshape(shape))


def test_uniform_keys_by_a_uniform_map(host, strategies):
    keys = np.random.default_rng(4).integers(0, 1 << 32, (5, 6001), dtype=np.uint32)
    check_rows(host, keys)
    assert set(strategies) == {"partition_rows"}


#: Floats for every path of a block sort: bins by value, bins by code, bins of a single code, and merges.
BLOCK_FLOATS = {
    "uniform": lambda rng, shape: rng.random(shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 4, shape),
    "whole": lambda rng, shape: rng.integers(-20, 20, shape),
    "powers": lambda rng, shape: np.ldexp(1.0, rng.integers(-30, 30, shape)),
    "powers and NaN": lambda rng, shape: np.where(
        rng.random(shape) < 0.1, np.nan, np.ldexp(1.0, rng.integers(-30, 30, shape))
    ),
    "one outlier": lambda rng, shape: np.where(np.arange(shape[1]) == 77, 1e9, rng.standard_normal(shape)),
    "clusters": lambda rng, shape: np.ldexp(1 + rng.random(shape) * 1e-5, rng.integers(0, 4, shape)),
    "zeros": lambda rng, shape: rng.choice([-0.0, 0.0, 1.0, -2.0], shape),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", BLOCK_FLOATS)
def test_floats_in_a_block(device, strategies, kind, dtype):
    lengths = [BLOCK_SORT_KEYS // 2 - 3, *device.large(1_153, 2_000, 4_096, 12_800, 16_384)]
    for shape in [(300 if length > BLOCK_SORT_KEYS else 3, length) for length in lengths]:
        keys = BLOCK_FLOATS[kind](np.random.default_rng(8), shape).astype(dtype)
        for descending in (False, True):
            check_rows(device, keys, positions=not descending, descending=descending)
    assert set(strategies) == {"run_block_sort"} or not device.is_small


@pytest.mark.parametrize("dtype", ["u4", "f4", "f8"])
def test_rows_with_different_ranges(host, strategies, dtype):
    """Row i is close to i. All keys together are uniform, but one map puts each row into one bucket."""
    num_rows = 8
    keys = (np.random.default_rng(5).random((num_rows, 5003)) + np.arange(num_rows)[:, None]) * 1000
    check_rows(host, keys.astype(dtype), positions=False)
    assert set(strategies) == {"partition_rows: declined", "partition_rows_recursively"}


def test_rows_with_different_ranges_that_fit_a_block(host, monkeypatch, strategies):
    """No row fits the smaller block; every row fits the larger one."""
    monkeypatch.setattr(
        tuning, "BLOCK_SORT", dict.fromkeys(tuning.BLOCK_SORT, (tuning.BlockSortShape(128, 9, 1024), BLOCK_SORT))
    )
    num_rows = 8
    keys = (np.random.default_rng(6).random((num_rows, 2003)) + np.arange(num_rows)[:, None]).astype("f4")
    check_rows(host, keys, positions=False)
    assert set(strategies) == {"partition_rows: declined", "run_block_sort"}


def test_a_few_rows_with_other_distributions(host, strategies):
    """Their buckets do not fit a block, so one more level sorts them."""
    keys = np.random.default_rng(7).random((12, 5003)).astype("f4")
    keys[3], keys[5], keys[7] = 0.25, keys[5] * 1e-3, np.sort(keys[7])[::-1]
    check_rows(host, keys)
    assert set(strategies) == {"partition_rows"}


def test_equal_rows(host, strategies):
    keys = np.full((4, 5003), 7, np.uint32)
    check_rows(host, keys)
    assert set(strategies) == {"partition_rows: declined", "partition_rows_recursively"}


@pytest.mark.parametrize("num_rows", [5, 6])
def test_rows_are_partitioned_in_batches(host, monkeypatch, strategies, num_rows):
    monkeypatch.setattr(tuning, "ROW_KEYS", 10_000)  # three rows
    keys = np.random.default_rng(8).random((num_rows, 3001))
    check_rows(host, keys)
    assert strategies == ["partition_rows"] * 8


@pytest.mark.parametrize("skip", [1, 2, 3])
def test_unaligned_rows(host, skip):
    """Rows do not start at a multiple of 16 bytes, the size of a vector."""
    for dtype in ("u1", "i2", "f4"):
        keys = bits_of_keys(np.random.default_rng(skip), dtype, 4 * 3001 + skip, "random")
        matrix = host.array(keys)[skip:].reshape(4, 3001)
        np.testing.assert_array_equal(sorting.sort_rows(matrix), np.sort(keys[skip:].reshape(4, 3001)))


def test_stable_rows(host):
    keys = np.random.default_rng(9).choice(np.array([0.0, -0.0, np.nan, -np.nan, 1.0, -2.0], "f4"), (3, 5003))
    wanted = np.take_along_axis(keys, np.argsort(keys, axis=-1, kind="stable"), axis=-1)
    got = sorting.sort_rows(host.array(keys), stable=True)
    np.testing.assert_array_equal(np.asarray(got).view("u4"), wanted.view("u4"))


def test_descending_rows(host):
    keys = np.random.default_rng(10).random((3, 5003))
    np.testing.assert_array_equal(sorting.sort_rows(host.array(keys), descending=True), np.sort(keys)[:, ::-1])


@pytest.mark.parametrize("parts_of", [512, 5000, 1 << 16])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8"])
def test_counts_and_their_scan(host, monkeypatch, dtype, parts_of):
    """Every key is counted once, in the row and digit to which the partition moves it."""
    monkeypatch.setattr(tuning, "COUNT_ROW_KEYS", parts_of)
    keys = bits_of_keys(np.random.default_rng(11), dtype, (7, 3001), "random")
    elements = sorting.row_elements(device_key(keys.dtype, False))
    partition = row_partition.plan_partition(elements, keys.shape[1])
    source = host.array(keys)
    sampled = row_partition.sample_rows(elements, source, partition)
    counts = row_partition.count_rows(elements, source, sampled, partition).reshape(len(keys), -1)
    np.testing.assert_array_equal(counts.sum(axis=1), keys.shape[1])
    for row, expected in zip(keys, counts, strict=True):
        # The map is monotone, so the counts cut the sorted row.
        cuts = np.cumsum(expected)[:-1]
        edges = np.sort(row)[np.clip(cuts, 1, row.size - 1)], np.sort(row)[np.clip(cuts, 1, row.size - 1) - 1]
        assert (edges[0] >= edges[1]).all()


@pytest.mark.parametrize("length", [BLOCK_SORT_KEYS + 1, 20_011, LONGEST])
@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_partitions_fit(host, dtype, length):
    partition = row_partition.plan_partition(sorting.row_elements(device_key(np.dtype(dtype), False)), length)
    assert partition.num_digits <= partition.tile.digits
    assert partition.num_digits << partition.fine_bits <= tuning.MAX_FINE
    assert length <= partition.num_buckets * BLOCK_SORT_KEYS * tuning.MOST_FILL
    tiles = -(-length // partition.tile.keys)
    assert tiles * partition.tile.keys - length < tiles * partition.tile.threads
    assert partition.shape is BLOCK_SORT


def test_balance_test_of_one_row_accepts_a_uniform_map(host):
    n, num_fine = 40_000, 64
    keys = host.array(np.random.default_rng(12).permutation(n).astype("u4") << np.uint32(10))
    elements = sorting.row_elements(device_key(np.dtype("u4"), False))
    test = splitters.BalanceTest(n, num_fine, 0, 0, 0)  # limits that make every bucket overfull
    sampled = splitters.sample_splitters(elements, keys, n, num_fine, test)
    found = splitters.MapFlags(*splitters.read_map_flags(sampled).wait())
    assert found.is_uniform
    assert not found.is_imbalanced


def test_public_names():
    assert kernels.sort_rows is sorting.sort_rows
    assert kernels.argsort_rows is sorting.argsort_rows


# What takes a GPU.

ROWS = [(1, 1), (7, 1), (300, 31), (100, 320), (40, 321), (30, 1152), (9, 5000), (3, 17408), (5, 30_000), (2, 200_003)]
TILES = {tile.keys for table in (tuning.PARTITION, tuning.LSD) for tile in table.values()}
#: Lengths that exceed a block: whole tiles, one key less and one more. Rows of odd length are unaligned.
TILE_ROWS = sorted({m * tile + d for tile in TILES for m in (4, 7) for d in (-1, 0, 1)})
LONG_ROWS = [(40, 12_289), (7, 16_384), (5, 25_601), (6, 100_003), (3, 1 << 18)]


@only_gpu
@pytest.mark.parametrize("distribution", ["random", "few"])
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8", "c8"])
def test_rows_of_any_length(device, dtype, distribution):
    for shape in ROWS:
        keys = make_keys(dtype, shape[0] * shape[1], distribution).reshape(shape)
        for descending in (False, True):
            check_rows(device, keys, descending=descending)


@only_gpu
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", OF_GPUS)
def test_long_rows(device, monkeypatch, dtype, distribution):
    monkeypatch.setattr(tuning, "PARTITIONED_ROWS", 0)
    for shape in LONG_ROWS:
        check_rows(device, make_keys(dtype, shape[0] * shape[1], distribution).reshape(shape))


@only_gpu
@pytest.mark.parametrize("dtype", ["u4", "f8"])
def test_rows_around_whole_tiles(device, monkeypatch, dtype):
    monkeypatch.setattr(tuning, "PARTITIONED_ROWS", 0)
    for length in TILE_ROWS:
        check_rows(device, make_keys(dtype, 5 * length, "random").reshape(5, length))


@only_gpu
@pytest.mark.parametrize("distribution", ["random", "few", "low entropy"])
@pytest.mark.parametrize("dtype", ["u1", "u4", "f4", "u8", "f8"])
def test_rows_with_more_digits_or_several_levels(device, dtype, distribution):
    for length in (1_179_649, 2_359_297, 4_915_201):
        check_rows(device, make_keys(dtype, 2 * length, distribution).reshape(2, length), positions=False)


@only_gpu
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_uniform_rows(device, monkeypatch, dtype):
    monkeypatch.setattr(tuning, "ROW_KEYS", 300_000)  # several batches
    keys = np.random.default_rng(1).random((9, 100_003))
    # All keys together are uniform, but no row is.
    for spread in (keys, keys * 1000 + np.arange(9)[:, None] * 1000, keys * np.linspace(0.5, 1.5, 9)[:, None]):
        check_rows(device, spread.astype(dtype))
    keys[4] = 0.25
    check_rows(device, keys.astype(dtype))


@only_gpu
def test_rows_of_different_distributions(device):
    check_rows(device, np.stack([make_keys("f8", 100_000, name) for name in DISTRIBUTIONS]))


@only_gpu
def test_many_rows_that_fit_a_block(device):
    keys = device.cupy.random.default_rng(1).random((1 << 11, 17_001), dtype=np.float32)
    assert keys.size >= tuning.PARTITIONED_ROWS
    assert_bits(kernels.sort_rows(keys), np.sort(keys.get()))


def test_ranks_of_rows_with_ties(device):
    for shape in ((3, 1000), (7, 128), (5, 129), (50, 33), (9, 1)):
        keys = np.random.default_rng(shape[1]).integers(0, shape[1], shape).astype("f4")
        keys[:, ::7] = np.nan
        keys[:, ::5] *= -0.0
        for descending in (False, True):
            at = np.stack([expected_positions(row, descending) for row in keys])
            check_ranks(device, keys, np.take_along_axis(keys, at, 1), at, descending)
