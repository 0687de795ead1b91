"""Sorts of keys of several unsigned columns on one CPU core, in as few radix sorts as the keys allow.

The columns of a chunk, words in transit or the columns of a string, are read as one long number. Each column is only as
wide as its range in this chunk, as the ranks of its values if these are few, or as its bits that are not the same in
all keys, which for digits in ASCII are four of eight::

    columns    [ 17..80: 6 bits | all 5: 0 bits | any: 64 bits | 0..3: 2 bits ]
    digits     [  6 bits + upper 58 of the third  ] [ lower 6 + 2 bits ]
    argsort      every key, one radix sort            only keys that tie in the first digit

So two 32-bit keys, a class beside a date, or many columns of few values take one radix sort of 64-bit codes. Random
wider keys mostly differ in the first digit, and few keys remain to sort by the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..keys import BLOCK_KEYS
from ..table import IntArray, Side
from . import numpy_radix
from .numpy_less import rank_by

WORD_BITS = 64
#: Most distinct values: their ranks are bytes, and a few tries find a multiplier without collisions.
MOST_VALUES = 256
#: Keys sampled first. If the sample has many values, as random keys do, the encoding is given up.
_SAMPLED_KEYS = 1 << 10
#: Bits of a slot number. The hash table has a byte in each slot and stays in the level-1 cache.
_HASH_BITS = 15
#: Multipliers to try: random odd numbers. One in three has no collisions among 256 random values, exp(-256**2 / 2**16),
#: so that all of them fail once in 10**12.
_MULTIPLIERS = np.random.default_rng(0).integers(1 << 62, 1 << 63, 64, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: A column of more bits than this is tested for few distinct values.
_WIDE_BITS = 16
#: A digit with more bits of one column than this takes no other column: if it is the whole column, it is not copied.
_WHOLE_BITS = 56
#: Bits that all keys have alike from which on they are left out.
_LEAST_ALIKE = 8
#: Least average size of groups of equal first words that are sorted one by one.
_LEAST_GROUP = 1 << 6
#: Keys in a block of the step that resolves ties: the numbers of its tie groups leave most of a word for the digit.
_TIED_KEYS = 1 << 18


def lay_out(bits: Sequence[int]) -> list[list[int]]:
    """Assign columns of at most 64 bits, most significant first, to words, at least one."""
    # No column is divided: small numbers in two words would have a wide range in both.
    words: list[list[int]] = [[]]
    used = 0
    for number, width in enumerate(bits):
        if used + width > WORD_BITS:
            words.append([])
            used = 0
        words[-1].append(number)
        used += width
    return words


def code_of(width: int) -> np.dtype[Any]:
    """Give the narrowest unsigned dtype of at least `width` bits."""
    return np.dtype(next(f"u{size}" for size in (1, 2, 4, 8) if 8 * size >= width))


def pack(columns: Sequence[Any], bits: Sequence[int]) -> Any:
    """Pack columns, most significant first, into codes, or into C-contiguous uint64 words if they exceed 64 bits."""
    layout = lay_out(bits)
    if len(layout) == 1:
        return _join(columns, bits, code_of(sum(bits)))
    words = np.empty_like(columns[0], shape=(len(columns[0]), len(layout)), dtype=np.uint64, order="C")
    for word, numbers in enumerate(layout):
        mine = [columns[number] for number in numbers], [bits[number] for number in numbers]
        words[:, word] = _join(*mine, np.dtype(np.uint64))
    return words


def _join(columns: Sequence[Any], bits: Sequence[int], code: np.dtype[Any]) -> Any:
    """Columns side by side in one code."""
    joined = columns[0].astype(code)
    for column, width in zip(columns[1:], bits[1:], strict=True):
        joined <<= code.type(width)
        joined |= column.astype(code, copy=False)
    return joined


def dictionary_encode(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Rank each key's value among the distinct values of a column of any strides; None if there are many."""
    # Rounded measurements, classes and categories have few values in many bits. Their ranks are bytes, so that several
    # such columns, or one and the keys' positions, need one radix sort.
    # NumPy sorts keys of the other byte order slowly, and under the interpreter's lock.
    sampled = np.unique(column[:: len(column) // _SAMPLED_KEYS + 1].astype(np.uint64))
    if len(sampled) > MOST_VALUES // 2:
        return None
    codes = column.astype(np.uint64)
    ordered = np.sort(codes)
    values = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    if len(values) > MOST_VALUES:
        return None
    for multiplier in _MULTIPLIERS:
        slots = _slots(values, multiplier)
        if len(np.unique(slots)) == len(values):
            table = np.zeros(1 << _HASH_BITS, np.uint8)
            table[slots] = np.arange(len(values))
            found: np.ndarray[Any, Any] = table[_slots(codes, multiplier)]
            return found
    return None


def _slots(values: np.ndarray[Any, Any], multiplier: np.uint64) -> np.ndarray[Any, Any]:
    slots: np.ndarray[Any, Any] = values * multiplier
    slots >>= np.uint64(64 - _HASH_BITS)
    return slots


#: Masks of bits that move down, and by how many, one after another.
_Moves: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Part:
    """Some bits of one column: ``(column - least) >> drop``, the lowest `bits` of it, after its `moves`."""

    column: Array
    least: int
    drop: int
    bits: int
    moves: _Moves = ()


def argsort(columns: Sequence[Array]) -> IntArray:
    """Find the stable permutation that sorts keys by unsigned columns of any strides, most significant first."""
    reader = _Reader(columns)
    first = reader.digit(WORD_BITS)
    if not first:
        return np.arange(len(columns[0]), dtype=np.int64)
    code = _build(first, slice(None), len(columns[0]))
    if not reader.more():
        return numpy_radix.argsort(code)
    permutation, starts = numpy_radix.argsort_with_starts(code)
    _resolve_ties(permutation, starts, reader)
    return permutation


def sort(words: Array) -> Array:
    """Sort keys of words, shape (n, words)."""
    if words.shape[1] == 2 and len(words):
        first, least = words[:, 0], words[:, 0].min()
        span = int(first.max() - least) + 1
        if span * _LEAST_GROUP <= len(words):
            # Few groups of equal first words: only these are argsorted, as narrow codes.
            codes = (first - least).astype(code_of(span.bit_length()))
            order = numpy_radix.argsort(codes)
            second, sizes = words[:, 1].take(order), np.bincount(codes, minlength=span)
            for group in np.split(second, np.cumsum(sizes)[:-1]):
                group.sort()
            found = np.empty_like(words)
            found[:, 0] = np.repeat(np.arange(span, dtype=np.uint64) + least, sizes)
            found[:, 1] = second
            return found
    return words.take(argsort(columns_of(words)), axis=0)


def _resolve_ties(permutation: IntArray, starts: Array, reader: _Reader) -> None:
    """Order the keys of tie groups, of which `starts` marks the first ones and the end, by the remaining digits."""
    # Without ties, the remaining columns are not read.
    while not starts.all() and reader.more():
        digit = reader.digit(WORD_BITS - _TIED_KEYS.bit_length())
        start = 0
        while start < len(permutation):
            # Up to the end of a tie group, which may be long.
            stop = min(start + _TIED_KEYS, len(permutation))
            stop += int(starts[stop:].argmax())
            _order_block(permutation[start:stop], starts[start : stop + 1], digit)
            start = stop


def _order_block(permutation: IntArray, starts: Array, digit: Sequence[_Part]) -> None:
    """Order the tie groups of a block by one digit; `starts` marks the first key of each group, and the end."""
    tied = np.flatnonzero(~(starts[:-1] & starts[1:]))
    if not len(tied):
        return
    members, first = permutation[tied], starts[tied]
    code = _build(digit, members, len(members))
    # Ties are mostly equal keys, which are in order already.
    if ((code[1:] < code[:-1]) & ~first[1:]).any():
        # The groups are in order, so a sort by (group, code) keeps every key in its group.
        group = np.cumsum(first, dtype=np.uint64)
        group <<= np.uint64(sum(part.bits for part in digit))
        group |= code
        arranged = numpy_radix.argsort(group)
        permutation[tied] = members[arranged]
        code = code[arranged]
    starts[tied[1:]] |= code[1:] != code[:-1]


class _Reader:
    """Read the varying bits of the columns, most significant first."""

    def __init__(self, columns: Sequence[Array]):
        self._columns = iter(columns)
        self._column: Array | None = None
        self._least = self._remaining = 0
        self._moves: _Moves = ()

    def more(self) -> bool:
        """Tell whether bits remain."""
        while not self._remaining:
            self._column = next(self._columns, None)
            if self._column is None:
                return False
            if len(self._column):
                self._measure()
                if self._remaining > _WIDE_BITS and (ranks := dictionary_encode(self._column)) is not None:
                    self._column = ranks
                    self._measure()
                self._leave_out()
        return True

    def _measure(self) -> None:
        assert self._column is not None
        self._least = int(self._column.min())
        self._remaining = (int(self._column.max()) - self._least).bit_length()

    def _leave_out(self) -> None:
        """Leave out the bits that all keys have alike, if they are many: the others are in the same order."""
        assert self._column is not None
        self._moves = ()
        # A sample shows most columns whose bits all differ.
        for part in (self._column[: 2 * _SAMPLED_KEYS], self._column):
            ones = int(np.bitwise_or.reduce(part, dtype=self._column.dtype.newbyteorder("=")))
            zeros = int(np.bitwise_and.reduce(part, dtype=self._column.dtype.newbyteorder("=")))
            if (ones ^ zeros).bit_count() + _LEAST_ALIKE > self._remaining:
                return
        # All keys have the others as the `ones` of `zeros`: the difference clears them.
        self._moves = _moves_of(ones ^ zeros)
        self._least, self._remaining = zeros, (ones ^ zeros).bit_count()

    def digit(self, capacity: int) -> list[_Part]:
        """Give the next bits, at most `capacity`."""
        found = []
        while capacity and self.more():
            assert self._column is not None
            bits = min(self._remaining, capacity)
            capacity, self._remaining = capacity - bits, self._remaining - bits
            found.append(_Part(self._column, self._least, self._remaining, bits, self._moves))
            if bits > _WHOLE_BITS:
                break
        return found


def _build(digit: Sequence[_Part], which: Any, count: int) -> Array:
    """Give the code of one digit for some keys, a block at a time."""
    if len(digit) == 1 and not digit[0].drop and digit[0].bits > _WHOLE_BITS and not digit[0].moves:
        # A whole 64-bit column is a code already.
        return np.ascontiguousarray(digit[0].column[which], np.uint64)
    parts = [replace(part, column=part.column[which]) for part in digit]
    code = code_of(sum(part.bits for part in parts))
    found: Array = np.empty(count, code)
    for start in range(0, count, BLOCK_KEYS):
        block = slice(start, start + BLOCK_KEYS)
        out = found[block]
        for number, part in enumerate(parts):
            values = _cut(part, block).astype(code, copy=False)
            if number == 0:
                out[...] = values
            else:
                out <<= code.type(part.bits)
                out |= values
    return found


def _cut(part: _Part, block: slice) -> Array:
    as_column = part.column.dtype.type
    width = 8 * part.column.dtype.itemsize
    values: Array = part.column[block] - as_column(part.least)
    for mask, shift in part.moves:
        moved = values & as_column(mask)
        values ^= moved
        moved >>= as_column(shift)
        values |= moved
    if part.drop:
        values >>= as_column(part.drop)
    if part.bits < width:
        values &= as_column((1 << part.bits) - 1)
    return values


def _moves_of(kept: int) -> _Moves:
    """Moves that put the bits of a number side by side, lowest first (Warren, Hacker's Delight, 7-4)."""
    bits = [bit for bit in range(WORD_BITS) if kept >> bit & 1]
    moves = []
    for step in (1, 2, 4, 8, 16, 32):
        # A bit has to move by as many as bits below it are left out; the smaller steps are done.
        left = [(bit - number) & step and bit - ((bit - number) & (step - 1)) for number, bit in enumerate(bits)]
        if mask := sum(1 << bit for bit in left if bit):
            moves.append((mask, step))
    return tuple(moves)


def columns_of(words: Array) -> list[Array]:
    """Give the words of shape (n, words) as columns; views."""
    return list(words.T)


def less(first: Array, second: Array) -> Array:
    """Tell whether keys come before others, row by row; both of shape (n, words)."""
    found: Array = first[:, -1] < second[:, -1]
    for one, other in zip(first.T[-2::-1], second.T[-2::-1], strict=True):
        found &= one == other
        found |= one < other
    return found


def differ(first: Array, second: Array) -> Array:
    """Tell whether keys differ, row by row."""
    found: Array = (first != second).any(axis=1)
    return found


def search(words: Array, needles: Array, side: Side) -> IntArray:
    """`numpy.searchsorted` for keys of several words: shapes (n, words) and (m, words) to (m,)."""
    return rank_by(less, len(words), words.__getitem__, needles, len(needles), side)
