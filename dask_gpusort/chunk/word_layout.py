"""Keys of several unsigned columns, packed side by side into one code or into words.

Columns of fixed widths together are a number of the same width. If it fits 64 bits, it becomes one unsigned code and
takes the radix path. Otherwise it becomes words of 64 bits, most significant first::

    (int32, int32)            [a  32 | b  32]                                    one uint64
    (int16, bool, int32)      [a  16 | b 1 | c 32]                               one uint64
    (float64, int32, int32)   [a            64] [b 32 | c 32]                    uint64, shape (n, 2)
    S20                       [8 bytes] [8 bytes] [4 bytes]                      uint64, shape (n, 3)

A column is never divided between words: a column of small numbers in two words would have a wide range in both, and
`numpy_words` packs by range. This file uses only operators that NumPy and CuPy arrays share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: NumPy or CuPy.
Array = Any

WORD_BITS = 64


def lay_out(bits: Sequence[int]) -> list[list[int]]:
    """Assign columns of at most 64 bits, most significant first, to words, at least one."""
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


def pack(columns: Sequence[Array], bits: Sequence[int]) -> Array:
    """Pack columns, most significant first, into codes, or into C-contiguous uint64 words if they exceed 64 bits."""
    layout = lay_out(bits)
    if len(layout) == 1:
        return _join(columns, bits, code_of(sum(bits)))
    words = np.empty_like(columns[0], shape=(len(columns[0]), len(layout)), dtype=np.uint64, order="C")
    for word, numbers in enumerate(layout):
        mine = [columns[number] for number in numbers], [bits[number] for number in numbers]
        words[:, word] = _join(*mine, np.dtype(np.uint64))
    return words


def _join(columns: Sequence[Array], bits: Sequence[int], code: np.dtype[Any]) -> Array:
    """Columns side by side in one code."""
    joined = columns[0].astype(code)
    for column, width in zip(columns[1:], bits[1:], strict=True):
        joined <<= code.type(width)
        joined |= column.astype(code, copy=False)
    return joined
