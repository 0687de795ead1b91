"""Radix sorts of unsigned codes on one CPU core, built from NumPy calls.

NumPy's vectorised sort of plain words is 6 to 15 times faster than its stable
sort and its argsort. Every function here turns its work into sorts of words:

    codes     c0 c1 c2 ...                    (unsigned, any range)
    words     [high digit of c - least | position]      one u32 or u64 a key
    sort      words are distinct, so an unstable sort of them is a stable
              sort of the digits
    unpack    position = word & mask,  code = least + (word >> index_bits)

The digit is as wide as fits beside the position. Codes whose observed range
fits whole need nothing more. Of wider ones (say, 64-bit codes of random bits:
40 bits fit beside 2**24 positions) the high part is sorted, and keys whose
high parts tie are put in order by their low parts, group by group.

Codes are arrays of any number of dimensions, C-contiguous, sorted along the
last axis. Nothing here knows what a code means (`dask_gpusort.keys` does).

Figures in comments: one core of an EPYC 7003 (AVX2, 512 KiB level-2 cache),
NumPy 2.4, 2**24 keys, least of three runs, both sides in one process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["argmerge_runs", "argsort", "join_runs", "sort", "sort_with_positions"]

Array = np.ndarray[Any, np.dtype[Any]]

# Keys that one pass over memory handles at a time: operands and scratch of
# 2**14 words stay in the level-2 cache. Packing 2**24 keys takes 58 ms in
# blocks of 2**13 or 2**14, 72 ms of 2**12, 69 ms of 2**15, 114 ms whole.
_BLOCK = 1 << 14

# Keys that one block of the mending step starts from. Larger than _BLOCK, as
# it makes some ten NumPy calls a block, and mostly finds nothing to mend.
_MEND_BLOCK = 1 << 16

# Descents up to which a row counts as a few sorted runs side by side, which
# np.argsort(kind="stable") finds and merges. 2 / 4 / 8 equal runs of u8: 179 /
# 258 / 356 ms, words sorted afresh 427 / 635 / 533 ms; with unequal runs, such
# as a sorted row with a few strays, it takes no longer than a copy.
_FEW_DESCENTS = 7

# Keys up to which np.argsort(kind="stable") is done before a dozen NumPy calls
# have begun: 2**11 keys take it 41 us, words 66 us (u4) and 94 us (u8); 2**12
# keys 162 us, words 88 and 117 us.
_SMALL = 1 << 11

# Keys of a row up to which NumPy's insertion sort of it wins. 2**20 keys in
# rows of 4 / 16 / 64: words are 0.6 / 1.3 / 2 times as fast (u8), 0.9 / 1.5 /
# 3.8 (u4).
_SHORT_ROW = 8

# Keys of one counting step of 8- and 16-bit codes: np.bincount turns them to
# int64, 2 MiB here, and has 2**16 counters to clear for each step. 2**24
# 16-bit codes: 37 ms; in one step 61 ms; np.sort(kind="stable") 155 ms.
_COUNT_BLOCK = 1 << 18

# Runs up to which a merge (np.sort(kind="stable") finds the runs and merges
# them) beats a vectorised sort of their keys, by bytes a code. 2 / 4 / 8 runs
# of u4, merged: 102 / 161 / 219 ms, sorted: 115 / 111 / 114 ms; of u8, merged:
# 140 / 168 / 236 ms, sorted: 250 / 253 / 238 ms.
_MERGED_RUNS = {4: 2, 8: 4}

# Runs up to which merging the words of runs beats sorting them afresh, which
# saves the pass that cuts them. 2 / 16 / 64 runs of 2**20 u8: 1.9 / 1.2 / 1.2
# times faster; 256 / 1024 runs: 0.98 / 0.88 times.
_MERGED_WORD_RUNS = 64

# Runs that `argsort` finds and merges no slower than they are merged here. 2 / 4 / 8 runs of 2**21 u4: 0.95 / 1.11 /
# 1.81 times as fast as argsort, of u8 0.84 / 1.00 / 1.62 times (on an AVX-512 Xeon).
_FOUND_RUNS = 2

# Keys of a piece in which runs are sorted together. Pieces that fit the
# level-2 cache are best for few runs (16 runs of u8: 2**15 232 ms, 2**16 250,
# 2**18 277, 2**20 309, no pieces 379), but a piece costs a slice of every run,
# which a thousand keys a slice repay (1024 runs: 2**15 558 ms, 2**18 329,
# 2**20 295, no pieces 470).
_PIECE_KEYS = 1 << 15
_SLICE_KEYS = 1 << 10

# Samples a piece has of each run: pieces then differ by about a quarter.
_SAMPLES_PER_SLICE = 4


def sort(codes: Array) -> None:
    """Sort codes in place along the last axis.

    Parameters
    ----------
    codes : unsigned array, C-contiguous, any shape

    Notes
    -----
    8- and 16-bit codes in long rows are counted, those in short rows left to
    NumPy's radix sort; its vectorised sort needs AVX-512 for them.
    """
    rows = _rows(codes)
    if codes.dtype.itemsize > 2:
        rows.sort(axis=-1)
    elif rows.shape[-1] < _COUNT_BLOCK:
        rows.sort(axis=-1, kind="stable")
    else:
        for row in rows:
            _counting_sort(row)


def argsort(codes: Array) -> Array:
    """Give the positions that sort codes along the last axis, stably.

    Parameters
    ----------
    codes : unsigned array, C-contiguous, any shape
        Left as they are.

    Returns
    -------
    int64 array, same shape
        Positions within the last axis: what NumPy indexes with, uncast.
        Equal codes stay in input order.

    Notes
    -----
    Beside the result, which is built where the words were, at most two bytes a
    key are held, and the members of tied groups if high parts tie.

    Sorting the high part and mending beats two least-significant-digit
    passes, as the second of those gathers twice at random and sorts again:
    2**24 random 64-bit codes take 0.41 s, of which 0.03 s look for ties.

    8- and 16-bit codes are left to NumPy, whose stable argsort is a radix sort
    for them: words were 0.4 to 1.3 times as fast up to 2**22 keys.
    """
    rows = _rows(codes)
    ordered = _known_positions(rows)
    if ordered is None:
        words, index_bits, *_ = _sorted_words(rows)
        ordered = _unpack_positions(words, index_bits)
    return ordered.reshape(codes.shape)


def sort_with_positions(codes: Array) -> tuple[Array, Array]:
    """Sort codes along the last axis, stably, and tell where each came from.

    Parameters
    ----------
    codes : unsigned array, C-contiguous, any shape
        Left as they are.

    Returns
    -------
    sorted_codes : array, same shape and dtype
    positions : int64 array, same shape
        As `argsort` gives them.

    Notes
    -----
    Codes whose range fits beside the position are read off the sorted words;
    only wider ones are gathered.
    """
    rows = _rows(codes)
    positions = _known_positions(rows)
    if positions is not None:
        sorted_codes = _take(rows, positions)
    else:
        sorted_codes, positions = _unpack(rows, *_sorted_words(rows))
    return sorted_codes.reshape(codes.shape), positions.reshape(codes.shape)


def join_runs(runs: Sequence[Array]) -> Array:
    """Give the sorted keys of sorted runs, as new memory.

    Parameters
    ----------
    runs : sequence of 1-D arrays of one unsigned dtype, each sorted
        Left as they are. Need not lie side by side: the pass that puts them
        together is the one that a concatenation would make.

    Returns
    -------
    1-D array

    Raises
    ------
    ValueError
        If there are no runs, not even empty ones: their dtype is unknown.

    Notes
    -----
    The runs are cut at common splitters into pieces that fit the cache, and
    each piece is merged or sorted afresh, whichever is faster for that many
    runs.
    """
    if not runs:
        raise ValueError("no runs to join; pass at least one, which may be empty")
    filled = [run for run in runs if run.size]
    joined = np.empty(sum(run.size for run in filled), runs[0].dtype)
    if all(a[-1] <= b[0] for a, b in pairwise(filled)):
        return np.concatenate(runs, out=joined)
    if joined.dtype.itemsize <= 2:
        # Counting reads the keys once, in any order.
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
    """Give the positions that sort sorted runs side by side, stably.

    Parameters
    ----------
    codes : 1-D unsigned array, shape (n,)
        Left as they are.
    offsets : ints, shape (runs + 1,)
        Run i is ``codes[offsets[i]:offsets[i + 1]]``.

    Returns
    -------
    int64 array, shape (n,)
        As `argsort` gives them: equal codes stay in input order.

    Notes
    -----
    The words of a sorted run are sorted, so they are merged as keys are. Holds
    two words a key at its peak.
    """
    if codes.size == 0 or len(offsets) <= 2:
        return np.arange(codes.size, dtype=np.int64)
    if codes.dtype.itemsize <= 2 or codes.size <= _SMALL or len(offsets) - 1 <= _FOUND_RUNS:
        return argsort(codes)
    row = _rows(codes)
    if len(offsets) - 1 > _MERGED_WORD_RUNS:
        words, index_bits, *_ = _sorted_words(row)
    else:
        least, index_bits, dropped = _digit(row)
        packed: Array = _pack(row, least, index_bits, dropped)[0]
        words = join_runs(_split(packed, offsets)).reshape(1, -1)
        if dropped:
            _mend(row, words, least, index_bits, dropped)
    positions: Array = _unpack_positions(words, index_bits)[0]
    return positions


def _rows(codes: Array) -> Array:
    """View codes as (rows, keys a row)."""
    if codes.ndim == 0:
        raise ValueError("a 0-d array has no axis to sort along; give it one with reshape(1)")
    return codes.reshape(-1, codes.shape[-1]) if codes.size else codes.reshape(0, 0)


def _split(codes: Array, offsets: Sequence[int] | Array) -> list[Array]:
    bounds = np.asarray(offsets).tolist()
    return [codes[a:b] for a, b in pairwise(bounds)]


def _tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Yield (rows, columns) of about `_BLOCK` keys each, in memory order."""
    num_rows, num_keys = shape
    height = max(1, _BLOCK // max(num_keys, 1))
    for top in range(0, num_rows, height):
        for left in range(0, num_keys, _BLOCK):
            yield slice(top, top + height), slice(left, min(left + _BLOCK, num_keys))


def _counting_sort(row: Array) -> None:
    """Sort one row of 8- or 16-bit codes in place by their histogram."""
    radix = 1 << (8 * row.dtype.itemsize)
    counts = np.zeros(radix, np.int64)
    for start in range(0, row.size, _COUNT_BLOCK):
        counts += np.bincount(row[start : start + _COUNT_BLOCK], minlength=radix)
    row[...] = np.repeat(np.arange(radix, dtype=row.dtype), counts)


def _take(rows: Array, positions: Array) -> Array:
    if len(rows) == 1:
        # One index is gathered with at half the cost of a row and a column.
        taken: Array = rows[0].take(positions[0])
        return taken.reshape(rows.shape)
    return np.take_along_axis(rows, positions, axis=-1)


def _numpy_positions(rows: Array) -> Array:
    return np.argsort(rows, axis=-1, kind="stable").astype(np.int64, copy=False)


def _known_positions(rows: Array) -> Array | None:
    """Give the positions if they can be had faster than by words, else None.

    So they can for narrow codes, few keys, and rows that are in order already:
    a few runs or reversed. Each test ends at the first block that fails it, so it costs other input
    next to nothing. What passes it is what np.argsort(kind="stable") does in
    linear time too.
    """
    if rows.dtype.itemsize <= 2 or rows.size <= _SMALL or rows.shape[-1] <= _SHORT_ROW:
        return _numpy_positions(rows)
    num_keys = rows.shape[-1]
    descents = _few_descents(rows)
    if descents is not None and len(descents) == 0:
        positions = np.arange(num_keys, dtype=np.int64).reshape(1, -1)
        return positions if len(rows) == 1 else np.repeat(positions, len(rows), axis=0)
    if len(rows) == 1:
        if descents is not None:
            return _numpy_positions(rows)
        if _never(np.less_equal, rows[0]):
            return np.arange(num_keys - 1, -1, -1, dtype=np.int64).reshape(1, -1)
        if _never(np.less, rows[0]):
            return _reversed_positions(rows[0]).reshape(1, -1)
    return None


def _few_descents(rows: Array) -> Array | None:
    """Find keys greater than their successor: flat positions, or None if many."""
    num_keys = rows.shape[-1]
    found = [np.empty(0, np.int64)]
    count = 0
    for across, along in _tiles(rows.shape):
        stop = min(along.stop + 1, num_keys)
        tile = rows[across, along.start : stop]
        fallen = tile[:, :-1] > tile[:, 1:]
        if not fallen.any():
            continue
        falls = np.flatnonzero(fallen)
        count += falls.size
        if count > _FEW_DESCENTS:
            return None
        line, column = np.divmod(falls, tile.shape[-1] - 1)
        found.append((across.start + line) * num_keys + along.start + column)
    return np.concatenate(found)


def _never(compare: np.ufunc, row: Array) -> bool:
    """Tell that ``compare(key, successor)`` holds nowhere in a row."""
    for start in range(0, row.size, _BLOCK):
        part = row[start : start + _BLOCK + 1]
        if compare(part[:-1], part[1:]).any():
            return False
    return True


def _reversed_positions(row: Array) -> Array:
    """Stable positions of a row that never rises.

    They fall from n - 1 to 0, but rise within a group of equal keys: in the
    result, group [first, end) holds the positions n - end up to n - first - 1.
    """
    num_keys = row.size
    positions = np.arange(num_keys - 1, -1, -1, dtype=np.int64)
    tied = np.zeros(num_keys + 1, bool)  # tied[i]: key i - 1 equals key i
    np.equal(row[::-1][1:], row[::-1][:-1], out=tied[1:-1])
    if tied.any():
        first = np.flatnonzero(tied[1:] & ~tied[:-1])
        end = np.flatnonzero(tied[:-1] & ~tied[1:]) + 1
        lengths = end - first
        members = np.arange(lengths.sum(), dtype=np.int64)
        members += np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
        positions[members] = members + np.repeat(num_keys - end - first, lengths)
    return positions


def _digit(rows: Array) -> tuple[int, int, int]:
    """Choose the digit: (least code, bits of a position, low bits left out)."""
    least = int(rows.min())
    range_bits = (int(rows.max()) - least).bit_length()
    index_bits = (rows.shape[-1] - 1).bit_length()
    return least, index_bits, max(0, range_bits + index_bits - 64)


def _sorted_words(rows: Array) -> tuple[Array, int, int, int]:
    """Pack, sort and mend: (words, index_bits, least, dropped)."""
    least, index_bits, dropped = _digit(rows)
    words = _pack(rows, least, index_bits, dropped)
    words.sort(axis=-1)
    if dropped:
        _mend(rows, words, least, index_bits, dropped)
    return words, index_bits, least, dropped


def _pack(rows: Array, least: int, index_bits: int, dropped: int) -> Array:
    """Make the words ``(code - least) >> dropped << index_bits | position``.

    Returns
    -------
    uint32 or uint64 array, shape of `rows`
        The narrower if digit and position fit: it sorts twice as fast.
    """
    digit_bits = (int(rows.max()) - least).bit_length() - dropped
    word = np.dtype(np.uint32 if digit_bits + index_bits <= 32 else np.uint64)
    as_word = word.type
    low, shift = as_word(least & int(~as_word(0))), as_word(index_bits - dropped)
    high_part = ~as_word((1 << index_bits) - 1)
    positions = np.arange(rows.shape[-1] if len(rows) > 1 else min(rows.size, _BLOCK), dtype=word)
    words = np.empty(rows.shape, word)
    for across, along in _tiles(rows.shape):
        out = words[across, along]
        # A code fits the word, or its excess over the least does: modulo the
        # word's range the subtraction is right either way.
        out[...] = rows[across, along]
        out -= low
        out <<= shift
        if dropped:
            out &= high_part
        if len(rows) > 1:
            out += positions[along]
        else:
            out += positions[: out.shape[-1]] + as_word(along.start)
    return words


def _unpack_positions(words: Array, index_bits: int) -> Array:
    """Turn words into int64 positions, in the same memory if they are u64."""
    words &= words.dtype.type((1 << index_bits) - 1)
    return words.view(np.int64) if words.dtype.itemsize == 8 else words.astype(np.int64)


def _unpack(rows: Array, words: Array, index_bits: int, least: int, dropped: int) -> tuple[Array, Array]:
    """Turn sorted words into sorted codes and positions."""
    if dropped:
        positions = _unpack_positions(words, index_bits)
        return _take(rows, positions), positions
    codes = np.empty_like(rows)
    for across, along in _tiles(rows.shape):
        digits = words[across, along] >> words.dtype.type(index_bits)
        out = codes[across, along]
        out[...] = digits
        out += rows.dtype.type(least)
    return codes, _unpack_positions(words, index_bits)


def _mend(rows: Array, words: Array, least: int, index_bits: int, dropped: int) -> None:
    """Order keys whose words tie but for the position by the bits left out.

    Works on flat blocks that end where a group of ties ends. Within a block
    the tied keys are sorted, stably, by (group, low bits); as those take few
    bits, this is one pass more over the tied keys and no other.
    """
    num_keys = rows.shape[-1]
    flat_codes, flat = rows.reshape(-1), words.reshape(-1)
    mask = np.uint64((1 << index_bits) - 1)
    low_bits = np.uint64((1 << dropped) - 1)
    start = 0
    while start < flat.size:
        stop = min(start + _MEND_BLOCK, flat.size)
        row_end = -(-stop // num_keys) * num_keys
        stop += int(np.searchsorted(flat[stop:row_end], flat[stop - 1] | mask, side="right"))
        block = flat[start:stop]
        tied = (block[1:] ^ block[:-1]) <= mask
        tied[num_keys - 1 - start % num_keys :: num_keys] = False  # rows end there
        if tied.any():
            members: Array | slice = slice(None)
            groups: Array | None = None
            if not tied.all():
                members = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
                groups = np.cumsum(np.append(True, ~tied), dtype=np.uint64)[members]
            ours = block[members]
            sources = (ours & mask).view(np.int64)
            if len(rows) > 1:
                sources += np.arange(start, stop)[members] // num_keys * num_keys
            low = flat_codes[sources].astype(np.uint64)
            low -= np.uint64(least)
            low &= low_bits
            if groups is not None:
                low |= groups << np.uint64(dropped)
            if not (low[1:] >= low[:-1]).all():
                block[members] = ours[argsort(low)]
        start = stop


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
