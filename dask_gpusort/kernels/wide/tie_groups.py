"""Keys that tie in a word, sorted by the words that follow.

The first word sorts all keys by radix. Where few of them tie, nothing is touched but those::

    resolve_ties    one look at the sorted word: sorts stretches of up to 8 keys, counts the keys of longer ones
    list_ties      if there are any: their places, and the number of the stretch each is in
    for each further word
        make_word, a sort by (stretch, word)     of those keys alone
        resolve_ties, list_ties                   of their words, while there are more
    put_back       into their places
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import device_key
from ..keys.transform import gather
from ..launch.cxx_types import type_of_bytes
from ..launch.launch import Launch, Readback
from ..launch.loader import require_cupy
from ..msd.indexed import sort_indexed
from ..primitives.scan import exclusive_scan
from .columns import WORD_BITS, Columns, Share

SOURCE = "wide/tie_groups.cu"
TIE_THREADS, TIE_KEYS = 256, 8  # kTieThreads, kTieKeys in ties.cu
MOST_SHORT = 8  # kMostShort in ties.cu
STRETCH_SHIFT = 32  # kStretchShift in ties.cu
PUT_TYPES = {8: "u64", 16: "ComplexKey"}


@dataclass(frozen=True)
class TieResolver:
    """How keys are compared in the stretches that are sorted where they stand.

    Attributes
    ----------
    order : str
        C++ name in ties.cu.
    keys : cupy.ndarray, optional
        What it looks at.
    width : int
        Words of a row, where the keys are rows.
    elements : cupy.ndarray, optional
        What is sorted: positions, or the keys themselves.
    """

    order: str = "Listed"
    keys: Any = None
    width: int = 0
    elements: Any = None

    @property
    def most(self) -> int:
        """Keys of the longest stretch that is sorted."""
        return 1 if self.order == "Listed" else MOST_SHORT


@dataclass(frozen=True)
class Ties:
    """Keys that tie: `places` (int64) ascend, `stretch` (uint32) numbers what ties, in `bits` bits."""

    places: Any
    stretch: Any
    bits: int


def resolve_ties(words: Any, stretch: Any, resolver: TieResolver) -> Ties | None:
    """Sort short stretches of keys that tie in sorted words, and list longer ones; `None` where there are none.

    Parameters
    ----------
    words : cupy.ndarray, shape (n,), uint32 or uint64
    stretch : cupy.ndarray, shape (n,), uint32, or None
        Keys tie only within these.
    resolver : TieResolver
        Of the keys in the order of the words.
    """
    cupy, n = require_cupy(), words.size
    word, blocks = type_of_bytes(words.itemsize), -(-n // (TIE_THREADS * TIE_KEYS))
    counts, total = cupy.empty(blocks, np.uint64), cupy.zeros(1, np.uint64)
    sorted_words = words, stretch, np.uint64(n)
    compared = resolver.keys, np.uint64(resolver.width), resolver.elements
    name = f"resolve_ties<{word}, {resolver.order}>"
    Launch(SOURCE, name, blocks, TIE_THREADS, (*sorted_words, *compared, counts, total)).run()
    stretches, tied = divmod(Readback(total).wait()[0], 1 << STRETCH_SHIFT)
    if not tied:
        return None
    exclusive_scan(counts)
    places, numbers = cupy.empty(tied, np.int64), cupy.empty(tied, np.uint32)
    listed = counts, total, places, numbers
    Launch(SOURCE, f"list_ties<{word}, {resolver.most}>", blocks, TIE_THREADS, (*sorted_words, *listed)).run()
    return Ties(places, numbers, (stretches - 1).bit_length())


def break_ties(columns: Columns, words: Sequence[Sequence[Share]], first: Any, resolver: TieResolver) -> None:
    """Sort, within each stretch of keys that tie in the first word, by the further words.

    Parameters
    ----------
    columns : Columns
        Of the keys in input order if the resolver's elements are positions, else of the keys as they stand.
    words : sequence of words
        The further ones; one at least.
    first : cupy.ndarray, shape (n,), uint64
        The first word, or keys in its order, sorted.
    resolver : TieResolver
        Its elements are what is sorted.
    """
    ties = resolve_ties(first, None, resolver)
    if ties is None:
        return
    places, moved = ties.places, resolver.elements
    by_position = moved.dtype == np.int64
    elements = gather(moved, places) if by_position else places
    within = None  # of the listed keys, those that tie still; at first all
    for left, shares in zip(reversed(range(len(words))), words, strict=True):
        chosen = elements if within is None else gather(elements, within)
        order, ordered, stretch = sort_in_stretches(columns, shares, chosen, ties)
        chosen = gather(chosen, order)
        if within is None:
            elements = chosen
        else:
            put_back(chosen, within, elements)
        further = resolve_ties(ordered, stretch, TieResolver()) if left else None
        if further is None:
            break
        within = further.places if within is None else gather(within, further.places)
        ties = further
    put_back(elements if by_position else gather(moved, elements), places, moved)


def sort_in_stretches(columns: Columns, shares: Sequence[Share], elements: Any, ties: Ties) -> tuple[Any, Any, Any]:
    """Stable sort by (stretch, word) of keys whose stretches ascend.

    Returns
    -------
    order : int64, shape (n,)
        Where each key was.
    words : shape (n,)
        Sorted; keys that tie are equal in them, within stretches.
    stretch : uint32, shape (n,), or None
        Those stretches, where they are not a part of the words.
    """
    cupy = require_cupy()
    n, is_part = elements.size, ties.bits + sum(share.bits for share in shares) <= WORD_BITS
    word = columns.make_word(shares, elements, *((ties.stretch, ties.bits) if is_part else (None, 0)))
    order, ordered = cupy.empty(n, np.int64), cupy.empty_like(word)
    sort_word(word, order, ordered)
    if is_part:
        return order, ordered, None
    by_stretch = cupy.empty(n, np.int64)
    sort_word(gather(ties.stretch, order), by_stretch, None)
    return gather(order, by_stretch), gather(ordered, by_stretch), ties.stretch


def sort_word(word: Any, positions: Any, sorted_word: Any) -> None:
    """Stable argsort of unsigned words, which also come out sorted if asked for."""
    sort_indexed(word, device_key(word.dtype), "long long", positions, sorted_word)


def put_back(values: Any, places: Any, out: Any) -> None:
    """`out[places] = values`, of 8 or 16 bytes."""
    name, n = f"put_back<{PUT_TYPES[values.itemsize]}>", values.size
    Launch(SOURCE, name, -(-n // TIE_THREADS), TIE_THREADS, (values, places, out, np.uint64(n))).run()
