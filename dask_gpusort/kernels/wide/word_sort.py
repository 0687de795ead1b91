"""Wide keys on the device: several columns compared one after the other.

Cut into words (`columns`), of which the first sorts all keys by radix and each later one only those that still tie
(`ties`)::

    lexsort of u32, u32               64 bits      one word: a radix argsort
    complex128, lexsort of f64s       128 or more  a radix argsort of the first word, and the ties, if there are any

Sorting by radix, word by word, beats merging the wide keys: a level of merging moves 16 bytes a key and there are 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..keys.dtypes import device_key
from ..launch.array_checks import check_array, check_indexable, check_side, prepare_out
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..msd.indexed import sort_indexed
from .columns import COLUMN_THREADS, Column, Columns, KeyColumns, blocks_of, lay_out
from .tie_groups import TieResolver, break_ties

SOURCE = "wide/word_sort.cu"


def argsort_columns(columns: Columns, out: Any) -> Any:
    """Stable permutation that sorts keys by all their columns; `out` receives it, int64 of shape (n,)."""
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
        # Keys sorted themselves are compared as bits: those that tie come out canonical.
        break_ties(columns, words[1:], ordered.view(np.uint64), TieResolver(*columns.tie_order(), out))
    return out


def argsort_words(words: Any, *, out: Any = None) -> Any:
    """Positions that sort rows of words, stable.

    Parameters
    ----------
    words : cupy.ndarray of uint64, shape (n, words)
        C-contiguous, the most significant word first; n below 2^32.
    out : cupy.ndarray of int64, optional
        Receives the result.

    Returns
    -------
    cupy.ndarray, shape (n,), int64
    """
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
        raise TypeError(f"`{name}` are {words.dtype}; give rows of uint64 words.")


def search_words(words: Any, needles: Any, side: str = "left") -> Any:
    """Ranks of rows among sorted rows, as `numpy.searchsorted`.

    Parameters
    ----------
    words : cupy.ndarray of uint64, shape (n, words)
        Sorted.
    needles : cupy.ndarray of uint64, shape (k, words)
    side : {"left", "right"}
        Number of rows before the needle, or of rows not after it.

    Returns
    -------
    cupy.ndarray, shape (k,), int64
    """
    check_words(words, "words")
    check_words(needles, "needles")
    if words.shape[1] != needles.shape[1]:
        raise ValueError(f"`needles` have {needles.shape[1]} words and `words` {words.shape[1]}; give as many.")
    check_side(side)
    ranks = require_cupy().empty(len(needles), np.int64)
    lengths = np.uint64(len(words)), np.uint64(words.shape[1])
    Launch(
        SOURCE,
        f"search_words<{str(side == 'right').lower()}>",
        blocks_of(len(needles)),
        COLUMN_THREADS,
        (words, *lengths, needles, ranks, np.uint64(len(needles))),
    ).run()
    return ranks


def lexsort(keys: Sequence[Any], *, descending: bool | Sequence[bool] = False, out: Any = None) -> Any:
    """Positions that sort by several keys, the last one first, stable: `numpy.lexsort`.

    Parameters
    ----------
    keys : sequence of cupy.ndarray, each of shape (n,)
        Contiguous, of radix dtypes; the last is the primary key.
    descending : bool or sequence of bool
        For all keys, or for each; NaN and NaT stay last.
    out : cupy.ndarray of int64, optional
        Receives the result.

    Returns
    -------
    cupy.ndarray, shape (n,), int64
    """
    if len(keys) == 0:
        raise ValueError("`keys` is empty; give one key at least.")
    directions = [descending] * len(keys) if isinstance(descending, (bool, np.bool_)) else list(descending)
    if len(directions) != len(keys):
        raise ValueError(f"`descending` has {len(directions)} entries for {len(keys)} keys; give one a key.")
    n = len(keys[0])
    for array in keys:
        check_array(array, "keys")
        if len(array) != n:
            raise ValueError(f"keys have {n} and {len(array)} elements; give as many for each.")
    check_indexable(n)
    out = prepare_out(out, (n,), np.int64)
    columns = [Column(array, device_key(array.dtype, way)) for array, way in zip(keys, directions, strict=True)]
    return argsort_columns(KeyColumns(columns[::-1], n), out) if n else out


def floor_codes(codes: Any, dtype: Any, descending: bool = False) -> Any:
    """Codes to the least of the keys that NumPy calls equal (signed zeros, NaNs), in place.

    Parameters
    ----------
    codes : cupy.ndarray, shape (n,)
        As `transform.encode` gives them.
    dtype : dtype
        Of the keys.
    descending : bool
    """
    check_array(codes, "codes")
    key = device_key(dtype, descending)
    if key.has_ties:
        name = f"floor_codes<{key.order}>"
        Launch(SOURCE, name, blocks_of(codes.size), COLUMN_THREADS, (codes, np.uint64(codes.size))).run()
    return codes
