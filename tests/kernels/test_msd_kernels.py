"""MSD sorts on the host, with random thread orders, and on a GPU, against NumPy: every level, map and domain."""

from __future__ import annotations

import numpy as np
import pytest
from support import host_cuda
from support.gpu_checks import assert_bits, expected_positions, expected_sorted
from support.gpu_data import make_keys
from support.host_kernels import TWO_LEVELS, use_small_blocks
from support.marks import by_device, grid

from dask_gpusort import kernels
from dask_gpusort.kernels.buckets import counting, splitters
from dask_gpusort.kernels.keys.dtypes import Arrays, device_key
from dask_gpusort.kernels.launch.launch import Launch
from dask_gpusort.kernels.launch.loader import SOURCES
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.sorting import plain_elements

pytestmark = pytest.mark.slow

LARGE = (1 << 22) + 3


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_blocks(patch)
        for dtype in ("i8", "u8", "M8[s]"):
            record_sorts(recorder, dtype, algorithm="msd")
        for dtype in ("i8", "u8", "M8[s]"):
            recorder.record(kernels.sorted_codes, recorder.empty(TWO_LEVELS, dtype))
            recorder.record(kernels.encode, recorder.empty(9, dtype))
        record_sorts(recorder, "f8")
        for dtype in ("u4", "f4"):
            recorder.record(sample_splitters, recorder.empty(1 << 21, dtype))
        use_three_levels(patch)
        for dtype in ("i4", "f8"):
            record_sorts(recorder, dtype)


def record_sorts(recorder, dtype, **options):
    for function in (kernels.sort_keys, kernels.argsort):
        recorder.record(function, recorder.empty(TWO_LEVELS, dtype), **options)


def use_three_levels(patch, most=20_000, part=15_000):
    """Limits so small that a few more keys need three levels."""
    patch.setattr(tuning, "MOST_TWO_LEVELS", most)
    patch.setattr(tuning, "PART_KEYS", part)
    patch.setattr(tuning, "PARTITIONED_KEYS", {4: (0, most)})


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "low entropy"])
@pytest.mark.parametrize("call", ["keys", "positions"])
@by_device("dtype", ["i4", "f8"], ["u4", "f8"])
def test_more_than_two_levels(device, monkeypatch, dtype, call, kind):
    if device.is_small:
        use_small_blocks(monkeypatch)
        use_three_levels(monkeypatch)
    else:
        use_three_levels(monkeypatch, LARGE - 1, LARGE // 6)
        monkeypatch.setattr(tuning, "PARTITIONED_KEYS", {})
    keys = make_keys(dtype, TWO_LEVELS if device.is_small else LARGE, kind)
    if call == "positions":
        assert_bits(kernels.argsort(device.array(keys)), expected_positions(keys, False))
        return
    for algorithm in ("auto", *device.large("msd")):
        assert_bits(kernels.sort_keys(device.array(keys), algorithm=algorithm), expected_sorted(keys, False))
    array = device.array(keys)
    kernels.sort_keys(array, out=array)
    assert_bits(array, expected_sorted(keys, False))


def and_of(words, rng, n):
    return np.bitwise_and.reduce(rng.integers(0, 1 << 32, (words, n), dtype=np.uint64), axis=0).astype("u4")


SKEWED = {
    "uniform": (False, lambda rng, n: and_of(1, rng, n)),
    "and of 2": (True, lambda rng, n: and_of(2, rng, n)),
    "and of 6": (True, lambda rng, n: and_of(6, rng, n)),
    "and of 8": (True, lambda rng, n: and_of(8, rng, n)),
    "16 codes": (False, lambda rng, n: and_of(1, rng, 16)[rng.integers(0, 16, n)]),
    "16 codes of one byte": (True, lambda rng, n: rng.integers(0, 16, n)),
    "two far clusters of 1,000 codes": (
        True,
        lambda rng, n: rng.integers(0, 1000, n).astype("u8") | rng.integers(0, 2, n).astype("u8") << np.uint64(62),
    ),
    "30 codes that vary in most bytes": (
        False,
        lambda rng, n: rng.integers(0, 1 << 63, 30).astype("u8")[rng.integers(0, 30, n)],
    ),
    "100 codes": (False, lambda rng, n: and_of(1, rng, 100)[rng.integers(0, 100, n)]),
    "100 codes among many": (
        False,
        lambda rng, n: np.where(rng.random(n) < 0.5, and_of(1, rng, 100)[rng.integers(0, 100, n)], and_of(1, rng, n)),
    ),
}


def sample_splitters(keys, num_fine=1 << 16):
    """A splitter map of the keys, and the result of its balance test."""
    test = splitters.BalanceTest.of_array(keys.size, num_fine)
    return splitters.sample_splitters(plain_elements(device_key(keys.dtype)), keys, keys.size, num_fine, test)


@pytest.mark.parametrize("kind", SKEWED)
def test_balance_test_finds_skew(host, kind):
    wanted, make = SKEWED[kind]
    sampled = sample_splitters(host.array(make(np.random.default_rng(16), 1 << 21)))
    flags = splitters.MapFlags(*splitters.read_map_flags(sampled).wait())
    assert bool(flags.is_imbalanced) == wanted


DENSITIES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.standard_exponential(n),
}


@pytest.mark.parametrize(("kind", "dtype"), [("normal", "f4"), ("exponential", "f8")])
def test_buckets_of_a_smooth_density_are_balanced(host, kind, dtype):
    """Without smoothing, bucket sizes would vary by a twentieth, and by a fifth in the tails."""
    n, num_fine = 1 << 21, 1 << 16
    keys = DENSITIES[kind](np.random.default_rng(17), n).astype(dtype)
    elements = plain_elements(device_key(keys.dtype))
    sampled = splitters.sample_splitters(elements, host.array(keys), n, num_fine)
    by = counting.splitter_buckets(elements.domain, sampled, num_fine)
    # Many more keys than are sampled, so that the noise of the counts is small.
    many = DENSITIES[kind](np.random.default_rng(18), 4 * n).astype(dtype)
    counts = counting.count_fine(elements.source, host.array(many), 4 * n, by).table
    buckets = (
        counts.view(np.uint32)[:num_fine].reshape(-1, 16).sum(axis=1)[1:-1]
    )  # as large as the buckets of 2^28 keys
    by_chance = buckets.mean() ** -0.5
    assert (buckets / buckets.mean()).std() < 1.7 * by_chance
    assert buckets.max() < 1.25 * buckets.mean()


#: Counts keys of two buckets, in rounds as `FineCounter` does. A thread that is about to take an amount out of a
#: counter is held until every warp of the block is held or has ended.
HELD_COUNTS = """
#include "policy/sizes.cuh"
namespace gpusort {
constexpr unsigned kWarps = kFineCountThreads / 32;
__shared__ unsigned stopped, is_stopped[kWarps];

inline void stop() {
    if (!atomicExch(&is_stopped[threadIdx.x / 32], 1u)) atomicAdd(&stopped, 1u);
}
template <class Amount>
unsigned held(unsigned (*change)(unsigned*, Amount), unsigned* word, unsigned amount) {
    stop();
    while (*(volatile unsigned*)&stopped < kWarps) __nanosleep(1);
    return change(word, amount);
}
}
#define atomicSub(word, amount) held<unsigned>(atomicSub, word, amount)
#define atomicAnd(word, amount) held<unsigned>(atomicAnd, word, amount)
#include "buckets/count.cuh"
namespace gpusort {
__global__ void count_held(u64* table, u32 rounds, u32 is_mixed) {
    __shared__ u32 words[2];
    if (threadIdx.x < 2) words[threadIdx.x] = 0;
    if (threadIdx.x == 0) stopped = 0;
    if (threadIdx.x < kWarps) is_stopped[threadIdx.x] = 0;
    __syncthreads();
    PackedCounters counters{words, table, true};
    u32 buckets[kVectorBytes];
    for (int k = 0; k < kVectorBytes; ++k) buckets[k] = is_mixed ? k % 2 * 2 : 0;
    for (u32 round = 0; round < rounds; ++round) count_buckets(counters, buckets);
    stop();
    __syncthreads();
    counters.flush(4, kFineCountThreads);
}
}
"""


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("is_mixed", [False, True])
def test_counters_of_16_bits_are_right_where_threads_wait_before_they_spill(tmp_path, kernel_cache, is_mixed):
    source = tmp_path / "held.cu"
    source.write_text(HELD_COUNTS)
    device = host_cuda.HostDevice(SOURCES, kernel_cache)
    threads, rounds = tuning.COUNT_THREADS, 22
    keys = threads * rounds * 16
    for _ in range(3):
        table = device.array(np.zeros(4, np.uint64))
        device.launch(Launch(str(source), "count_held", 1, threads, (table, np.uint32(rounds), np.uint32(is_mixed))))
        expected = [keys // 2, 0, keys // 2, 0] if is_mixed else [keys, 0, 0, 0]
        np.testing.assert_array_equal(table, expected)


#: 64-bit keys in a range of at most 2^32: the least key, and the size of the range.
CLOSE = {
    "in the middle": (0, 1 << 24),
    "no power of two": (-5, 3_000_000_000),
    "at the end": ((1 << 63) - (1 << 31), 1 << 31),
    "nearly 2^32": (-(1 << 31), (1 << 32) - (1 << 28)),
    "few": ((1 << 63) - 1000, 1000),
}


@pytest.mark.parametrize(("dtype", "outlier"), grid(["i8", "u8", "M8[s]"], [False, True]))
@by_device("range_of_keys", list(CLOSE)[:4], CLOSE)
def test_wide_keys_of_a_small_range(device, monkeypatch, dtype, range_of_keys, outlier):
    """They are sorted by 32-bit codes, unless a key that was not sampled is outside the range."""
    if device.is_small:
        use_small_blocks(monkeypatch)
    least, count = CLOSE[range_of_keys]
    keys = least + np.random.default_rng(13).integers(0, count, TWO_LEVELS if device.is_small else (1 << 23) + 5)
    if outlier:
        keys[1234 if device.is_small else 1_234_567] = -(1 << 62)
    keys = keys.astype(dtype) if dtype != "u8" else keys.view("u8") ^ np.uint64(1 << 63)
    taken = []
    monkeypatch.setattr(Arrays, "narrowed", lambda *of, plain=Arrays.narrowed: taken.append(of) or plain(*of))
    source, order = device.array(keys), np.argsort(keys, kind="stable")
    assert_bits(kernels.sort_keys(source), keys[order])
    assert_bits(kernels.argsort(source), order)
    assert_bits(kernels.sorted_codes(source), kernels.encode(device.array(keys[order])).get())
    assert_bits(kernels.sort_keys(source, out=source), keys[order])
    assert len(taken) == (0 if outlier else 4) or not device.is_small
