"""Sorts of wide keys: several columns, compared one after the other.

The columns are cut into words (``columns.py``). The first word sorts all keys by radix; each later word sorts only the
keys that still tie (``tie_groups.py``)::

    lexsort of u32, u32               64 bits      one word: a radix argsort
    complex128, lexsort of f64s       128 or more  a radix argsort of the first word; then the ties, if there are any

Radix sorts of words beat a merge sort of the wide keys, which has about 15 levels and moves 16 bytes a key in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..keys.dtypes import device_key
from ..keys.transform import search_ranks
from ..launch.array_checks import check_array, check_indexable, prepare_out
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import require_cupy
from ..msd.msd import sort_indexed
from .columns import COLUMN_THREADS, Column, Columns, KeyColumns, lay_out
from .tie_groups import TieResolver, break_ties

SOURCE = "wide/word_sort.cu"


def argsort_columns(columns: Columns, out: Any) -> Any:
    """Stable argsort by all columns; `out` (int64, shape (n,)) receives the positions and is returned."""
    cupy = require_cupy()
    words = lay_out(columns.measure())
    if not words:
        out[...] = cupy.arange(columns.n, dtype=np.int64)
        return out
    first, key = columns.first_word(words[0])
    ordered = cupy.empty_like(first) if len(words) > 1 else None
    sort_indexed(first, key, "long long", out, ordered)
    del first
    if ordered is not None:
        # If a column's keys are the word, keys that tie have equal bits here: the sort wrote canonical keys.
        break_ties(columns, words[1:], ordered.view(np.uint64), TieResolver(*columns.position_order(), out))
    return out


def argsort_words(words: Any, *, out: Any = None) -> Any:
    """Find the int64 positions that sort rows of words, shape (n, words), stably, most significant word first."""
    # The rows are C-contiguous, and n is below 2^32.
    check_words(words, "words")
    n, width = words.shape
    check_indexable(n)
    out = prepare_out(out, (n,), np.int64)
    if n == 0:
        return out
    key = device_key(np.uint64)
    return argsort_columns(KeyColumns([Column(words[:, w], key, width) for w in range(width)], n, words), out)


def check_words(words: Any, name: str) -> None:
    """Raise unless these are rows of words."""
    check_array(words, name, 2)
    if words.dtype != np.uint64:
        raise TypeError(f"`{name}` has dtype {words.dtype}; give rows of uint64 words.")


def search_words(words: Any, needles: Any, side: str = "left") -> Any:
    """Rank rows among sorted rows, as `numpy.searchsorted`, into int64."""
    check_words(words, "words")
    check_words(needles, "needles")
    if words.shape[1] != needles.shape[1]:
        raise ValueError(
            f"rows of `needles` have {needles.shape[1]} words and rows of `words` have {words.shape[1]}; give rows of "
            "the same length."
        )
    return search_ranks(SOURCE, "search_words", (), words, needles, side)


def lexsort(keys: Sequence[Any], *, descending: bool | Sequence[bool] = False, out: Any = None) -> Any:
    """Find the int64 positions that sort by contiguous keys, the last first, as `numpy.lexsort`.

    NaN and NaT stay last; directions are for all keys, or for each.
    """
    if len(keys) == 0:
        raise ValueError("`keys` is empty; give at least one key.")
    directions = [descending] * len(keys) if isinstance(descending, (bool, np.bool_)) else list(descending)
    if len(directions) != len(keys):
        raise ValueError(f"`descending` has {len(directions)} entries for {len(keys)} keys; give one a key.")
    n = len(keys[0])
    for array in keys:
        check_array(array, "keys")
        if len(array) != n:
            raise ValueError(f"keys have {n} and {len(array)} elements; give keys of the same length.")
    check_indexable(n)
    out = prepare_out(out, (n,), np.int64)
    columns = [
        Column(array, device_key(array.dtype, direction)) for array, direction in zip(keys, directions, strict=True)
    ]
    return argsort_columns(KeyColumns(columns[::-1], n), out) if n else out


def floor_codes(codes: Any, dtype: Any, descending: bool = False) -> Any:
    """Replace each code, in place, by the least code of the keys that NumPy calls equal (signed zeros, NaNs)."""
    check_array(codes, "codes")
    key = device_key(dtype, descending)
    if key.has_ties:
        name, blocks = instance("floor_codes", key.order), blocks_for(codes.size, COLUMN_THREADS)
        Launch(SOURCE, name, blocks, COLUMN_THREADS, (codes, np.uint64(codes.size))).run()
    return codes
