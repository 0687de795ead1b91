"""complex128 keys: two words each, sorted as columns of words (see the package `wide`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .keys.transform import search_ranks
from .launch.arrays import check_array, check_indexable, prepare_out
from .launch.launch import Launch, blocks_for, instance, request_all
from .launch.loader import require_cupy
from .pairs import sort_pairs
from .wide.columns import (
    ALL_KEYS,
    COLUMN_THREADS,
    EMPTY_FIELD,
    RANGE_WORDS,
    BitField,
    Subset,
    Width,
    lay_out,
    measure_blocks,
    read_widths,
)
from .wide.word_sort import TieResolver, argsort_columns, break_ties, request_ties

SOURCE = "wide/columns.cu"
COMPLEX_WORDS = 2


class ComplexColumns:
    """The two words of complex128 keys as columns, without gaps between the codes of numbers."""

    def __init__(self, keys: Any, descending: bool) -> None:
        self.keys = keys
        self._descending = bool(descending)
        self._high: Any = None

    @property
    def n(self) -> int:
        """Keys."""
        return int(self.keys.size)

    def measure(self) -> list[Width]:
        """Give the bits that vary. The same reading of the keys makes the high words, usually the first to sort by."""
        cupy = require_cupy()
        ranges, self._high = cupy.zeros(COMPLEX_WORDS * RANGE_WORDS, np.uint64), cupy.empty(self.n, np.uint64)
        arguments = (self.keys, np.uint64(self.n), self._high, ranges)
        name = instance("measure_complex", self._descending)
        request_all(SOURCE, name, instance("make_complex_word", self._descending, "u64"))
        Launch(SOURCE, name, measure_blocks(self.n), COLUMN_THREADS, arguments).run()
        return read_widths(ranges)

    def first_word(self, fields: Sequence[BitField]) -> Any:
        """Give the high words themselves, if the word consists of them alone."""
        word, self._high = self._high, None
        if len(fields) > 1 or fields[0].column != 0:
            del word  # its memory is the next word's
            word = self.make_word(fields)
        return word

    def make_word(self, fields: Sequence[BitField], subset: Subset = ALL_KEYS) -> Any:
        """Words of some keys, in one launch."""
        word, cxx = subset.empty_word(self.n, fields)
        by_column = {field.column: field.arguments for field in fields}
        both = (*by_column.get(0, EMPTY_FIELD), *by_column.get(1, EMPTY_FIELD))
        arguments = (self.keys, subset.positions, np.uint64(word.size), *both, subset.groups, word)
        name, blocks = instance("make_complex_word", self._descending, cxx), blocks_for(word.size, COLUMN_THREADS)
        Launch(SOURCE, name, blocks, COLUMN_THREADS, arguments).run()
        return word

    def position_order(self) -> tuple[str, Any, int]:
        """Positions are compared by their whole keys."""
        return instance("ComplexPositions", self._descending), self.keys, 0

    def key_order(self) -> str:
        """C++ order of ``tie_groups.cu`` if the keys themselves are sorted."""
        return instance("ComplexKeys", self._descending)


def check_complex(keys: Any) -> None:
    """Raise unless these are complex128 keys."""
    check_array(keys, "keys")
    if keys.dtype != np.complex128:
        raise TypeError(f"`keys` has dtype {keys.dtype}; give complex128. Keys of other dtypes have codes (`encode`).")


def encode_words(keys: Any, descending: bool = False) -> Any:
    """Encode complex128 keys as rows of words, shape (n, 2), in NumPy's order; NaN stay last."""
    # Keys that NumPy calls equal (signed zeros, NaNs) get the same words, so words cannot be decoded.
    check_complex(keys)
    rows = require_cupy().empty((keys.size, COMPLEX_WORDS), np.uint64)
    name, blocks = instance("encode_complex", bool(descending)), blocks_for(keys.size, COLUMN_THREADS)
    Launch(SOURCE, name, blocks, COLUMN_THREADS, (keys, rows, np.uint64(keys.size))).run()
    return rows


def search_wide(keys: Any, needles: Any, side: str = "left", *, descending: bool = False) -> Any:
    """Rank complex128 needles among sorted complex128 keys, as `transform.search_sorted`."""
    check_complex(keys)
    check_complex(needles)
    return search_ranks(SOURCE, "search_complex", (str(bool(descending)).lower(),), keys, needles, side)


def argsort_wide(keys: Any, *, descending: bool = False, out: Any = None) -> Any:
    """Find the int64 positions that sort fewer than 2^32 complex128 keys, stably; keys with NaN stay last."""
    check_complex(keys)
    n = keys.size
    check_indexable(n)
    out = prepare_out(out, (n,), np.int64)
    return argsort_columns(ComplexColumns(keys, descending), out) if n else out


def sort_wide(keys: Any, *, descending: bool = False, out: Any = None) -> Any:
    """Sort complex128 keys stably, as `argsort_wide`; `out` is complex128 and must not be `keys`."""
    check_complex(keys)
    out = prepare_out(out, keys.shape, np.complex128)
    if keys.size == 0:
        return out
    columns = ComplexColumns(keys, descending)
    request_ties(columns.key_order())
    words = lay_out(columns.measure())
    if not words:
        out[...] = keys
        return out
    ordered, _ = sort_pairs(columns.first_word(words[0]), keys, values_out=out)
    if len(words) > 1:
        # The later words are made from the keys in their new order.
        reordered = ComplexColumns(out, descending)
        break_ties(reordered, words[1:], ordered, TieResolver(reordered.key_order(), elements=out))
    return out
