"""Sorts of wide keys: several columns, compared one after the other.

The columns are cut into words (``columns.py``). The first word sorts all keys by radix; each later word sorts only the
keys that still tie (``tie_groups.py``)::

    rows of one word               64 bits      a radix argsort
    complex128, rows of words      128 or more  a radix argsort of the first word; then the ties, if there are any

Radix sorts of words beat a merge sort of the wide keys, which has about 15 levels and moves 16 bytes a key in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..keys.dtypes import device_key
from ..keys.transform import search_ranks
from ..launch.array_checks import check_array, check_indexable, prepare_out
from ..launch.loader import require_cupy
from ..msd.msd import sort_indexed
from .columns import SOURCE, WideKeys, WordColumns, lay_out
from .tie_groups import TieResolver, break_ties


def argsort_columns(columns: WideKeys, out: Any) -> Any:
    """Argsort stably by all columns; `out` (int64, shape (n,)) receives the positions and is returned."""
    cupy = require_cupy()
    words = lay_out(columns.measure())
    if not words:
        out[...] = cupy.arange(columns.n, dtype=np.int64)
        return out
    first = columns.first_word(words[0])
    ordered = cupy.empty_like(first) if len(words) > 1 else None
    sort_indexed(first, device_key(first.dtype), "long long", out, ordered)
    del first
    if ordered is not None:
        break_ties(columns, words[1:], ordered.view(np.uint64), TieResolver(*columns.position_order(), out))
    return out


def argsort_words(words: Any, *, out: Any = None) -> Any:
    """Find the int64 positions that sort rows of words, shape (n, words), stably, most significant word first."""
    # The rows are C-contiguous, and n is below 2^32.
    check_words(words, "words")
    n = len(words)
    check_indexable(n)
    out = prepare_out(out, (n,), np.int64)
    return argsort_columns(WordColumns(words), out) if n else out


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
