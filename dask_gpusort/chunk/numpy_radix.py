"""Radix sorts and merges of unsigned codes on one CPU core, built from NumPy calls.

NumPy's vectorised sort of plain words is 6 to 15 times faster than its stable sort and its argsort. So every function
here sorts words, ``[high digit of c - least | position]``. They are distinct, so an unstable sort of them is a stable
sort of the digits. A digit is as wide as fits beside the position. Of wider codes the high part is sorted, and keys
with equal high parts are ordered by their low parts, tie group by tie group.

Codes are C-contiguous arrays of any number of dimensions, sorted along the last axis. Figures in comments: one core of
an EPYC 7003 (AVX2, 512 KiB level-2 cache), NumPy 2.4, 2**24 keys, least of three runs, both sides in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from ..keys import BLOCK_KEYS
from .merge_choice import prefers_merge

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: Gives codes again, at some positions: then those of one row may be overwritten.
CodesAt: TypeAlias = Callable[[Array], Array]
# Keys in a block of the step that resolves ties. Each block
# takes several NumPy calls, even where no keys tie, so many small blocks cost
# more than the cache gains.
_TIE_BLOCK = 1 << 18
# Keys of one counting step of 8- and 16-bit codes: np.bincount converts them to
# int64, 2 MiB here, and clears 2**16 counters for each step. 2**24
# 16-bit codes: 37 ms; in one step 61 ms; np.sort(kind="stable") 155 ms.
_COUNT_BLOCK = 1 << 18
# Most keys for which np.argsort(kind="stable") costs less than the overhead of a
# dozen NumPy calls: 2**11 keys take it 41 us, words 66 us (u4) and 94 us (u8); 2**12
# keys 162 us, words 88 and 117 us.
SMALL = 1 << 11
# Keys of a row that are looked at before all are: so few that NumPy keeps the interpreter's
# lock, which many threads wait for longer than for a longer look.
_PROBED_KEYS = 400
# Longest row for which NumPy's insertion sort wins. 2**20 keys in
# rows of 4 / 16 / 64: words are 0.6 / 1.3 / 2 times as fast (u8), 0.9 / 1.5 /
# 3.8 (u4).
_SHORT_ROW = 8
# Longest row of 8- and 16-bit codes that are sorted as 32-bit words, which NumPy vectorises without AVX-512. In rows of
# 8 / 60 / 300, ns a key (Xeon, AVX2): u2 4.0 / 1.4 / 2.7, by radix 42 / 10 / 4.4; u1 4.0 / 1.3 / 2.5, 20 / 3.8 / 2.1.
WIDENED_ROW = 1 << 8
# Longest row for which NumPy's radix sort of 16-bit codes wins: it scatters positions of eight bytes. 2**18 / 2**20 /
# 2**22 keys of 2**16 values: words are 0.5 / 1.6 / 1.3 times as fast, of 1,000 values 1.4 / 2.1 / 2.1 (on an AVX-512
# Xeon).
_CACHED_ROW = 1 << 19
# Least average length of spans of equal codes that are moved as they are.
_LEAST_SPAN = 32
# Keys that are moved with one that is out of order: more than the runs that such keys have in a group of many chunks.
_REPAIRED_BLOCK = 1 << 10
# Shortest row that is searched for keys out of order: a dozen NumPy calls take longer than a shorter one is sorted.
_LEAST_REPAIRED = 1 << 16


def as_rows(codes: Array) -> Array:
    """View codes as (rows, keys a row)."""
    if codes.ndim == 0:
        raise ValueError("a 0-d array has no axis to sort along; give it one with reshape(1)")
    return codes.reshape(-1, codes.shape[-1]) if codes.size else codes.reshape(0, 0)


def tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Yield (rows, columns) of about `BLOCK_KEYS` keys each, in memory order."""
    num_rows, num_keys = shape
    height = max(1, BLOCK_KEYS // max(num_keys, 1))
    for top in range(0, num_rows, height):
        for left in range(0, num_keys, BLOCK_KEYS):
            yield slice(top, top + height), slice(left, min(left + BLOCK_KEYS, num_keys))


def pack(rows: Array, overwrite: bool = False) -> tuple[Array, int, int, int]:
    """Make the words ``(code - least) >> dropped << index_bits | position``; give words, index_bits, least, dropped."""
    # The narrower words, if digit and position fit, sort twice as fast.
    least = int(rows.min())
    range_bits, index_bits = (int(rows.max()) - least).bit_length(), (rows.shape[-1] - 1).bit_length()
    dropped = max(0, range_bits + index_bits - 64)
    word = np.dtype(np.uint32 if range_bits - dropped + index_bits <= 32 else np.uint64)
    as_word = word.type
    low, shift = as_word(least & int(~as_word(0))), as_word(index_bits - dropped)
    high_part = ~as_word((1 << index_bits) - 1)
    positions = np.arange(rows.shape[-1] if len(rows) > 1 else min(rows.size, BLOCK_KEYS), dtype=word)
    words = rows if overwrite and rows.dtype == word else np.empty(rows.shape, word)
    for across, along in tiles(rows.shape):
        out = words[across, along]
        # The code may exceed the word, but its difference from the least code
        # does not, and the subtraction is exact modulo the word's range.
        if rows.dtype == word:
            np.subtract(rows[across, along], low, out=out)
        else:
            out[...] = rows[across, along]
            out -= low
        out <<= shift
        if dropped:
            out &= high_part
        if len(rows) > 1:
            out += positions[along]
        else:
            out += positions[: out.shape[-1]] + as_word(along.start)
    return words, index_bits, least, dropped


def unpack_positions(words: Array, index_bits: int) -> Array:
    """Turn words into int64 positions, in the same memory if they are u64."""
    words &= words.dtype.type((1 << index_bits) - 1)
    return words.view(np.int64) if words.dtype.itemsize == 8 else words.astype(np.int64)


def unpack(rows: Array, words: Array, index_bits: int, least: int, dropped: int) -> tuple[Array, Array]:
    """Turn sorted words into sorted codes and positions."""
    if dropped:
        positions = unpack_positions(words, index_bits)
        return take(rows, positions), positions
    codes = np.empty_like(rows)
    for across, along in tiles(rows.shape):
        digits = words[across, along] >> words.dtype.type(index_bits)
        out = codes[across, along]
        out[...] = digits
        out += rows.dtype.type(least)
    return codes, unpack_positions(words, index_bits)


def take(rows: Array, positions: Array) -> Array:
    if len(rows) == 1:
        # A gather by one index costs half as much as one by row and column.
        taken: Array = rows[0].take(positions[0])
        return taken.reshape(rows.shape)
    return np.take_along_axis(rows, positions, axis=-1)


def sort(codes: Array) -> None:
    """Sort C-contiguous codes in place along the last axis."""
    # 8- and 16-bit codes are counted in long rows, sorted by NumPy's radix sort in shorter ones, and as words in short
    # ones; NumPy's vectorised sort needs AVX-512 for them.
    rows = as_rows(codes)
    if step := direction(rows, turns_ties=True):
        if step < 0:
            rows[...] = rows[:, ::-1]
    elif codes.dtype.itemsize > 2:
        _sort_words(rows)
    elif rows.shape[-1] <= WIDENED_ROW:
        for across, _ in tiles(rows.shape):
            words = rows[across].astype(f"{codes.dtype.kind}4")
            words.sort(axis=-1)
            rows[across] = words
    elif rows.shape[-1] < _COUNT_BLOCK:
        rows.sort(axis=-1, kind="stable")
    else:
        for row in rows:
            _counting_sort(row)


def argsort(codes: Array, again: CodesAt | None = None) -> Array:
    """Find the int64 positions within the last axis that sort C-contiguous codes, stably."""
    # The result is built in the memory of the words, which with `again` is that of 64-bit codes. Beyond it, at most two
    # bytes a key are held, and the members of tie groups if high parts tie. Sorting the high part and resolving ties
    # beats two least-significant-digit passes: the second pass gathers twice at random and sorts again. 2**24 random
    # 64-bit codes take 0.41 s, 0.03 s of it to look for ties. NumPy sorts 8- and 16-bit codes, because its stable
    # argsort is a radix sort for them: words were 0.4 to 1.3 times as fast up to 2**22 keys.
    rows = as_rows(codes)
    ordered = _known_positions(rows)
    if ordered is None:
        words, index_bits, *_ = sorted_words(rows, again)
        ordered = unpack_positions(words, index_bits)
    return ordered.reshape(codes.shape)


def sort_with_positions(codes: Array) -> tuple[Array, Array]:
    """Sort C-contiguous codes along the last axis, stably, with their positions as `argsort` gives them."""
    # Codes whose range fits beside the position are unpacked from the sorted words; only wider ones are gathered.
    rows = as_rows(codes)
    positions = _known_positions(rows)
    if positions is not None:
        sorted_codes = take(rows, positions)
    else:
        sorted_codes, positions = unpack(rows, *sorted_words(rows))
    return sorted_codes.reshape(codes.shape), positions.reshape(codes.shape)


def argsort_with_starts(codes: Array) -> tuple[Array, Array]:
    """Find the positions that sort codes of one dimension, and where another code begins, or all end: n + 1 flags."""
    positions = _known_positions(codes[None])
    if positions is not None:
        ordered, starts = codes.take(positions[0]), np.ones(len(codes) + 1, bool)
        np.not_equal(ordered[1:], ordered[:-1], out=starts[1:-1])
        return positions[0], starts
    words, index_bits, _, dropped = sorted_words(codes[None])
    starts = np.ones(len(codes) + 1, bool)
    for _, along in tiles(words.shape):
        part = words[0, along.start : along.stop + 1] >> words.dtype.type(index_bits)
        np.not_equal(part[1:], part[:-1], out=starts[along.start + 1 : along.start + len(part)])
    positions = unpack_positions(words, index_bits)[0]
    if dropped:
        tied = np.flatnonzero(~starts)  # in the digits
        starts[tied] = codes[positions[tied]] != codes[positions[tied - 1]]
    return positions, starts


def _known_positions(rows: Array) -> Array | None:
    """Find the positions without words: of few keys, rows in order or reversed, and narrow codes; else None."""
    narrow = rows.dtype.itemsize == 1 or (rows.dtype.itemsize == 2 and rows.shape[-1] <= _CACHED_ROW)
    if rows.size > SMALL and rows.shape[-1] > _SHORT_ROW:
        if step := direction(rows, turns_ties=False):
            positions = np.arange(rows.shape[-1], dtype=np.int64)[None, ::step]
            return np.ascontiguousarray(positions) if len(rows) == 1 else np.repeat(positions, len(rows), axis=0)
        if rows.dtype.itemsize <= 2 and len(rows) == 1 and (found := _positions_of_spans(rows[0])) is not None:
            return found[None]
        if not narrow or rows.shape[-1] <= WIDENED_ROW:
            return None
    return np.argsort(rows, axis=-1, kind="stable").astype(np.int64, copy=False)


def direction(rows: Array, *, turns_ties: bool) -> int:
    """Tell whether each row ascends, 1, descends, so that it may be turned, -1, or neither, 0."""
    # Of most rows that do neither, few keys are looked at.
    for step, follows in (1, np.less_equal), (-1, np.greater_equal if turns_ties else np.greater):
        parts = (rows[across, along.start : along.stop + 1] for across, along in tiles(rows.shape))
        if all(follows(part[:, :-1], part[:, 1:]).all() for part in chain([rows[:1, :_PROBED_KEYS]], parts)):
            return step
    return 0


def _counting_sort(row: Array) -> None:
    """Sort one row of 8- or 16-bit codes in place by their histogram."""
    radix = 1 << (8 * row.dtype.itemsize)
    counts = np.zeros(radix, np.int64)
    for start in range(0, row.size, _COUNT_BLOCK):
        counts += np.bincount(row[start : start + _COUNT_BLOCK], minlength=radix)
    row[...] = np.repeat(np.arange(radix, dtype=row.dtype), counts)


def _sort_words(rows: Array) -> None:
    """Sort each row in place."""
    if len(rows) > 1 or not repair(rows[0]):
        rows.sort(axis=-1)


def repair(row: Array) -> bool:
    """Sort a row in place if it is few runs, or in order but for some keys: by a merge; tell whether it was sorted."""
    step = len(row) // _PROBED_KEYS
    if len(row) < _LEAST_REPAIRED or np.count_nonzero(row[1::step] < row[:-1:step]) > _PROBED_KEYS // 8:
        return False
    descents = np.flatnonzero(row[1:] < row[:-1])
    if not prefers_merge(np.dtype(f"u{row.itemsize}"), len(descents) + 1):
        # Blocks with a descent are put last and sorted, if they are few and the others are in order.
        blocks = row[: len(row) // _REPAIRED_BLOCK * _REPAIRED_BLOCK].reshape(-1, _REPAIRED_BLOCK)
        leaves = np.zeros(len(blocks) + 1, bool)
        leaves[descents // _REPAIRED_BLOCK] = leaves[(descents + 1) // _REPAIRED_BLOCK] = True
        stays = ~leaves[:-1]
        first, last = blocks[stays, 0], blocks[stays, -1]
        if 4 * len(first) < 3 * len(blocks) or (first[1:] < last[:-1]).any():
            return False
        moved = np.concatenate([blocks[~stays].ravel(), row[blocks.size :]])
        moved.sort()
        row[: len(row) - len(moved)], row[len(row) - len(moved) :] = blocks[stays].ravel(), moved
    row.sort(kind="stable")
    return True


def sorted_words(rows: Array, again: CodesAt | None = None) -> tuple[Array, int, int, int]:
    """Pack, sort, resolve ties: (words, index_bits, least, dropped)."""
    words, index_bits, least, dropped = pack(rows, again is not None)
    _sort_words(words)
    if dropped:
        resolve_ties(again or rows.reshape(-1).take, words, least, index_bits, dropped)
    return words, index_bits, least, dropped


def resolve_ties(codes_at: CodesAt, words: Array, least: int, index_bits: int, dropped: int) -> None:
    """Order keys with equal digits by the low bits that their words lack."""
    # Works on flat blocks that end at the end of a tie group. Within a block the tied keys are sorted, stably, by
    # (group, low bits); as those take few bits, this is one more pass over the tied keys only.
    num_keys = words.shape[-1]
    flat = words.reshape(-1)
    mask = np.uint64((1 << index_bits) - 1)
    start = 0
    while start < flat.size:
        stop = min(start + _TIE_BLOCK, flat.size)
        row_end = -(-stop // num_keys) * num_keys
        stop += int(np.searchsorted(flat[stop:row_end], flat[stop - 1] | mask, side="right"))
        block = flat[start:stop]
        tied = (block[1:] ^ block[:-1]) <= mask
        tied[num_keys - 1 - start % num_keys :: num_keys] = False  # rows end there
        pairs = np.flatnonzero(tied)
        if len(pairs):
            members, groups = _tie_groups(pairs, len(block))
            sources = (block[members] & mask).view(np.int64)
            if len(words) > 1:
                sources += np.arange(start, stop)[members] // num_keys * num_keys
            low = _low_bits(codes_at(sources), least, dropped)
            if groups is not None:
                low |= groups << np.uint64(dropped)
            if not (low[1:] >= low[:-1]).all():
                block[members] = block[members][argsort(low)]
        start = stop


def _tie_groups(pairs: Array, count: int) -> tuple[Array | slice, Array | None]:
    """Give the tied keys of a block of `count` and their groups; all keys and None if there is one group."""
    # `pairs` are the positions of the keys that tie with the next one.
    if len(pairs) == count - 1:
        return slice(None), None
    # A group is a key with a pair, the keys of the pairs that follow without a gap, and one more.
    opens = np.append(True, pairs[1:] != pairs[:-1] + 1)
    group = np.cumsum(opens) - 1
    firsts = np.flatnonzero(opens)
    lasts = pairs[np.append(firsts[1:], len(pairs)) - 1] + 1
    members = np.insert(pairs, np.append(firsts[1:], len(pairs)), lasts)
    groups = np.insert(group, np.append(firsts[1:], len(pairs)), group[firsts])
    return members, groups.astype(np.uint64)


def _low_bits(codes: Array, least: int, dropped: int) -> Array:
    low: Array = codes.astype(np.uint64)
    low -= np.uint64(least)
    low &= np.uint64((1 << dropped) - 1)
    return low


def _positions_of_spans(codes: Array) -> Array | None:
    """Find the positions that sort codes stably if equal ones are neighbours in long spans, as in runs of few codes."""
    beginning = codes[:_PROBED_KEYS]
    if np.count_nonzero(beginning[1:] != beginning[:-1]) * _LEAST_SPAN > _PROBED_KEYS:
        return None
    ends = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    if len(ends) * _LEAST_SPAN > codes.size:
        return None
    starts = np.append(0, ends)
    order = np.argsort(codes[starts], kind="stable")
    lengths = np.diff(starts, append=codes.size)[order]
    positions = np.arange(codes.size)
    positions += np.repeat(starts[order] - (np.cumsum(lengths) - lengths), lengths)
    return positions
