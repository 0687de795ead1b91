"""The CUDA kernels run on the CPU, in random orders of threads, against NumPy.

Arrays are poisoned and stand between canaries; every launch draws an order of its own.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from support import host_cuda, oracle
from support.host_cuda import HostDevice
from support.host_cuda.recorder import Recorder

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.kernels import pairs
from dask_gpusort.kernels.buckets import histogram, splitters
from dask_gpusort.kernels.keys.dtypes import device_key
from dask_gpusort.kernels.keys.elements import Arrays, indexed_elements
from dask_gpusort.kernels.launch.grid import instance
from dask_gpusort.kernels.launch.launch import Launch
from dask_gpusort.kernels.launch.loader import SOURCES
from dask_gpusort.kernels.msd import bucket_map, early_values
from dask_gpusort.kernels.msd.partition import StablePartition
from dask_gpusort.kernels.papers import count_scan_reorder, four_step, split
from dask_gpusort.kernels.papers.pair_arrays import THREADS, Columns, keys_per_thread
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.primitives import scan
from dask_gpusort.kernels.sorting import plain_elements

pytestmark = pytest.mark.skipif(host_cuda.compiler() is None, reason="no g++: kernels cannot be built for the host")

ALGORITHMS = {"four_step": four_step, "split": split, "count_scan_reorder": count_scan_reorder}
#: Each key with each width of values at least once.
PAIRS = [("u1", None), ("u1", "u8"), ("u2", None), ("u2", "u4"), ("u4", None), ("u4", "u4"), ("u8", None), ("u8", "u8")]
#: What is sorted by every digit width.
WIDTHS_PAIR = ("u2", "u4")
TILES = {dtype: THREADS * keys_per_thread(np.dtype(dtype).itemsize) for dtype in ("u1", "u2", "u4", "u8")}


def prepare(device, calls):
    """Compile every kernel that some calls ask for, two compilers at a time."""
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        recorder.take_place(patch)
        for call in calls:
            recorder.record(call, recorder.empty)
    names = defaultdict(list)
    for source, name in recorder.instances:
        names[source].append(name)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(device.prepare, names, names.values()))


COUNT_BYTES = instance("count_sections", "unsigned char", THREADS)


def papers_calls():
    """What the tests of the papers' sorts call."""
    for dtype, value in PAIRS:
        for module in ALGORITHMS.values():
            yield lambda empty, module=module, key=dtype, value=value: module.sort(*empty_columns(empty, key, value))
    for bits in four_step.RADIX_BITS:
        yield lambda empty, bits=bits: four_step.sort(*empty_columns(empty, *WIDTHS_PAIR), radix_bits=bits)
    yield lambda empty: scan.exclusive_scan(empty(scan.ONE_BLOCK_VALUES + 1, np.uint64))


def empty_columns(empty, key, value):
    return [Columns(empty(1000, key), None if value is None else empty(1000, value))] * 2


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    device = HostDevice(SOURCES, tmp_path_factory.mktemp("host_kernels"))
    prepare(device, papers_calls())
    return device


@pytest.fixture
def device(built, monkeypatch):
    """The host in the place of a GPU; looks at all canaries when the test is done."""
    built.take_place(monkeypatch)
    yield built
    built.check()


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
    """Sort keys, with values (of dtype `value`) that are given or positions, and compare with NumPy."""
    n = keys.size
    values = np.random.default_rng(n).permutation(n).astype(value) if value and given else None
    source = Columns(device.array(keys), None if values is None else device.array(values))
    out = Columns(device.empty(n, keys.dtype), None if value is None else device.empty(n, value))
    sort(source, out)
    positions = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(out.keys, keys[positions])
    if value:
        np.testing.assert_array_equal(out.values, positions if values is None else values[positions])
    np.testing.assert_array_equal(source.keys, keys)


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
def test_sorts_stably_along_with_positions(device, algorithm, dtype, value):
    keys = random_keys(np.random.default_rng(3), dtype, TILES[dtype] + 1, "few")
    check_sort(ALGORITHMS[algorithm].sort, device, keys, value, given=False)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_in_many_orders_of_threads(device, algorithm):
    rng = np.random.default_rng(4)
    for _ in range(8):
        check_sort(ALGORITHMS[algorithm].sort, device, random_keys(rng, "u2", 2053, "few"), "u4")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sorts_into_its_own_input(device, algorithm):
    keys = random_keys(np.random.default_rng(5), "u4", 3001)
    columns = Columns(device.array(keys))
    ALGORITHMS[algorithm].sort(columns, columns)
    np.testing.assert_array_equal(columns.keys, np.sort(keys))


@pytest.mark.parametrize("radix_bits", four_step.RADIX_BITS)
def test_four_step_sorts_by_any_digit_width(device, radix_bits):
    def sort(source, out):
        four_step.sort(source, out, radix_bits=radix_bits)

    dtype, value = WIDTHS_PAIR
    check_sort(sort, device, random_keys(np.random.default_rng(6), dtype, 4099), value)


def test_sorts_say_what_they_cannot_take(device):
    keys = Columns(device.empty(3, "u4"))
    with pytest.raises(ValueError, match="radix_bits must be one of"):
        four_step.sort(keys, keys, radix_bits=3)
    for out in (device.empty(3, "u8"), device.empty(4, "u4")):
        with pytest.raises(ValueError, match="must be like"):
            split.sort(keys, Columns(out))
    with pytest.raises(ValueError, match="as many as"):
        split.sort(keys, Columns(device.empty(3, "u4"), device.empty(2, "u4")))
    with pytest.raises(ValueError, match="values in need values out"):
        split.sort(Columns(keys.keys, device.empty(3, "u4")), keys)
    with pytest.raises(TypeError, match="unsigned"):
        count_scan_reorder.sort(Columns(device.empty(3, "f4")), Columns(device.empty(3, "f4")))


@pytest.mark.parametrize(
    "n", [1, 255, scan.TILE_VALUES - 1, scan.TILE_VALUES, scan.TILE_VALUES + 1, scan.ONE_BLOCK_VALUES + 1, 20011]
)
def test_scans_of_64_bit_counts(device, n):
    counts = np.random.default_rng(n).integers(0, 1 << 40, n, dtype=np.uint64)
    by_tiles, by_one_block = device.array(counts), device.array(counts)
    scan.exclusive_scan(by_tiles)
    scan.scan_in_one_block(by_one_block)
    np.testing.assert_array_equal(by_tiles, np.cumsum(counts) - counts)
    np.testing.assert_array_equal(by_one_block, by_tiles)


@pytest.mark.parametrize("equal", [True, False])
def test_packed_counters_are_flushed_before_they_overflow(device, equal):
    n, section = 200_003, 140_000  # a thread counts 140,000 / 256 = 546 keys of the first section, over two flushes
    keys = np.random.default_rng(7).integers(0, 16, n, dtype=np.uint8)
    if equal:
        keys[:] = 15
    table = device.empty(32, np.uint64)
    arguments = (device.array(keys), np.uint64(n), np.uint64(section), np.int32(0), table)
    device.launch(Launch(count_scan_reorder.SOURCE, COUNT_BYTES, 2, THREADS, arguments))
    expected = [np.bincount(part, minlength=16) for part in (keys[:section], keys[section:])]
    np.testing.assert_array_equal(table.reshape(16, 2).T, expected)


# The sorts that the package uses, with blocks so small that few keys take every way through them.

BLOCK_SORT = tuning.BlockSortShape(128, 17, 2048)  # the smallest whose overfull buckets are long enough to be sampled
BLOCK_SORT_KEYS = BLOCK_SORT.capacity
ONE_LEVEL_BUCKETS = 4  # more are found by two partitions, as are those of TWO_LEVELS keys


def use_small_blocks(patch):
    tile = tuning.Tile(128, 8, 2, 16)
    patch.setattr(
        tuning, "BLOCK_SORT", {shape: (BLOCK_SORT,) * len(blocks) for shape, blocks in tuning.BLOCK_SORT.items()}
    )
    patch.setattr(tuning, "MAIN_BLOCK_SORT", dict.fromkeys(tuning.BLOCK_SORT, 0))
    patch.setattr(tuning, "MAX_DIGITS", tile.digits)
    patch.setattr(tuning, "PARTITION", dict.fromkeys(tuning.PARTITION, tile))
    patch.setattr(tuning, "SMALL_PARTITIONS", (tuning.Tile(128, 8, 2, ONE_LEVEL_BUCKETS),))
    segment_tile = tuning.Tile(tuning.SEGMENT_THREADS, 4)
    patch.setattr(tuning, "SEGMENT_PARTITION", dict.fromkeys(tuning.SEGMENT_PARTITION, segment_tile))
    patch.setattr(tuning, "LSD", {widths: tuning.Tile(256, 4) for widths in tuning.LSD})
    patch.setattr(tuning, "STABLE", {widths: tuning.Tile(256, 4) for widths in tuning.STABLE})
    patch.setattr(tuning, "LSD_SMALL", {width: (tuning.Tile(256, 4),) * 2 for width in tuning.LSD_SMALL})
    patch.setattr(tuning, "LSD_SMALL_KEYS", {})
    patch.setattr(tuning, "PARTITIONED_KEYS", {})
    patch.setattr(tuning, "LSD_ALL_PASSES", 2 * LSD_TILE)


LSD_TILE = 256 * 4
TWO_LEVELS = 40_009
SORTED = "sort_keys", np.sort
POSITIONS = "argsort", lambda keys: np.argsort(keys, kind="stable")
#: Function, its NumPy twin, dtype, shapes, options.
SORTS = {
    "keys": (*SORTED, "f4", [0, 1, BLOCK_SORT_KEYS - 1, BLOCK_SORT_KEYS, BLOCK_SORT_KEYS + 1, TWO_LEVELS], {}),
    "positions": (*POSITIONS, "i4", [1, BLOCK_SORT_KEYS + 1, TWO_LEVELS], {}),
    "positions of 64 bits": (*POSITIONS, "f8", [1, BLOCK_SORT_KEYS + 1, TWO_LEVELS], {}),
    "narrow keys": (*SORTED, "i2", [1, 4093, TWO_LEVELS], {}),
    "stable passes": (*SORTED, "i4", [1, LSD_TILE - 1, LSD_TILE, LSD_TILE + 1, 5003], {"algorithm": "lsd"}),
    "stable passes of positions": (*POSITIONS, "u4", [1, LSD_TILE + 1, 5003], {"algorithm": "lsd"}),
}


def sorts_calls():
    for function, _, dtype, shapes, options in SORTS.values():
        for shape in shapes:
            yield lambda empty, f=function, s=shape, d=dtype, o=options: getattr(kernels, f)(empty(s, d), **o)


@pytest.fixture(scope="module")
def built_small(built):
    with pytest.MonkeyPatch.context() as patch:
        use_small_blocks(patch)
        prepare(built, sorts_calls())
    return built


def bits_of_keys(rng, dtype, shape, kind):
    """Random numbers of a dtype, of all exponents, without NaN."""
    dtype = np.dtype(dtype)
    octets = rng.integers(0, 256, (*np.atleast_1d(shape), dtype.itemsize), dtype=np.uint8)
    if kind == "clustered":  # at every scale: few bits are set
        octets &= rng.integers(0, 256, octets.shape, dtype=np.uint8) & rng.integers(
            0, 256, octets.shape, dtype=np.uint8
        )
    keys = octets.view(dtype)[..., 0]
    keys[keys != keys] = 1
    if kind == "few":
        keys = keys.ravel()[rng.integers(0, min(7, keys.size), keys.shape)] if keys.size else keys
    elif kind == "sorted":
        keys = np.sort(keys)
    return keys


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "clustered"])
@pytest.mark.parametrize("case", ["keys of 32 bits", "keys", "positions", "positions of 64 bits"])
def test_more_than_two_levels(device, monkeypatch, case, kind):
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(tuning, "MOST_TWO_LEVELS", 20_000)
    monkeypatch.setattr(tuning, "PART_KEYS", 15_000)
    monkeypatch.setattr(tuning, "PARTITIONED_KEYS", {4: (0, 20_000)})
    dtype = {"keys of 32 bits": "i4", "keys": "f8", "positions": "i4", "positions of 64 bits": "f8"}[case]
    function, twin = SORTED if "keys" in case else POSITIONS
    keys = bits_of_keys(np.random.default_rng(9), dtype, TWO_LEVELS, kind)
    np.testing.assert_array_equal(getattr(kernels, function)(device.array(keys)), twin(keys))
    if "keys" in case:
        place = device.array(keys)
        np.testing.assert_array_equal(kernels.sort_keys(place, out=place), twin(keys))


def and_of(words, rng, n):
    return np.bitwise_and.reduce(rng.integers(0, 1 << 32, (words, n), dtype=np.uint64), axis=0).astype("u4")


CROWDING = {
    "uniform": (False, lambda rng, n: and_of(1, rng, n)),
    "and of 2": (True, lambda rng, n: and_of(2, rng, n)),
    "and of 6": (True, lambda rng, n: and_of(6, rng, n)),
    "and of 8": (True, lambda rng, n: and_of(8, rng, n)),
    "16 codes": (False, lambda rng, n: and_of(1, rng, 16)[rng.integers(0, 16, n)]),
    "100 codes": (False, lambda rng, n: and_of(1, rng, 100)[rng.integers(0, 100, n)]),
    "100 codes among many": (
        False,
        lambda rng, n: np.where(rng.random(n) < 0.5, and_of(1, rng, 100)[rng.integers(0, 100, n)], and_of(1, rng, n)),
    ),
}


@pytest.mark.parametrize("kind", CROWDING)
def test_a_sample_tells_of_keys_that_crowd_at_every_scale(device, kind):
    n, num_fine = 1 << 21, 1 << 16
    wanted, make = CROWDING[kind]
    keys = make(np.random.default_rng(16), n)
    elements = plain_elements(device_key(keys.dtype))
    test = splitters.BalanceTest.of_array(n, num_fine)
    sampled = splitters.sample_splitters(elements, device.array(keys), n, num_fine, test)
    flags = splitters.MapFlags(*splitters.read_map_flags(sampled).wait())
    assert bool(flags.is_imbalanced) == wanted


DENSITIES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.standard_exponential(n),
}


@pytest.mark.parametrize(("kind", "dtype"), [("normal", "f4"), ("exponential", "f8")])
def test_buckets_of_a_smooth_density_come_out_even(device, kind, dtype):
    """Those of the sample itself would differ by a twentieth of their size, and by a fifth in the tails."""
    n, num_fine = 1 << 21, 1 << 16
    keys = DENSITIES[kind](np.random.default_rng(17), n).astype(dtype)
    elements = plain_elements(device_key(keys.dtype))
    sampled = splitters.sample_splitters(elements, device.array(keys), n, num_fine)
    by = histogram.splitter_buckets(elements.domain, sampled, num_fine)
    # Of many more keys than are sampled, so that theirs is not the noise that is looked at.
    many = DENSITIES[kind](np.random.default_rng(18), 4 * n).astype(dtype)
    counts = histogram.count_fine(elements.source, device.array(many), 4 * n, by).table
    buckets = counts.view(np.uint32)[:num_fine].reshape(-1, 16).sum(axis=1)[1:-1]  # as large as those of 2^28 keys
    by_chance = buckets.mean() ** -0.5
    assert (buckets / buckets.mean()).std() < 1.7 * by_chance
    assert buckets.max() < 1.25 * buckets.mean()


#: Keys of 64 bits within 2^32 of each other: how far from the least one of all, and how many.
CLOSE = {
    "in the middle": (0, 1 << 24),
    "no power of two": (0, 3_000_000_000),
    "at the end": ((1 << 63) - (1 << 31), 1 << 31),
    "nearly all": (-(1 << 31), (1 << 32) - (1 << 28)),
}


@pytest.mark.parametrize("stray", [False, True])
@pytest.mark.parametrize("place", CLOSE)
@pytest.mark.parametrize("dtype", ["i8", "u8", "M8[s]"])
def test_wide_keys_that_lie_close(device, monkeypatch, dtype, place, stray):
    """They travel by 32 bits, unless one that no sample has seen lies elsewhere."""
    use_small_blocks(monkeypatch)
    least, count = CLOSE[place]
    keys = least + np.random.default_rng(13).integers(0, count, TWO_LEVELS)
    if stray:
        keys[1234] = -(1 << 62)
    keys = keys.astype(dtype) if dtype != "u8" else keys.view("u8") ^ np.uint64(1 << 63)
    taken = []
    monkeypatch.setattr(Arrays, "narrowed", lambda *of, plain=Arrays.narrowed: taken.append(of) or plain(*of))
    source = device.array(keys)
    np.testing.assert_array_equal(kernels.sort_keys(source), np.sort(keys))
    np.testing.assert_array_equal(kernels.argsort(source), np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(kernels.sorted_codes(source), kernels.encode(device.array(np.sort(keys))))
    np.testing.assert_array_equal(kernels.sort_keys(source, out=source), np.sort(keys))
    assert len(taken) == (0 if stray else 4)


@pytest.mark.parametrize("case", ["i4", "f4", "i8", "i8 and a stray"])
def test_positions_of_keys_that_share_codes(device, monkeypatch, case):
    """A bucket holds some hundred codes of several keys each."""
    use_small_blocks(monkeypatch)
    keys = np.random.default_rng(15).integers(0, TWO_LEVELS // 8, TWO_LEVELS).astype(case[:2])
    if case[:2] == "f4":
        keys = np.float32(1) + np.spacing(np.float32(1)) * keys
    if "stray" in case:
        keys[1234] = 1 << 62
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(kernels.argsort(device.array(keys)), order)
    monkeypatch.setattr(tuning, "EARLY_VALUES_PAIRS", {4: 1, 8: 1})
    keys_out, values_out = kernels.sort_pairs(device.array(keys), device.array(np.arange(TWO_LEVELS)))
    np.testing.assert_array_equal(keys_out, keys[order])
    np.testing.assert_array_equal(values_out, order)


FLOATS = {
    "uniform": lambda rng: rng.random(TWO_LEVELS),
    "on both sides": lambda rng: rng.random(TWO_LEVELS) * 20 - 7,
    "normal": lambda rng: rng.standard_normal(TWO_LEVELS),
    "far from zero": lambda rng: 1000 + rng.random(TWO_LEVELS),
    "tiny": lambda rng: rng.random(TWO_LEVELS) * 1e-40,
    "huge": lambda rng: (rng.random(TWO_LEVELS) - 0.5) * 6e38,
    "some no numbers": lambda rng: np.where(rng.random(TWO_LEVELS) < 2e-4, np.nan, rng.random(TWO_LEVELS)),
    "many no numbers": lambda rng: np.where(rng.random(TWO_LEVELS) < 0.2, np.nan, rng.random(TWO_LEVELS)),
    "infinities": lambda rng: np.where(rng.random(TWO_LEVELS) < 2e-4, -np.inf, rng.random(TWO_LEVELS)),
    "zeros": lambda rng: np.where(rng.random(TWO_LEVELS) < 0.1, -0.0, rng.random(TWO_LEVELS) - 0.5),
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_are_mapped_by_value(device, monkeypatch, dtype, kind, descending):
    use_small_blocks(monkeypatch)
    keys = FLOATS[kind](np.random.default_rng(14)).astype(dtype)
    source = device.array(keys)
    wanted = np.sort(keys)
    if descending:
        number = wanted[wanted == wanted]
        wanted = np.concatenate([number[::-1], wanted[number.size :]])
    np.testing.assert_array_equal(kernels.sort_keys(source, descending=descending), wanted)
    np.testing.assert_array_equal(keys[kernels.argsort(source, descending=descending)], wanted)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "f4", "c8"])
def test_more_keys_than_positions_of_32_bits(device, monkeypatch, dtype, descending):
    """Sorted part by part, and merged: as in one go."""
    some = [0, 1, 7, 9, 255] if dtype == "u1" else [0.0, -0.0, np.nan, -np.nan, 1, 2.5, -3, np.inf]
    keys = np.random.default_rng(19).choice(some, 5003).astype(dtype)
    source, values = device.array(keys), device.array(np.arange(5003, dtype=np.uint32))
    wanted = kernels.argsort(source, descending=descending)
    ordered, positions = kernels.sort_with_positions(source, descending=descending)
    monkeypatch.setattr(pairs, "INDEX_LIMIT", 4000)
    monkeypatch.setattr(pairs, "PART_KEYS", 1500)
    out = device.array(np.empty(5003, np.int64))
    np.testing.assert_array_equal(kernels.argsort(source, descending=descending), wanted)
    np.testing.assert_array_equal(kernels.argsort(source, descending=descending, out=out), wanted)
    np.testing.assert_array_equal(out, wanted)
    for found, moved in (
        kernels.sort_with_positions(source, descending=descending),
        kernels.sort_pairs(source, values, descending=descending),
    ):
        np.testing.assert_array_equal(found.view("u1"), ordered.view("u1"))
        np.testing.assert_array_equal(moved, positions)


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "f8"])
@pytest.mark.parametrize("shared", range(3))
def test_stable_passes_in_place(device, monkeypatch, dtype, shared):
    use_small_blocks(monkeypatch)
    for n in (LSD_TILE + 3, 3 * LSD_TILE):
        keys = bits_of_keys(np.random.default_rng(n), dtype, n, "random")
        keys.view("u1").reshape(n, -1)[:, :shared] = 3
        place = device.array(keys)
        np.testing.assert_array_equal(kernels.sort_keys(place, out=place, algorithm="lsd"), np.sort(keys))


@pytest.mark.parametrize("values_dtype", ["u4", "f8"])
def test_values_that_travel_with_their_keys(device, monkeypatch, values_dtype):
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(tuning, "LSD_PAIRS", 1)
    n = 3 * LSD_TILE + 5
    keys, values = bits_of_keys(np.random.default_rng(3), "i4", n, "few"), np.arange(n).astype(values_dtype)
    keys_out, values_out = kernels.sort_pairs(device.array(keys), device.array(values))
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(keys_out, keys[order])
    np.testing.assert_array_equal(values_out, values[order])


#: By width: one value, and a row of values.
VALUES = {1: [("u1", ())], 2: [("u2", ())], 4: [("f4", ())], 8: [("i8", ()), ("u2", (4,))], 16: [("c16", ())]}


def special_keys(dtype):
    """Zeros and NaN of both signs; of a complex dtype in either part."""
    parts = np.array([0.0, -0.0, np.nan, -np.nan, 1.0, -2.0, np.inf])
    if np.dtype(dtype).kind != "c":
        return parts.astype(dtype)
    keys = np.empty((parts.size, parts.size), dtype)
    keys.real, keys.imag = parts[:, None], parts
    return keys.ravel()


def assert_pairs(device, keys, values, **options):
    """Sort and compare bit by bit; equal keys keep their order."""
    order = oracle.argsort(keys, **options)
    keys_out, values_out = kernels.sort_pairs(device.array(keys), device.array(values), **options)
    assert np.asarray(keys_out).tobytes() == keys[order].tobytes()
    assert np.asarray(values_out).tobytes() == values[order].tobytes()


@pytest.fixture
def moved(device, monkeypatch):
    """Small blocks, and values that move at the first level whatever their number; how often they did."""
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(tuning, "EARLY_VALUES_PAIRS", {4: 1, 8: 1})
    original, answers = early_values.sort_with_early_values, []

    def sort_with_early_values(*arguments):
        answers.append(original(*arguments))
        return answers[-1]

    monkeypatch.setattr(early_values, "sort_with_early_values", sort_with_early_values)
    return answers


@pytest.mark.parametrize("dtype", ["u4", "f8"])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_the_first_level_of_pairs(device, monkeypatch, dtype, extra):
    use_small_blocks(monkeypatch)
    rng, n = np.random.default_rng(11), TWO_LEVELS // LSD_TILE * LSD_TILE + extra
    keys = rng.standard_normal(n) if dtype == "f8" else bits_of_keys(rng, dtype, n, "random")
    key, source = device_key(keys.dtype), device.array(keys)
    elements = indexed_elements(key, "u32")
    buckets = early_values.map_pairs(source, key, elements)
    bucket_map.describe_segments(elements, buckets)
    codes, positions = device.empty(n, key.code_dtype), device.empty(n, "u4")
    starts = buckets.tables["coarse_cursors"]
    StablePartition(key, "u32", buckets.digits(True), (source, None), (codes, positions), starts).run(n)
    np.testing.assert_array_equal(np.sort(positions), np.arange(n))
    np.testing.assert_array_equal(codes, codes_of.encode(keys)[positions])
    greatest = 0
    for begin, end in pairwise([*map(int, buckets.cursors), n]):
        assert (np.diff(positions[begin:end].astype("i8")) > 0).all()
        assert codes[begin:end].min(initial=greatest) == greatest
        greatest = int(codes[begin:end].max(initial=greatest))


@pytest.mark.parametrize("width", VALUES)
@pytest.mark.parametrize("dtype", ["u4", "f8"])
def test_values_of_any_width_move_once(device, moved, dtype, width):
    rng = np.random.default_rng(width)
    for value_dtype, row in VALUES[width]:
        keys = bits_of_keys(rng, dtype, TWO_LEVELS, "random")
        values = rng.integers(0, 256, (TWO_LEVELS, width), dtype="u1").view(value_dtype).reshape(TWO_LEVELS, *row)
        assert_pairs(device, keys, values)
    assert moved == [True] * len(VALUES[width])


@pytest.mark.parametrize("kind", ["random", "few", "equal", "sorted", "clustered", "zipf"])
@pytest.mark.parametrize("dtype", ["i4", "f4", "u8"])
def test_values_move_once_whatever_the_keys(device, moved, dtype, kind):
    rng = np.random.default_rng(12)
    for n in (TWO_LEVELS // LSD_TILE * LSD_TILE + extra for extra in (0, 1, LSD_TILE - 1)):
        if kind == "equal":
            keys = np.full(n, 3, dtype)
        elif kind == "zipf":
            keys = np.minimum(rng.zipf(1.3, n), 10**6).astype(dtype)
        else:
            keys = bits_of_keys(rng, dtype, n, kind)
        assert_pairs(device, keys, np.arange(n, dtype="u8"))
    assert len(moved) == 3
    assert all(moved) or kind != "random"


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "M8[ns]"])
def test_tied_keys_of_moved_values_keep_their_bits(device, moved, dtype, descending):
    rng = np.random.default_rng(13)
    if dtype == "M8[ns]":
        keys = rng.integers(-(1 << 63), 1 << 63, TWO_LEVELS).view(dtype)
        keys[:5] = "NaT"
    else:
        keys = rng.standard_normal(TWO_LEVELS).astype(dtype)
        keys[rng.integers(0, keys.size, 900)] = rng.choice(special_keys(dtype), 900)
    assert_pairs(device, keys, np.arange(keys.size, dtype="u4"), descending=descending)
    assert moved == [True]


def test_keys_of_no_buckets_are_left_to_stable_passes(device, moved):
    keys = np.repeat(np.arange(5, dtype="u4"), TWO_LEVELS // 5)[::-1].copy()
    assert_pairs(device, keys, np.arange(keys.size, dtype="u4"))
    assert moved == [False]


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "clustered", "bytes"])
@pytest.mark.parametrize("dtype", ["i4", "f8"])
def test_small_arrays_in_one_launch(device, monkeypatch, dtype, kind):
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(tuning, "LSD_SMALL_KEYS", {4: (1, 1 << 20), 8: (1, 1 << 20)})
    for n in (BLOCK_SORT_KEYS + 1, 3 * LSD_TILE, 5003):
        keys = bits_of_keys(np.random.default_rng(n), dtype, n, "random" if kind == "bytes" else kind)
        if kind == "bytes":  # all passes but one have nothing to do
            keys.view("u1").reshape(n, -1)[:, :-1] = 1
        np.testing.assert_array_equal(kernels.sort_keys(device.array(keys)), np.sort(keys))
        place = device.array(keys)
        np.testing.assert_array_equal(kernels.sort_keys(place, out=place), np.sort(keys))


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "clustered"])
@pytest.mark.parametrize("case", SORTS)
def test_the_packages_sorts(built_small, device, monkeypatch, case, kind):
    function, twin, dtype, shapes, options = SORTS[case]
    use_small_blocks(monkeypatch)
    rng = np.random.default_rng(8)
    for shape in shapes:
        keys = bits_of_keys(rng, dtype, shape, kind)
        np.testing.assert_array_equal(getattr(kernels, function)(device.array(keys), **options), twin(keys))
