"""complex128 keys on the device: two words each, and sorted as columns of such words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .keys.dtypes import DeviceKey, device_key
from .launch.array_checks import check_array, check_indexable, check_side, prepare_out
from .launch.launch import Launch
from .launch.loader import require_cupy
from .pairs import sort_pairs
from .wide.columns import (
    COLUMN_THREADS,
    MEASURE_BLOCKS,
    RANGE_WORDS,
    Share,
    Width,
    blocks_of,
    lay_out,
    read_widths,
    word_dtype,
)
from .wide.tie_groups import TieResolver, break_ties
from .wide.word_sort import argsort_columns

SOURCE = "wide/complex_keys.cu"
COMPLEX_WORDS = 2
NO_SHARE = (np.uint64(0),) * 4  # as Share.numbers, of no bits


class ComplexColumns:
    """Both words of complex128 keys, as columns that can be told apart by few bits."""

    def __init__(self, keys: Any, descending: bool) -> None:
        self.keys = keys
        self._reverse = str(bool(descending)).lower()
        self._high: Any = None

    @property
    def n(self) -> int:
        """Keys."""
        return int(self.keys.size)

    def measure(self) -> list[Width]:
        """In the same look at the keys the high words are made, which are likely to be the first word."""
        cupy = require_cupy()
        ranges, self._high = cupy.zeros(COMPLEX_WORDS * RANGE_WORDS, np.uint64), cupy.empty(self.n, np.uint64)
        arguments = (self.keys, np.uint64(self.n), self._high, ranges)
        name, blocks = f"measure_complex<{self._reverse}>", min(blocks_of(self.n), MEASURE_BLOCKS)
        Launch(SOURCE, name, blocks, COLUMN_THREADS, arguments).run()
        return read_widths(ranges)

    def first_word(self, shares: Sequence[Share]) -> tuple[Any, DeviceKey]:
        """The high words themselves, where they have the word to themselves."""
        word, self._high = self._high, None
        if len(shares) > 1 or shares[0].column != 0:
            del word  # its memory is the next word's
            word = self.make_word(shares, None, None, 0)
        return word, device_key(word.dtype)

    def make_word(self, shares: Sequence[Share], elements: Any, heads: Any, head_bits: int) -> Any:
        """One launch; the words of all keys where `elements` is `None`."""
        n = self.n if elements is None else elements.size
        dtype, cxx = word_dtype(head_bits + sum(share.bits for share in shares))
        word = require_cupy().empty(n, dtype)
        numbers = {share.column: share.numbers for share in shares}
        parts = (*numbers.get(0, NO_SHARE), *numbers.get(1, NO_SHARE))
        arguments = (self.keys, elements, np.uint64(n), *parts, heads, word)
        Launch(SOURCE, f"make_complex_word<{self._reverse}, {cxx}>", blocks_of(n), COLUMN_THREADS, arguments).run()
        return word

    def tie_order(self) -> tuple[str, Any, int]:
        """By positions of whole keys."""
        return f"ByComplex<{self._reverse}>", self.keys, 0

    def moved_order(self) -> str:
        """C++ name in ties.cu of the order of keys that were moved themselves."""
        return f"MovedComplex<{self._reverse}>"


def check_complex(keys: Any) -> None:
    """Raise unless these are complex128 keys."""
    check_array(keys, "keys")
    if keys.dtype != np.complex128:
        raise TypeError(f"`keys` are {keys.dtype}; wide keys are complex128, others have a code (`encode`).")


def encode_words(keys: Any, descending: bool = False) -> Any:
    """Rows of words whose order is NumPy's order of complex128 keys.

    Keys that NumPy calls equal (by their signed zeros or NaNs) get the same words, so they cannot be decoded.

    Parameters
    ----------
    keys : cupy.ndarray of complex128, shape (n,)
    descending : bool
        Words that ascend as the keys descend; NaN stays last.

    Returns
    -------
    cupy.ndarray of uint64, shape (n, 2)
    """
    check_complex(keys)
    rows = require_cupy().empty((keys.size, COMPLEX_WORDS), np.uint64)
    name = f"encode_complex<{str(bool(descending)).lower()}>"
    Launch(SOURCE, name, blocks_of(keys.size), COLUMN_THREADS, (keys, rows, np.uint64(keys.size))).run()
    return rows


def search_wide(keys: Any, needles: Any, side: str = "left", *, descending: bool = False) -> Any:
    """Ranks of complex128 needles among sorted complex128 keys; parameters as `transform.search_sorted`.

    Returns
    -------
    cupy.ndarray, shape (k,), int64
    """
    check_complex(keys)
    check_complex(needles)
    check_side(side)
    ranks = require_cupy().empty(needles.size, np.int64)
    name = f"search_complex<{str(bool(descending)).lower()}, {str(side == 'right').lower()}>"
    arguments = (keys, np.uint64(keys.size), needles, ranks, np.uint64(needles.size))
    Launch(SOURCE, name, blocks_of(needles.size), COLUMN_THREADS, arguments).run()
    return ranks


def argsort_wide(keys: Any, *, descending: bool = False, out: Any = None) -> Any:
    """Positions that sort complex128 keys, stable.

    Parameters
    ----------
    keys : cupy.ndarray of complex128, shape (n,)
        n below 2^32.
    descending : bool
        Largest first; NaN stays last.
    out : cupy.ndarray of int64, optional
        Receives the result.

    Returns
    -------
    cupy.ndarray, shape (n,), int64
    """
    check_complex(keys)
    n = keys.size
    check_indexable(n)
    out = prepare_out(out, (n,), np.int64)
    return argsort_columns(ComplexColumns(keys, descending), out) if n else out


def sort_wide(keys: Any, *, descending: bool = False, out: Any = None) -> Any:
    """Sort complex128 keys, stable; parameters as `argsort_wide`, `out` of complex128 and apart from `keys`.

    Returns
    -------
    cupy.ndarray, shape (n,), complex128
    """
    check_complex(keys)
    out = prepare_out(out, keys.shape, np.complex128)
    if keys.size == 0:
        return out
    columns = ComplexColumns(keys, descending)
    words = lay_out(columns.measure())
    if not words:
        out[...] = keys
        return out
    ordered, _ = sort_pairs(columns.first_word(words[0])[0], keys, values_out=out)
    if len(words) > 1:
        # Further words are those of the keys as they stand now.
        moved = ComplexColumns(out, descending)
        break_ties(moved, words[1:], ordered, TieResolver(moved.moved_order(), elements=out))
    return out
