"""Sorts of keys of several unsigned columns on one CPU core, in as few radix sorts as the keys allow.

The columns of a chunk, words in transit or the columns of a string, are read as one long number, each column only as
wide as its values in this chunk::

    columns    [ 17..80: 6 bits | all 5: 0 bits | any: 64 bits | 0..3: 2 bits ]
    digits     [  6 bits + upper 58 of the third  ] [ lower 6 + 2 bits ]
    argsort      every key, one radix sort            only keys that tie in the first digit

So two 32-bit keys, a class beside a date, or many columns of few values are one radix sort of 64-bit codes. Of wider
keys, random ones differ in the first digit already, and the second one has little left to sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from ..table import IntArray, Side
from . import numpy_radix
from .searching import lower_bound
from .words import WORD_BITS, code_of

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

#: Keys of which a digit is put together at a time: operands and scratch stay in a level-2 cache.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class _Part:
    """Some bits of one column: ``(column - least) >> drop``, the lowest `bits` of it."""

    column: Array
    least: int
    drop: int
    bits: int


def argsort(columns: Sequence[Array], offsets: IntArray | None = None) -> IntArray:
    """Stable permutation that sorts keys by all their columns.

    Parameters
    ----------
    columns : sequence of unsigned arrays, each of shape (n,)
        Most significant first; never empty. Of any strides and byte order.
    offsets : int64 array, shape (runs + 1,), optional
        Where the keys are sorted runs side by side, the places at which they begin and end: the runs are then merged.

    Returns
    -------
    int64 array, shape (n,)
    """
    digits = _digits(columns)
    first = next(digits, None)
    if first is None:
        return np.arange(len(columns[0]), dtype=np.int64)
    code = _build(first, slice(None), len(columns[0]))
    second = next(digits, None)
    if offsets is not None:
        permutation = numpy_radix.argmerge_runs(code, offsets)
        code = code[permutation] if second else code
    elif second:
        code, permutation = numpy_radix.sort_with_positions(code)
    else:
        return numpy_radix.argsort(code)
    starts = np.ones(len(code), bool)
    np.not_equal(code[1:], code[:-1], out=starts[1:])
    for digit in chain([second] if second else [], digits):
        tied = np.flatnonzero(~(starts & np.append(starts[1:], True)))
        if not len(tied):
            # The columns left over are not even looked at.
            break
        _order_ties(permutation, starts, tied, digit)
    return permutation


def _order_ties(permutation: IntArray, starts: Array, tied: IntArray, digit: Sequence[_Part]) -> None:
    """Order the keys that tie so far by one more digit, in place; `starts` marks the first key of each tie."""
    members = permutation[tied]
    first = starts[tied]
    code = _build(digit, members, len(members))
    # Ties are mostly equal keys, which stand in order already.
    if ((code[1:] < code[:-1]) & ~first[1:]).any():
        # The groups stand in order, so that sorting by them too moves no key out of its group.
        arranged = argsort([np.cumsum(first).view(np.uint64), code])
        permutation[tied] = members[arranged]
        code = code[arranged]
    starts[tied[1:]] |= code[1:] != code[:-1]


def _digits(columns: Sequence[Array]) -> Iterator[list[_Part]]:
    """Divide the columns' bits, as far as they vary, into digits of 64 bits."""
    digit: list[_Part] = []
    room = WORD_BITS
    for column in columns:
        if not len(column):
            continue
        least = int(column.min())
        left = (int(column.max()) - least).bit_length()
        while left:
            bits = min(left, room)
            digit.append(_Part(column, least, left - bits, bits))
            left, room = left - bits, room - bits
            if not room:
                yield digit
                digit, room = [], WORD_BITS
    if digit:
        yield digit


def _build(digit: Sequence[_Part], which: Any, count: int) -> Array:
    """The code of one digit for some keys, a block at a time."""
    parts = [_Part(part.column[which], part.least, part.drop, part.bits) for part in digit]
    code = code_of(sum(part.bits for part in parts))
    found: Array = np.empty(count, code)
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK)
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
    if part.drop:
        values >>= as_column(part.drop)
    if part.bits < width:
        values &= as_column((1 << part.bits) - 1)
    return values


def columns_of(words: Array) -> list[Array]:
    """The words of shape (n, words) as columns; views."""
    return list(words.T)


def less(first: Array, second: Array) -> Array:
    """Whether keys come before others, row by row: shapes (n, words)."""
    found: Array = first[:, -1] < second[:, -1]
    for one, other in zip(first.T[-2::-1], second.T[-2::-1], strict=True):
        found &= one == other
        found |= one < other
    return found


def differ(first: Array, second: Array) -> Array:
    """Whether keys differ, row by row."""
    found: Array = (first != second).any(axis=1)
    return found


def search(words: Array, needles: Array, side: Side) -> IntArray:
    """`numpy.searchsorted` for keys of several words: shapes (n, words) and (m, words) to (m,)."""

    def passes(positions: IntArray) -> Array:
        probed = words[positions]
        return less(probed, needles) if side == "left" else ~less(needles, probed)

    return lower_bound(len(words), len(needles), passes)
