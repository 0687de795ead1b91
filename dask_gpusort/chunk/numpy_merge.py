"""Merges of sorted runs of unsigned codes on one CPU core, built from NumPy calls.

Figures in comments: one core of an EPYC 7003 (AVX2, 512 KiB level-2 cache),
NumPy 2.4, 2**24 keys, least of three runs, both sides in one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from ..chunk import numpy_presorted
from .numpy_packing import Array, as_rows, digit_of, pack, unpack_positions
from .numpy_radix import argsort, resolve_ties, sort, sorted_words

# Most runs for which a merge (np.sort(kind="stable") finds the runs and merges
# them) beats a vectorised sort of their keys, by bytes a code. 2 / 4 / 8 runs
# of u4, merged: 102 / 161 / 219 ms, sorted: 115 / 111 / 114 ms; of u8, merged:
# 140 / 168 / 236 ms, sorted: 250 / 253 / 238 ms.
_MERGED_RUNS = {4: 2, 8: 4}

# Most runs for which merging the words of runs beats a fresh sort, which saves
# the pass that cuts them. 2 / 16 / 64 runs of 2**20 u8: 1.9 / 1.2 / 1.2
# times faster; 256 / 1024 runs: 0.98 / 0.88 times.
_MERGED_WORD_RUNS = 64

# Most runs that `argsort` finds and merges as fast as this file does. 2 / 4 / 8 runs of 2**21 u4: 0.95 / 1.11 /
# 1.81 times as fast as argsort, of u8 0.84 / 1.00 / 1.62 times (on an AVX-512 Xeon).
_FOUND_RUNS = 2

# Keys of a piece, the unit in which runs are sorted together. Pieces that fit
# the level-2 cache are best for few runs (16 runs of u8: 2**15 232 ms, 2**16 250,
# 2**18 277, 2**20 309, no pieces 379), but a piece costs a slice of every run,
# which pays from a thousand keys a slice on (1024 runs: 2**15 558 ms, 2**18 329,
# 2**20 295, no pieces 470).
_PIECE_KEYS = 1 << 15
_SLICE_KEYS = 1 << 10

# Samples a piece has of each run: pieces then differ by about a quarter.
_SAMPLES_PER_SLICE = 4


def join_runs(runs: Sequence[Array]) -> Array:
    """Merge sorted runs into new memory.

    Parameters
    ----------
    runs : sequence of 1-D arrays of one unsigned dtype, each sorted
        Not modified. They need not be contiguous: concatenating them is part
        of the merge.

    Returns
    -------
    1-D array

    Raises
    ------
    ValueError
        If there are no runs, not even empty ones: the dtype is unknown.

    Notes
    -----
    The runs are cut at common splitters into pieces that fit the cache. Each
    piece is merged or sorted afresh, whichever is faster for the number of runs.
    """
    if not runs:
        raise ValueError("no runs to join; pass at least one, which may be empty")
    filled = [run for run in runs if run.size]
    joined = np.empty(sum(run.size for run in filled), runs[0].dtype)
    if all(a[-1] <= b[0] for a, b in pairwise(filled)):
        return np.concatenate(runs, out=joined)
    if joined.dtype.itemsize <= 2:
        # A counting sort reads the keys once, in any order.
        sort(np.concatenate(runs, out=joined))
        return joined
    merged = len(filled) <= _MERGED_RUNS[joined.dtype.itemsize]
    start = 0
    for slices in _pieces(filled, joined.size):
        stop = start + sum(part.size for part in slices)
        piece = np.concatenate(slices, out=joined[start:stop])
        if merged:
            piece.sort(kind="stable")
        else:
            piece.sort()
        start = stop
    return joined


def argmerge_runs(codes: Array, offsets: Sequence[int] | Array) -> Array:
    """Positions that sort contiguous sorted runs, stably.

    Parameters
    ----------
    codes : 1-D unsigned array, shape (n,)
        Not modified.
    offsets : ints, shape (runs + 1,)
        Run i is ``codes[offsets[i]:offsets[i + 1]]``.

    Returns
    -------
    int64 array, shape (n,)
        As from `argsort`: equal codes stay in input order.

    Notes
    -----
    The words of a sorted run are sorted, so they are merged as keys are. Peak
    memory is two words a key.
    """
    if codes.size == 0 or len(offsets) <= 2:
        return np.arange(codes.size, dtype=np.int64)
    if codes.dtype.itemsize <= 2 or codes.size <= numpy_presorted.SMALL or len(offsets) - 1 <= _FOUND_RUNS:
        return argsort(codes)
    row = as_rows(codes)
    if len(offsets) - 1 > _MERGED_WORD_RUNS:
        words, index_bits, *_ = sorted_words(row)
    else:
        least, index_bits, dropped = digit_of(row)
        packed: Array = pack(row, least, index_bits, dropped)[0]
        words = join_runs(_split(packed, offsets)).reshape(1, -1)
        if dropped:
            resolve_ties(row, words, least, index_bits, dropped)
    positions: Array = unpack_positions(words, index_bits)[0]
    return positions


def _split(codes: Array, offsets: Sequence[int] | Array) -> list[Array]:
    bounds = np.asarray(offsets).tolist()
    return [codes[a:b] for a, b in pairwise(bounds)]


def _pieces(runs: list[Array], total: int) -> Iterator[list[Array]]:
    """Cut runs at common splitters: each piece is a slice of every run."""
    piece_keys = max(_PIECE_KEYS, _SLICE_KEYS * len(runs))
    if total <= 2 * piece_keys:
        yield runs
        return
    stride = max(1, piece_keys // (_SAMPLES_PER_SLICE * len(runs)))
    samples = np.sort(np.concatenate([run[stride // 2 :: stride] for run in runs]))
    every = piece_keys // stride
    splitters = samples[every::every]
    cuts = [[0, *run.searchsorted(splitters).tolist(), run.size] for run in runs]
    for i in range(len(splitters) + 1):
        yield [run[cut[i] : cut[i + 1]] for run, cut in zip(runs, cuts, strict=True)]
