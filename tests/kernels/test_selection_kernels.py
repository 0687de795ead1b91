"""Selection on the host and on a GPU, against NumPy: counts and keys between bounds, and keys at ranks."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_data import DISTRIBUTIONS, make_keys, special_keys
from support.gpu_data import DTYPES as OF_GPUS
from support.host_cuda.launches import record_selection
from support.host_kernels import bits_of_keys
from support.marks import grid

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.kernels import selecting

pytestmark = pytest.mark.slow

DTYPES = ["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8", "M8[s]"]
LONG = 17_001  # u4: more than a block holds
LARGE = (1 << 24) + 3
#: Shapes of keys that a GPU alone selects from, for rows of all lengths.
ON_GPUS = (1009, 365), (61, 5003), (7, 65_537)


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""
    record_selection(recorder, DTYPES, (1, 129, 1500, LONG), (1, 5))
    record_selection(recorder, ("u1", "i2", "f4", "i8", "f8"), (), (2,))
    record_selection(recorder, ("f4",), (), (0, 16, 200, selecting.MOST_BRACKETS))
    for dtype in ("f4", "i8"):
        record_selection(recorder, (dtype,), [limit + more for limit in steps_of(dtype) for more in (0, 1)])


def draw(dtype, shape, kind, seed=0):
    """Keys of a dtype; those of random bits and the special ones contain NaN."""
    rng = np.random.default_rng([seed, *shape])
    dtype = np.dtype(dtype)
    if dtype.kind in "bfc" and kind == "special":
        return rng.choice(special_keys(dtype), shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if kind == "ties":  # most keys are equal
        some = bits_of_keys(rng, f"u{dtype.itemsize}", (3,), "random").view(dtype)
        return some[np.minimum(rng.geometric(0.9, shape) - 1, 2)]
    return bits_of_keys(rng, f"u{dtype.itemsize}", shape, "random").view(dtype)


def is_nan(keys):
    return np.isnat(keys) if keys.dtype.kind == "M" else np.isnan(keys) if keys.dtype.kind in "fc" else keys != keys


def encode(keys):
    return codes_of.encode(keys.ravel()).reshape(keys.shape)


def expected_extract(keys, low, high):
    """Counts at the ends (rows, 4, brackets), and the sorted codes strictly inside of each row."""

    def floor(codes):
        return codes_of.tie_floor(codes, keys.dtype)

    counts, found = np.empty((len(keys), 4, low.shape[1]), np.int64), []
    for row, of_row, ends in zip(np.sort(encode(keys)), counts, np.stack([low, high], 1), strict=True):
        floors = floor(row)
        of_row[:] = [np.searchsorted(floors, floor(end), side) for end in ends for side in ("left", "right")]
        of_row[2] = np.maximum(of_row[1], of_row[2])
        steps = np.zeros(row.size + 1, np.int64)
        np.add.at(steps, of_row[1], 1)
        np.add.at(steps, of_row[2], -1)
        found.append(row[np.cumsum(steps[:-1]) > 0])
    return counts, found


def check_extract(device, keys, low, high, capacity=None):
    source = keys if isinstance(keys, device.cupy.ndarray) else device.array(keys)
    keys = source.get()
    ends, inside = expected_extract(keys, low, high)
    most = max((len(row) for row in inside), default=0)
    got = kernels.extract([source], low, high, most if capacity is None else capacity)
    np.testing.assert_array_equal(got.ends, ends)
    np.testing.assert_array_equal(got.nans, is_nan(keys).sum(axis=1))
    np.testing.assert_array_equal(got.found, [len(row) for row in inside])
    assert got.inside.dtype == keys.dtype
    for row, found, wanted in zip(got.inside.get(), got.found, inside, strict=True):
        taken = np.sort(encode(row[: min(found, len(row))]))
        if found <= len(row):
            np.testing.assert_array_equal(taken, wanted)
        else:
            assert np.isin(taken, wanted).all()
    device.check()


def draw_brackets(keys, count, rng):
    """Brackets between keys of each row, some empty or without an inside, and ends that are no key."""
    codes = encode(keys)
    rows = []
    for row in codes:
        ends = rng.choice(row, (2, count)) if row.size else np.zeros((2, count), codes.dtype)
        ends = np.where(rng.random((2, count)) < 0.2, ends // 2, ends)
        rows.append(np.sort(ends.astype(codes.dtype), axis=0))
    found = np.array(rows, codes.dtype).reshape(len(codes), 2, count)
    return np.ascontiguousarray(found[:, 0]), np.ascontiguousarray(found[:, 1])


@pytest.mark.parametrize("kind", ["random", "ties", "special"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extract_of_every_dtype(device, dtype, kind):
    rng = np.random.default_rng(1)
    for num_rows, length in ((1, 4001), (3, 700)):
        keys = draw(dtype, (num_rows, length), kind)
        for count in (1, 5):
            check_extract(device, keys, *draw_brackets(keys, count, rng))


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 255, 256, 257, 4095, 4096, 4097])
def test_extract_of_every_length(device, length):
    rng = np.random.default_rng(length)
    for dtype in ("u1", "f8"):
        keys = draw(dtype, (2, length), "random")
        check_extract(device, keys, *draw_brackets(keys, 3, rng))
    keys = draw("u4", (0, length), "random")
    check_extract(device, keys, *draw_brackets(keys, 3, rng))


@pytest.mark.parametrize("skip", [1, 2, 3])
def test_extract_of_unaligned_keys(device, skip):
    rng = np.random.default_rng(skip)
    for dtype in ("u1", "i2", "f4"):
        keys = device.array(draw(dtype, (1, 3 * 501 + skip), "random").ravel())[skip:].reshape(3, 501)
        check_extract(device, keys, *draw_brackets(keys.get(), 2, rng))


@pytest.mark.parametrize("count", [0, 1, 16, 200, selecting.MOST_BRACKETS])
def test_any_number_of_brackets(device, count):
    """From a copy of each counter for every lane to one copy; without brackets NaN are counted alone."""
    keys = draw("f4", (1, 3001), "special")
    check_extract(device, keys, *draw_brackets(keys, count, np.random.default_rng(2)))


def test_everything_is_inside(device):
    """Buffers of warps are written many times."""
    keys = draw("u4", (2, 9001), "random")
    ends = np.zeros((2, 1), "u4"), np.full((2, 1), 2**32 - 1, "u4")
    check_extract(device, keys, *ends)
    keys[0, 5], keys[1, 7] = 0, 2**32 - 1
    check_extract(device, keys, *ends)


def test_more_keys_inside_than_the_capacity(device):
    keys = draw("u8", (2, 5001), "random")
    low, high = np.full((2, 1), 1 << 62, "u8"), np.full((2, 1), 3 << 62, "u8")
    for capacity in (0, 1, 1000):
        check_extract(device, keys, low, high, capacity)


def test_rows_are_cut_into_parts(device, monkeypatch):
    """More parts than blocks, of which one is empty: rows of 5 keys in parts of 2."""
    monkeypatch.setattr(selecting, "LEAST_PIECE", 2)
    monkeypatch.setattr(selecting, "EXTRACT_BLOCKS", 4)
    rng = np.random.default_rng(3)
    for shape in ((1, 5), (1, 9001), (3, 5), (7, 3)):
        keys = draw("i8", shape, "random")
        check_extract(device, keys, *draw_brackets(keys, 2, rng))
    monkeypatch.setattr(selecting, "MOST_PIECE", 100)
    keys = draw("i8", (2, 1501), "random")
    check_extract(device, keys, *draw_brackets(keys, 2, rng))


def test_rows_in_several_parts(device):
    """The keys of each row end to end, one part empty, are the keys of one matrix."""
    rng = np.random.default_rng(10)
    keys = draw("f4", (2, 5001), "special")
    low, high = draw_brackets(keys, 3, rng)
    ends, inside = expected_extract(keys, low, high)
    parts = [device.array(np.ascontiguousarray(part)) for part in np.split(keys, [7, 7, 3000], axis=1)]
    got = kernels.extract(parts, low, high, 5001)
    np.testing.assert_array_equal(got.ends, ends)
    np.testing.assert_array_equal(got.nans, is_nan(keys).sum(axis=1))
    for row, found, wanted in zip(got.inside.get(), got.found, inside, strict=True):
        np.testing.assert_array_equal(np.sort(encode(row[:found])), wanted)
    device.check()


@pytest.mark.parametrize("stratum", [1, 2, 7, 1000, 5001, 6000])
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8"])
def test_one_sample_of_each_stratum(device, dtype, stratum):
    """Strata may begin in one part and end in another; the keys are their own positions, as far as the dtype goes."""
    keys = np.arange(5001).astype(dtype)
    cuts = [0, 3, 3, 1700, 4000, 5001]
    parts = [device.array(keys[start:stop].copy()) for start, stop in zip(cuts, cuts[1:], strict=False)]
    sample = kernels.draw_samples(parts, stratum)
    assert (sample.dtype, len(sample)) == (keys.dtype, 5001 // stratum)
    for number, key in enumerate(sample.get()):
        assert key in keys[number * stratum : (number + 1) * stratum]
    if stratum == 1000 and dtype == "i8":
        offsets = sample.get() % stratum
        assert len(set(offsets.tolist())) == 5
    device.check()


@pytest.mark.parametrize("capacity", [0, 100, 70_000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_of_codes_in_an_interval(device, dtype, capacity):
    keys = draw(dtype, (70_001,), "random")
    codes = encode(keys)
    for low, high in (np.sort(codes[:2]).tolist(), [int(codes[0])] * 2, [0, np.iinfo(codes.dtype).max]):
        wanted = np.flatnonzero((codes >= low) & (codes <= high))
        found, positions = kernels.take_positions(device.array(keys), low, high, capacity)
        assert (found, positions.dtype, len(positions)) == (len(wanted), np.int64, min(len(wanted), capacity))
        positions = np.sort(positions.get())
        assert len(np.unique(positions)) == len(positions)
        assert np.isin(positions, wanted).all()
        device.check()


def check_select(device, keys, ranks, axis=1):
    source = keys if isinstance(keys, device.cupy.ndarray) else device.array(keys)
    keys = source.get()
    lanes = keys if axis == 1 else keys.T
    selected, nans = kernels.select_rows(source, ranks, axis)
    np.testing.assert_array_equal(nans.get(), is_nan(lanes).sum(axis=1))
    wanted = np.take_along_axis(np.sort(encode(np.ascontiguousarray(lanes)), axis=1), np.asarray(ranks), axis=1)
    assert selected.dtype == keys.dtype
    np.testing.assert_array_equal(encode(selected.get()), wanted)
    device.check()


def draw_ranks(rng, num_lanes, length, count=4):
    """Any ranks, then the first and last ones and two neighbours."""
    ranks = rng.integers(0, length, (num_lanes, count))
    middle = rng.integers(0, max(length - 1, 1), (num_lanes, 1))
    ends = np.broadcast_to([0, length - 1], (num_lanes, 2))
    return np.concatenate([ranks, ends, middle, np.minimum(middle + 1, length - 1)], axis=1)


@pytest.mark.parametrize(("dtype", "kind", "axis"), grid(DTYPES, ["random", "ties", "special"], [0, 1]))
def test_ranks_of_every_dtype(device, dtype, kind, axis):
    """Lanes that fit a warp, a block, and none."""
    rng = np.random.default_rng(4)
    for num_lanes, length in ((19, 129), (3, 1500), (2, LONG)):
        keys = draw(dtype, (num_lanes, length) if axis else (length, num_lanes), kind)
        check_select(device, keys, draw_ranks(rng, num_lanes, length), axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 127, 128, 129])
def test_ranks_in_short_lanes(device, length, axis):
    rng = np.random.default_rng(length)
    for num_lanes in (1, 7, 8, 9, 33, 65):
        keys = draw("f4", (num_lanes, length) if axis else (length, num_lanes), "random")
        check_select(device, keys, draw_ranks(rng, num_lanes, length), axis)


def steps_of(dtype):
    """Lengths at which another kernel selects."""
    for threads in (32, *selecting.BLOCK_THREADS):
        yield threads * selecting.HELD_BYTES // np.dtype(dtype).itemsize


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_ranks_at_the_limits_of_each_kernel(device, dtype, axis):
    rng = np.random.default_rng(5)
    for limit in steps_of(dtype):
        for length in (limit - 1, limit, limit + 1):
            keys = draw(dtype, (2, length) if axis else (length, 2), "random")
            check_select(device, keys, draw_ranks(rng, 2, length), axis)


LONG_ROWS = {
    "spread": lambda rng, n: rng.standard_normal(n),
    "most are equal": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, rng.random(n)),
    "two values": lambda rng, n: rng.choice([1.5, 2.5], n),
    "zeros of both signs and NaN": lambda rng, n: rng.choice([0.0, -0.0, np.nan, -np.nan], n),
    "close": lambda rng, n: 1 + rng.random(n) * 1e-6,
    "sorted": lambda rng, n: np.sort(rng.standard_normal(n)),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", LONG_ROWS)
def test_ranks_in_long_rows(device, kind, dtype):
    rng = np.random.default_rng(6)
    keys = np.stack([LONG_ROWS[kind](rng, 3 * LONG) for _ in range(2)]).astype(dtype)
    check_select(device, keys, draw_ranks(rng, 2, keys.shape[1]))


@pytest.mark.parametrize("count", [0, 1, selecting.MOST_RANKS, selecting.MOST_RANKS + 1, 3 * selecting.MOST_RANKS])
def test_any_number_of_ranks(device, count):
    rng = np.random.default_rng(7)
    for length in (100, LONG):
        for dtype in ("u4", "f8"):
            keys = draw(dtype, (2, length), "random")
            check_select(device, keys, rng.integers(0, length, (2, count)))


@pytest.mark.parametrize("skip", [1, 2, 3])
def test_ranks_in_unaligned_rows(device, skip):
    rng = np.random.default_rng(8)
    for length in (101, LONG):
        keys = device.array(draw("f4", (1, 2 * length + skip), "random").ravel())[skip:].reshape(2, length)
        check_select(device, keys, draw_ranks(rng, 2, length))


def test_columns_that_fit_no_tile(device, monkeypatch):
    monkeypatch.setattr(selecting, "shared_limit", lambda: 1000)
    keys = draw("f4", (129, 70), "random")
    check_select(device, keys, draw_ranks(np.random.default_rng(9), 70, 129), 0)


def test_no_lanes(device):
    for axis, shape in ((1, (0, 5)), (0, (5, 0)), (1, (0, LONG))):
        selected, nans = kernels.select_rows(device.array(np.zeros(shape, "f4")), np.zeros((0, 2), np.int64), axis)
        assert selected.shape == (0, 2)
        assert nans.shape == (0,)


def test_a_rank_past_the_end_is_the_last_one(device):
    for length in (100, 1500, LONG):
        keys = draw("u4", (1, length), "random")
        selected, _ = kernels.select_rows(device.array(keys), np.array([[length, -1, 1 << 40]]))
        np.testing.assert_array_equal(selected.get(), [[keys.max(), keys.min(), keys.max()]])


def test_errors(device):
    keys = device.array(np.zeros((3, 4), "f4"))
    ends, ranks = np.zeros((3, 1), "u4"), np.zeros((3, 1), np.int64)
    for wrong in (ends.astype("f4"), ends[:2], ends[0], np.zeros((3, 2), "u4")):
        with pytest.raises(ValueError, match=r"give uint32 of shape \(3, brackets\)"):
            kernels.extract([keys], ends, wrong, 10)
    with pytest.raises(ValueError, match="contiguous 1-dimensional array"):
        kernels.draw_samples([keys], 2)
    most = np.zeros((3, selecting.MOST_BRACKETS + 1), "u4")
    with pytest.raises(ValueError, match="give at most"):
        kernels.extract([keys], most, most, 10)
    for wrong in (ranks.astype("i4"), ranks[:2], ranks[0]):
        with pytest.raises(ValueError, match=r"give int64 of shape \(3, k\)"):
            kernels.select_rows(keys, wrong)
    with pytest.raises(ValueError, match="give 0 or 1"):
        kernels.select_rows(keys, ranks, 2)
    with pytest.raises(ValueError, match="lanes of 0 keys"):
        kernels.select_rows(device.array(np.zeros((3, 0), "f4")), ranks)
    with pytest.raises(TypeError, match="do not sort complex128"):
        kernels.select_rows(device.array(np.zeros((3, 4), "c16")), ranks)


# What takes a GPU.


@pytest.mark.gpu
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", OF_GPUS)
def test_many_keys_of_any_distribution(gpu, dtype, distribution):
    rng = np.random.default_rng(1)
    keys = make_keys(dtype, 3 * 1009 * 297, distribution)
    for shape, count in (((1, -1), 5), ((3, -1), 1), ((3 * 1009, -1), 2)):
        rows = keys.reshape(shape)
        check_extract(gpu, rows, *draw_brackets(rows, count, rng))
    for num_lanes, length in ON_GPUS:
        lanes = make_keys(dtype, num_lanes * length, distribution)
        for axis, shape in enumerate(((length, num_lanes), (num_lanes, length))):
            check_select(gpu, lanes.reshape(shape), draw_ranks(rng, num_lanes, length), axis)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_extract_of_many_keys(gpu, dtype):
    keys = make_keys(dtype, LARGE, "random").reshape(1, -1)
    for count in (1, 40, 250):
        check_extract(gpu, keys, *draw_brackets(keys, count, np.random.default_rng(2)))


@pytest.mark.gpu
@pytest.mark.parametrize("share", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_long_rows_of_mostly_one_key(gpu, dtype, share):
    """Candidates do not fit shared memory, so that every digit is counted."""
    rng = np.random.default_rng(1)
    keys = np.where(rng.random((20, 70_001)) < share, 0.0, rng.random((20, 70_001))).astype(dtype)
    check_select(gpu, keys, draw_ranks(rng, *keys.shape))


@pytest.mark.gpu
def test_many_short_lanes(gpu):
    rng = np.random.default_rng(1)
    for dtype, shape, axis in (("f4", (365, 1 << 12), 0), ("f4", (1 << 12, 365), 1), ("u2", (1 << 18, 5), 1)):
        check_select(
            gpu,
            make_keys(dtype, shape[0] * shape[1], "random").reshape(shape),
            draw_ranks(rng, shape[1 - axis], shape[axis]),
            axis,
        )


@pytest.mark.gpu
def test_any_number_of_ranks_of_many_lanes(gpu):
    rng = np.random.default_rng(1)
    for count in (0, 1, 12, 13, 50):
        for length in (365, 65_537):
            keys = make_keys("f8", 40 * length, "near").reshape(40, length)
            check_select(gpu, keys, rng.integers(0, length, (40, count)))


@pytest.mark.gpu
def test_extract_of_more_than_2_to_31_keys(cp):
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
