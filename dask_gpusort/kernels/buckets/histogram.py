"""The quantile map of a sample, and the histogram of all keys over its fine buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.elements import Elements
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import count_bytes, multiprocessors

RANGE_BYTES, MAP_BYTES = 16, 96 + 4 * tuning.MAP_WORDS  # of SampleRange and SplitterMap
COUNTED_SCALES = 2  # of floats
SAMPLE_THREADS, MAP_THREADS = 256, 1024
NARROW_KEYS = 1 << 32  # from here on the counts of a table need 64 bits each


@dataclass(frozen=True)
class BalanceTest:
    """Which buckets a map is judged by, and when it is told uneven.

    Attributes
    ----------
    length : int
        Keys of a row: the buckets of each row are looked at by themselves.
    num_buckets : int
        Of all rows.
    fine_bits : int
        A bucket has 2^fine_bits fine buckets.
    full : float
        Times the mean, from which on a bucket is overfull.
    least : int
        Overfull buckets that there must be.
    """

    length: int
    num_buckets: int
    fine_bits: int
    full: float
    least: int


def whole_balance_test(n: int, num_fine: int) -> BalanceTest:
    """Of the fine buckets of a whole array."""
    return BalanceTest(n, num_fine, 0, tuning.FULL_SAMPLES, tuning.UNEVEN_BUCKETS)


def sample_splitters(elements: Elements, keys: Any, n: int, num_fine: int, judge: BalanceTest | None = None) -> Any:
    """The quantile map of a sample of the keys (device bytes of a `SplitterMap`), told uneven only by a judge."""
    cupy = require_cupy()
    num_samples = max(min(tuning.MAX_SAMPLES, n // tuning.SAMPLE_SHARE), 1)
    samples = cupy.empty(num_samples * elements.code_bytes, np.uint8)
    # By their codes, by their values, and in the intervals of intervals.
    tables = COUNTED_SCALES * tuning.INTERVAL_WORDS
    words = tables + tuning.INTERVAL_WORDS + RANGE_BYTES // 4 + (judge.num_buckets + 1 if judge else 0)
    cleared = cupy.zeros(words, np.uint32)
    interval_counts, sub_counts, key_range = cleared, cleared[tables:], cleared[tables + tuning.INTERVAL_WORDS :]
    befores = cupy.empty(tuning.INTERVAL_WORDS, np.uint32)
    splitters = cupy.empty(MAP_BYTES, np.uint8)
    count, fine = np.uint32(num_samples), np.uint32(num_fine)
    code, domain, blocks = elements.code_type, elements.domain, -(-num_samples // tuning.SAMPLES_PER_BLOCK)

    def run(name: str, blocks: int, threads: int, *arguments: Any) -> None:
        Launch("buckets/splitters.cu", name, blocks, threads, arguments).run()

    sample_blocks = -(-num_samples // SAMPLE_THREADS)
    first = keys, np.uint64(n), samples, count, key_range
    run(f"sample_codes<{elements.source}>", sample_blocks, SAMPLE_THREADS, *first)
    run(f"count_samples<{domain}>", blocks, MAP_THREADS, samples, count, key_range, interval_counts)
    run(f"build_map<{domain}>", 1, MAP_THREADS, interval_counts, count, fine, key_range, splitters, befores)
    run(f"count_subdivided<{code}>", blocks, MAP_THREADS, samples, count, splitters, sub_counts)
    run("share_subdivided", 1, MAP_THREADS, sub_counts, befores, count, fine, splitters)
    if judge:
        mean = num_samples / judge.num_buckets
        full = np.uint32(judge.full * mean + tuning.FULL_SIGMAS * mean**0.5)
        most, least = np.uint32(tuning.UNEVEN_SHARE * num_samples), np.uint32(judge.least)
        nearly_all = np.uint32(tuning.CROWDED_NEARLY_ALL * num_samples)
        skewed = nearly_all, np.uint32(tuning.CROWDED_BUCKETS), np.uint32(tuning.CROWDED_SPREAD)
        table = key_range[RANGE_BYTES // 4 :]
        buckets = np.uint64(n), np.uint64(judge.length), np.uint32(judge.fine_bits), np.uint32(judge.num_buckets)
        judged = table, table[judge.num_buckets :], full, most, least, *skewed
        run(f"check_balance<{domain}>", blocks, MAP_THREADS, samples, count, splitters, *buckets, *judged)
    return splitters


def count_blocks(n: int, num_buckets: int, map_words: int) -> tuple[int, int]:
    """Blocks of count_fine, and their shared memory in bytes."""
    shared = count_bytes(num_buckets, map_words)
    # One block a multiprocessor where the counters fill it, two where they do not.
    blocks = multiprocessors() * (2 if 2 * shared < tuning.COUNT_SHARED_BYTES else 1)
    return max(min(blocks, n // tuning.COUNT_KEYS_PER_BLOCK), 1), shared


def count_fine(
    source: str, buckets: str, map_words: int, keys: Any, n: int, splitters: Any, num_fine: int, counts: Any = None
) -> tuple[Any, bool]:
    """Keys of each fine bucket (device array), and whether they are 64 bits wide."""
    wide = n >= NARROW_KEYS
    if counts is None:
        counts = require_cupy().zeros(num_fine if wide else (num_fine + 1) // 2, np.uint64)
    blocks, shared = count_blocks(n, num_fine, map_words)
    Launch(
        "buckets/count.cu",
        f"count_fine<{source}, {buckets}>",
        blocks,
        tuning.COUNT_THREADS,
        (keys, np.uint64(n), splitters, counts, np.uint32(wide), np.uint32(num_fine)),
        shared,
    ).run()
    return counts, wide
