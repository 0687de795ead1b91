"""Columns of wide keys, cut into words of 64 bits.

The columns' codes are laid side by side, each as wide as its observed range (less the low bits that all its codes
share, as whole numbers in floats do), and the string of bits is cut into words::

    columns    | c0          | c1     | c2          |
    words      |-- word 0 (64 bits) --|-- word 1 ---|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..keys.dtypes import DeviceKey, device_key
from ..launch.launch import Launch, Readback
from ..launch.loader import require_cupy

SOURCE = "wide/columns.cu"
COLUMN_THREADS = 256  # kColumnThreads in columns.cuh
MEASURE_BLOCKS = 1024  # some for each multiprocessor, few enough that their atomics are nothing
RANGE_WORDS = 3  # of CodeRange in columns.cuh
WORD_BITS = 64
NARROW_BITS = 32  # words up to this long are sorted as 32-bit keys


@dataclass(frozen=True)
class Width:
    """Which bits of (a column's code - `least`) vary: `bits` of them, above the `zeros` lowest, which do not."""

    least: int
    zeros: int
    bits: int


@dataclass(frozen=True)
class Share:
    """A share of a word: `bits` bits of (the code of column `column` - `least`), above the `drop` lowest."""

    column: int
    least: int
    drop: int
    bits: int

    @property
    def numbers(self) -> tuple[Any, ...]:
        """As kernels take it: what is subtracted, how far codes are shifted, what is kept of them, how many bits."""
        return tuple(np.uint64(number) for number in (self.least, self.drop, (1 << self.bits) - 1, self.bits))


class Columns(Protocol):
    """The columns of n keys, n above 0, the most significant first."""

    @property
    def n(self) -> int:
        """Keys."""

    def measure(self) -> list[Width]:
        """The bits of each column's codes that tell keys apart."""

    def first_word(self, shares: Sequence[Share]) -> tuple[Any, DeviceKey]:
        """Unsigned words of all keys, or other keys in the same order, shape (n,); asked for once."""

    def make_word(self, shares: Sequence[Share], elements: Any, heads: Any, head_bits: int) -> Any:
        """The words of the keys at `elements` (int64), behind the numbers in `heads` (uint32) if there are any."""

    def tie_order(self) -> tuple[str, Any, int]:
        """How keys are compared by their positions: a C++ name of ties.cu, and what it looks at."""


def blocks_of(n: int) -> int:
    """Blocks of a kernel with one thread an element."""
    return -(-n // COLUMN_THREADS)


def word_dtype(bits: int) -> tuple[Any, str]:
    """Dtype and C++ type of words of so many bits."""
    return (np.uint32, "u32") if bits <= NARROW_BITS else (np.uint64, "u64")


def read_widths(ranges: Any) -> list[Width]:
    """The widths of columns whose ranges (CodeRange) kernels have measured."""
    found = Readback(ranges).wait()
    return [width_of(*found[first : first + RANGE_WORDS]) for first in range(0, len(found), RANGE_WORDS)]


def width_of(least_complement: int, greatest: int, differing: int) -> Width:
    """The width of a column from the three words of its range."""
    least = (1 << WORD_BITS) - 1 - least_complement
    zeros = (differing & -differing).bit_length() - 1 if differing else 0
    return Width(least, zeros, max(0, greatest - least).bit_length() - zeros)


def lay_out(widths: Sequence[Width]) -> list[list[Share]]:
    """Cut the string of all columns' bits into words.

    Returns
    -------
    list of lists of Share
        Words, the most significant first, each of 64 bits but for the last; none if all keys are equal.
    """
    words: list[list[Share]] = [[]]
    room = WORD_BITS
    for column, width in enumerate(widths):
        left = width.bits
        while left > 0:
            if not room:
                words.append([])
                room = WORD_BITS
            bits = min(left, room)
            left, room = left - bits, room - bits
            words[-1].append(Share(column, width.least, width.zeros + left, bits))
    return [word for word in words if word]


@dataclass(frozen=True)
class Column:
    """One column of the keys: n keys of a radix dtype, `stride` keys apart, and how they are ordered."""

    keys: Any
    key: DeviceKey
    stride: int = 1

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return 8 * self.key.itemsize


@dataclass(frozen=True)
class KeyColumns:
    """Columns in arrays of their own, or rows of words.

    Attributes
    ----------
    columns : sequence of Column
        The most significant first.
    n : int
        Keys.
    rows : cupy.ndarray, optional
        The words of all columns, where these are rows: shape (n, columns), uint64.
    """

    columns: Sequence[Column]
    n: int
    rows: Any = None

    def measure(self) -> list[Width]:
        """Where the codes fit one word all their bits, without a look at the keys."""
        if sum(column.bits for column in self.columns) <= WORD_BITS:
            return [Width(0, 0, column.bits) for column in self.columns]
        ranges = require_cupy().zeros(RANGE_WORDS * len(self.columns), np.uint64)
        blocks = min(blocks_of(self.n), MEASURE_BLOCKS)
        for i, column in enumerate(self.columns):
            found = ranges[RANGE_WORDS * i : RANGE_WORDS * (i + 1)]
            arguments = (column.keys, np.uint64(column.stride), np.uint64(self.n), found)
            Launch(SOURCE, f"measure_column<{column.key.order}>", blocks, COLUMN_THREADS, arguments).run()
        return read_widths(ranges)

    def first_word(self, shares: Sequence[Share]) -> tuple[Any, DeviceKey]:
        """The keys of a column that has the word to itself: all bits of a code fit, so they are in the same order."""
        column = self.columns[shares[0].column]
        if len(shares) == 1 and column.stride == 1:
            return column.keys, column.key
        word = self.make_word(shares, None, None, 0)
        return word, device_key(word.dtype)

    def make_word(self, shares: Sequence[Share], elements: Any, heads: Any, head_bits: int) -> Any:
        """One launch a share; those of all keys where `elements` is `None`."""
        n = self.n if elements is None else elements.size
        dtype, cxx = word_dtype(head_bits + sum(share.bits for share in shares))
        word = require_cupy().empty(n, dtype)
        for i, share in enumerate(shares):
            column = self.columns[share.column]
            name = f"append_column<{column.key.order}, {cxx}, {str(i == 0).lower()}>"
            arguments = (column.keys, np.uint64(column.stride), elements, np.uint64(n), *share.numbers, heads, word)
            Launch(SOURCE, name, blocks_of(n), COLUMN_THREADS, arguments).run()
        return word

    def tie_order(self) -> tuple[str, Any, int]:
        """Rows are compared in one place; columns of any dtypes are not."""
        return ("Listed", None, 0) if self.rows is None else ("ByRows", self.rows, len(self.columns))
