"""Sorts of wide keys: the first word sorts all keys by radix, each later word only the keys that still tie.

Radix sorts of words beat a merge sort of the wide keys, which has about 15 levels and moves 16 bytes a key in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import device_key
from ..keys.transform import gather, scatter, search_ranks
from ..launch.arrays import check_array, check_indexable, prepare_out, type_of_bytes
from ..launch.launch import Launch, Readback, blocks_for, instance, request_all
from ..launch.loader import cxx_constant, require_cupy
from ..msd.msd import sort_indexed
from ..primitives.scan import exclusive_scan
from .columns import SOURCE as COLUMNS_SOURCE
from .columns import WORD_BITS, BitField, Subset, WideKeys, WordColumns, lay_out

SOURCE = "wide/tie_groups.cu"
TIE_THREADS, TIE_TILE, SMALL_GROUP, GROUP_SHIFT = (
    cxx_constant(SOURCE, name) for name in ("kTieThreads", "kTieTile", "kSmallGroup", "kGroupShift")
)


@dataclass(frozen=True)
class TieResolver:
    """Say how the small tie groups of a sorted word are sorted, in place."""

    order: str = "ListAll"  # C++ order of ``tie_groups.cu``; ``"ListAll"`` sorts none
    keys: Any = None  # that the elements are positions of
    width: int = 0  # words of a row, if the keys are rows
    elements: Any = None  # what is sorted, in the order of the word: positions, or the keys themselves

    @property
    def most(self) -> int:
        """Keys of the largest group that is sorted."""
        return 1 if self.order == "ListAll" else SMALL_GROUP


@dataclass(slots=True)
class Ties:
    """The keys of large tie groups: their `offsets` (int64), ascending, and `groups` (uint32) of `bits` bits."""

    offsets: Any
    groups: Any
    bits: int


def resolve_ties(words: Any, groups: Any, resolver: TieResolver) -> Ties | None:
    """Sort the small tie groups of sorted words, and list the keys of large ones, if there are any."""
    # Keys of different `groups`, made by the earlier words, do not tie.
    cupy, n = require_cupy(), words.size
    word, blocks = type_of_bytes(words.itemsize), blocks_for(n, TIE_TILE)
    counts, total = cupy.empty(blocks, np.uint64), cupy.zeros(1, np.uint64)
    prefix = words, groups, np.uint64(n)
    compared = resolver.keys, np.uint64(resolver.width), resolver.elements
    name = instance("resolve_ties", word, resolver.order)
    Launch(SOURCE, name, blocks, TIE_THREADS, (*prefix, *compared, counts, total)).run()
    num_groups, tied = divmod(Readback(total).wait()[0], 1 << GROUP_SHIFT)
    if not tied:
        return None
    exclusive_scan(counts)
    offsets, numbers = cupy.empty(tied, np.int64), cupy.empty(tied, np.uint32)
    listed = counts, total, offsets, numbers
    Launch(SOURCE, instance("list_ties", word, resolver.most), blocks, TIE_THREADS, (*prefix, *listed)).run()
    return Ties(offsets, numbers, (num_groups - 1).bit_length())


def request_ties(order: str) -> None:
    """Start to compile what sorts and lists the tie groups of words of 64 bits, by a C++ order."""
    request_all(SOURCE, instance("resolve_ties", "u64", order), instance("list_ties", "u64", SMALL_GROUP))


def break_ties(columns: WideKeys, words: Sequence[Sequence[BitField]], first: Any, resolver: TieResolver) -> None:
    """Sort each tie group of the first word by the later words, at least one."""
    # The columns are in input order if the resolver's elements are positions, else in theirs; `first` may be keys that
    # are ordered and tie as words do.
    ties = resolve_ties(first, None, resolver)
    if ties is None:
        return
    ranks, sorted_elements = ties.offsets, resolver.elements
    by_position = sorted_elements.dtype == np.int64
    positions = gather(sorted_elements, ranks) if by_position else ranks
    unresolved = None  # offsets in `positions` of the keys that still tie; None: all
    for later, fields in zip(reversed(range(len(words))), words, strict=True):
        chosen = positions if unresolved is None else gather(positions, unresolved)
        order, ordered, groups = sort_within_groups(columns, fields, chosen, ties)
        chosen = gather(chosen, order)
        if unresolved is None:
            positions = chosen
        else:
            scatter(chosen, unresolved, positions)
        ties = resolve_ties(ordered, groups, TieResolver()) if later else None
        if ties is None:
            break
        unresolved = ties.offsets if unresolved is None else gather(unresolved, ties.offsets)
    scatter(positions if by_position else gather(sorted_elements, positions), ranks, sorted_elements)


def sort_within_groups(
    columns: WideKeys, fields: Sequence[BitField], positions: Any, ties: Ties
) -> tuple[Any, Any, Any]:
    """Argsort keys whose groups ascend stably by (tie group, word), and give int64 order, words and groups in it."""
    # The group numbers are the most significant part of the words if both fit 64 bits; `groups` is then None.
    cupy = require_cupy()
    n, fits = positions.size, ties.bits + sum(field.bits for field in fields) <= WORD_BITS
    word = columns.make_word(fields, Subset(positions, ties.groups, ties.bits) if fits else Subset(positions))
    order, ordered = cupy.empty(n, np.int64), cupy.empty_like(word)
    sort_word(word, order, ordered)
    if fits:
        return order, ordered, None
    by_group = cupy.empty(n, np.int64)
    sort_word(gather(ties.groups, order), by_group, None)
    return gather(order, by_group), gather(ordered, by_group), ties.groups


def sort_word(word: Any, positions: Any, sorted_word: Any) -> None:
    """Argsort unsigned words stably; `sorted_word`, unless `None`, receives the sorted words."""
    sort_indexed(word, device_key(word.dtype), "long long", positions, sorted_word)


def argsort_columns(columns: WideKeys, out: Any) -> Any:
    """Argsort stably by all columns; `out` (int64, shape (n,)) receives the positions and is returned."""
    cupy = require_cupy()
    request_ties(columns.position_order()[0])
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
    return search_ranks(COLUMNS_SOURCE, "search_words", (), words, needles, side)
