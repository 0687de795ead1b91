"""Packing of a code's digit and the key's position into words, and unpacking (see `numpy_radix`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ..keys import BLOCK_KEYS

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


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


def pack(rows: Array) -> tuple[Array, int, int, int]:
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
    words = np.empty(rows.shape, word)
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
