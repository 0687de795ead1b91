"""Columns of wide keys, and the words that they are cut into.

The codes of the columns are concatenated, each as wide as its observed range, without the low bits that all codes of
the column share. The bit string is cut into words of 64 bits::

    columns    | c0          | c1     | c2          |
    words      |-- word 0 (64 bits) --|-- word 1 ---|

Graefe, "Implementing Sorting in Database Systems", ACM Computing Surveys, 2006 (normalized keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..launch.launch import Launch, Readback, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy

SOURCE = "wide/columns.cu"
COLUMN_THREADS = cxx_constant("wide/columns.cuh", "kColumnThreads")
RANGE_WORDS = cxx_constant("wide/columns.cuh", "kRangeWords")
MEASURE_BLOCKS = 1024  # several for each multiprocessor, and few enough that their atomics cost next to nothing
WORD_BITS = 64
NARROW_BITS = 32  # words up to this long are sorted as 32-bit keys


@dataclass(frozen=True)
class Width:
    """Which bits of a column's codes vary: of (code - `least`), `bits` bits above the lowest `zeros` bits."""

    least: int
    zeros: int
    bits: int


@dataclass(frozen=True)
class BitField:
    """A field of a word: of (code of column `column` - `least`), `bits` bits from bit `shift` on."""

    column: int
    least: int
    shift: int
    bits: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The members of the C++ struct: least, shift, mask, bits."""
        return tuple(np.uint64(number) for number in (self.least, self.shift, (1 << self.bits) - 1, self.bits))


#: Arguments of a field of no bits.
EMPTY_FIELD = BitField(0, 0, 0, 0).arguments


@dataclass(slots=True)
class Subset:
    """Hold the keys whose words are made; by default all."""

    positions: Any = None  # int64; `None` for all keys, in order
    groups: Any = None  # uint32: number of the tie group of each key, the most significant part of its word
    group_bits: int = 0  # of the greatest group number

    def empty_word(self, n: int, fields: Sequence[BitField]) -> tuple[Any, str]:
        """Memory for the words of these of n keys, and the C++ type of a word."""
        bits = self.group_bits + sum(field.bits for field in fields)
        dtype, cxx = (np.uint32, "u32") if bits <= NARROW_BITS else (np.uint64, "u64")
        return require_cupy().empty(n if self.positions is None else self.positions.size, dtype), cxx


ALL_KEYS = Subset()


class WideKeys(Protocol):
    """Columns of n keys, n above 0, the most significant first."""

    @property
    def n(self) -> int:
        """Keys."""

    def measure(self) -> list[Width]:
        """Give the bits that vary in each column's codes."""

    def first_word(self, fields: Sequence[BitField]) -> Any:
        """Words of all keys, shape (n,); may be called once."""

    def make_word(self, fields: Sequence[BitField], subset: Subset = ALL_KEYS) -> Any:
        """Words of some keys, unsigned."""

    def position_order(self) -> tuple[str, Any, int]:
        """How keys are compared by their positions: C++ order of ``tie_groups.cu``, keys, and words of a row."""


def measure_blocks(n: int) -> int:
    """Count the blocks that measure n keys."""
    return min(blocks_for(n, COLUMN_THREADS), MEASURE_BLOCKS)


def read_widths(ranges: Any) -> list[Width]:
    """Give the widths of columns from their ranges on the device (`CodeRange`); waits for the stream."""
    words = Readback(ranges).wait()
    return [width_of(*words[first : first + RANGE_WORDS]) for first in range(0, len(words), RANGE_WORDS)]


def width_of(least_complement: int, greatest: int, differing: int) -> Width:
    """Give the width of a column from the three words of its range."""
    least = (1 << WORD_BITS) - 1 - least_complement
    zeros = (differing & -differing).bit_length() - 1 if differing else 0
    return Width(least, zeros, max(0, greatest - least).bit_length() - zeros)


def lay_out(widths: Sequence[Width]) -> list[list[BitField]]:
    """Cut the bit string of all columns into words, the most significant first, all but the last of 64 bits."""
    # Without any varying bits there are none.
    words: list[list[BitField]] = [[]]
    free = WORD_BITS
    for column, width in enumerate(widths):
        left = width.bits
        while left > 0:
            if not free:
                words.append([])
                free = WORD_BITS
            bits = min(left, free)
            left, free = left - bits, free - bits
            words[-1].append(BitField(column, width.least, width.zeros + left, bits))
    return [word for word in words if word]


@dataclass(frozen=True)
class WordColumns:
    """Hold rows of words, shape (n, words), the most significant word first: the columns are the words."""

    rows: Any

    @property
    def n(self) -> int:
        """Keys."""
        return len(self.rows)

    @property
    def _width(self) -> int:
        """Words of a row."""
        return int(self.rows.shape[1])

    def measure(self) -> list[Width]:
        """Find the bits that vary; all bits, without reading the keys, of a single word."""
        if self._width == 1:
            return [Width(0, 0, WORD_BITS)]
        ranges = require_cupy().zeros(RANGE_WORDS * self._width, np.uint64)
        for i in range(self._width):
            arguments = (self.rows[:, i], np.uint64(self._width), np.uint64(self.n), ranges[RANGE_WORDS * i :])
            Launch(SOURCE, "measure_column", measure_blocks(self.n), COLUMN_THREADS, arguments).run()
        return read_widths(ranges)

    def first_word(self, fields: Sequence[BitField]) -> Any:
        """Give the keys themselves if they are one word, else make the word."""
        return self.rows.reshape(-1) if self._width == 1 else self.make_word(fields)

    def make_word(self, fields: Sequence[BitField], subset: Subset = ALL_KEYS) -> Any:
        """Make words of some keys, with one launch for each field."""
        word, cxx = subset.empty_word(self.n, fields)
        blocks = blocks_for(word.size, COLUMN_THREADS)
        for i, field in enumerate(fields):
            keys = self.rows[:, field.column], np.uint64(self._width), subset.positions, np.uint64(word.size)
            name = instance("append_column", cxx, i == 0)
            Launch(SOURCE, name, blocks, COLUMN_THREADS, (*keys, *field.arguments, subset.groups, word)).run()
        return word

    def position_order(self) -> tuple[str, Any, int]:
        """Compare rows by position."""
        return "RowPositions", self.rows, self._width
