"""Selection: the keys at wanted ranks of unsorted chunks, from random samples and exact counts.

A sample is one random key of a stratum, some neighbouring keys of a chunk. Samples are independent of each other, so
Hoeffding's inequality bounds the error of every estimated rank for every distribution of keys. A bracket misses its
rank with a probability of at most `MISSES`; the counts reveal it.

Floyd, Rivest, Expected time bounds for selection, 1975.
Hoeffding, Probability inequalities for sums of bounded random variables, 1963, theorem 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .digits import IntArray, exclusive_scan

#: Probability that one of the brackets of a selection misses its rank. Then, as for a source that changed, an error is
#: raised. A hash collision of Dask's keys would give a wrong result in place of an error.
MISSES = 1e-15


#: The same where another sample is drawn after a miss, because all keys are at hand.
REPAIRED_MISSES = 1e-3
#: Fewest keys, and most of them inside brackets, for which brackets take less time than a sort where all keys are at
#: hand. A GPU sorts 2^20 keys in the time of a few launches.
_LEAST_SEARCHED, _MOST_INSIDE = 1 << 20, 0.25
#: Fewest samples of a bracket: fewer samples than brackets would leave all keys inside them.
_LEAST_SAMPLES = 64


@dataclass(frozen=True)
class Search:
    """Search for keys at ranks in one lane."""

    size: int  # keys in the lane without NaN
    nans: int
    ranks: IntArray  # shape (ranks,): wanted, ascending and distinct
    found: np.ndarray  # shape (ranks,): the keys at the ranks, where they are known
    unknown: IntArray  # shape (open,): numbers of the ranks that are still searched
    left: IntArray  # shape (open,): these ranks in the multiset that is left
    bracket: IntArray  # shape (open,): the bracket of each of them
    low: np.ndarray  # shape (brackets,): low ends of closed intervals of keys, ascending and disjoint
    high: np.ndarray  # shape (brackets,): their high ends


def strata(size: int, keys_per_stratum: float) -> int:
    """Count the strata of a chunk; the last one may end behind the chunk."""
    return math.ceil(size / keys_per_stratum)


def best_samples(size: float, brackets: int, misses: float = MISSES, runs: float = math.inf) -> float:
    """Count the samples that makes the keys inside brackets about as many as the samples; `runs` as `inside_share`."""
    best = (brackets * _relative_error(brackets, misses) * size) ** (2 / 3)
    if runs < best:
        best = math.sqrt(2 * brackets * _wrong_samples(runs, brackets, misses) * size)
    return float(min(max(best, _LEAST_SAMPLES * brackets), size))


def inside_share(samples: float, brackets: int, misses: float = MISSES, runs: float = math.inf) -> float:
    """Share of the keys that are inside brackets from so many samples; more than 1 if brackets overlap.

    Of keys in few sorted `runs` no sample is wrong, but for the stratum of each run that a rank is in.
    """
    # An end of a bracket is the next sample behind the wrong ones.
    return 2 * brackets * (_wrong_samples(min(samples, runs), brackets, misses) + 1) / samples


def stratum_of(size: int, brackets: int) -> int:
    """Keys of a stratum if all keys are at hand; 1 for a sort, if keys are few or most would be inside brackets."""
    samples = best_samples(max(size, 1), brackets, REPAIRED_MISSES)
    few = size < _LEAST_SEARCHED or inside_share(samples, brackets, REPAIRED_MISSES) > _MOST_INSIDE
    return 1 if few else int(size / samples)


def draw_positions(size: int, keys_per_stratum: float, random: Any) -> Any:
    """Random positions in a chunk, ascending: one drawn from each stratum, unless it is behind the end.

    `random` are random words of 64 bits, as many as there are strata.
    """
    # All strata have the same size in all chunks, so that all samples have the same weight.
    fraction = (random >> np.uint64(11)) * 2.0**-53
    drawn = (np.arange(len(random), like=random) + fraction) * keys_per_stratum
    # Only the last stratum may end behind the chunk.
    return drawn[: len(drawn) - bool(len(drawn) and drawn[-1] >= size)].astype(np.int64)


def begin(size: int, nans: int, ranks: IntArray, dtype: np.dtype) -> Search:
    """A search for keys at ranks (below `size`, ascending and distinct), without brackets."""
    none = np.empty(0, dtype)
    every = np.arange(len(ranks))
    return Search(size, nans, ranks, np.zeros(len(ranks), dtype), every, ranks, np.zeros(0, np.int64), none, none)


def sampled_ranks(search: Search, count: int, keys_per_stratum: float, misses: float = MISSES) -> IntArray:
    """Rank, among all samples, the ends of a bracket around each rank that is still searched, shape (2, open)."""
    # A bracket misses its rank with probability `misses`; ends that are no rank of a sample are no ends. `count` is the
    # number of strata of all chunks, or the number of chunks that are sorted. Ranks of single keys have no error.
    wrong = _wrong_samples(count, len(search.left), misses) if keys_per_stratum > 1 else 0.0
    error = keys_per_stratum * wrong
    # About `keys_per_stratum` times i keys are less than sample i, and that many of i + 1 are up to it.
    low = np.floor((search.left - error) / keys_per_stratum)
    high = np.ceil((search.left + 1 + error) / keys_per_stratum) - 1
    return np.stack([low, high]).astype(np.int64)


def enclose(search: Search, low: np.ndarray, high: np.ndarray) -> Search:
    """Give the search with brackets, from the ends for each rank that is still searched, both ascending."""
    bracket, low, high = _disjoint(low, high)
    return replace(search, bracket=bracket, low=low, high=high)


def least_and_most(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Give the first and the last key that a dtype can have, without NaN and NaT."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min, limits.max
    if dtype.kind in "mM":
        # The least integer is NaT.
        return tuple(np.array([np.iinfo(np.int64).min + 1, np.iinfo(np.int64).max]).view(dtype))
    if dtype.kind == "c":
        return complex(-math.inf, -math.inf), complex(math.inf, math.inf)
    return (False, True) if dtype.kind == "b" else (-math.inf, math.inf)


def _wrong_samples(count: float, brackets: int, misses: float) -> float:
    """Most assumed samples that are on the wrong side of a key, of so many that may be."""
    return min(count, math.sqrt(count) * _relative_error(brackets, misses))


def _relative_error(brackets: int, misses: float) -> float:
    """Give the error of an estimated rank, as a share of the keys, times the root of the number of samples."""
    return math.sqrt(math.log(4 * max(brackets, 1) / misses) / 2)


def _disjoint(low: np.ndarray, high: np.ndarray) -> tuple[IntArray, np.ndarray, np.ndarray]:
    """Disjoint intervals that cover given ones, both ends of which ascend, and the interval of each."""
    opens = np.ones(len(low), bool)
    opens[1:] = low[1:] > high[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first, len(low))[1:] - 1
    return np.cumsum(opens) - 1, low[first], high[last]


def resolve(search: Search, ends: NDArray[np.int64]) -> Search:
    """Find the ranks on ends of brackets; the other ones become ranks of the keys inside."""
    # `ends`, shape (4, brackets), counts keys of the multiset less than each low end, up to it, less than the high end
    # (no fewer), and up to it.
    counts, rank = ends[:, search.bracket], search.left
    if not ((counts[0] <= rank).all() and (rank < counts[3]).all()):
        raise LookupError("a bracket does not hold its rank")
    found = search.found.copy()
    on_low, on_high = rank < counts[1], rank >= counts[2]
    found[search.unknown[on_low]] = search.low[search.bracket[on_low]]
    found[search.unknown[on_high]] = search.high[search.bracket[on_high]]
    inside = ~(on_low | on_high)
    before = exclusive_scan(ends[2] - ends[1])[:-1] - ends[1]
    left = rank[inside] + before[search.bracket[inside]]
    none = search.found[:0]
    unknown = search.unknown[inside]
    return replace(search, found=found, unknown=unknown, left=left, bracket=unknown[:0], low=none, high=none)


def finish(search: Search, keys: np.ndarray) -> np.ndarray:
    """Give the keys at all wanted ranks, from the keys at the open ranks of the multiset that is left."""
    found = search.found.copy()
    found[search.unknown] = keys
    return found
