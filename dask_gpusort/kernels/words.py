"""Wide keys on the device: several columns compared one after the other.

The columns' codes are laid side by side, each as wide as its observed range (less the low bits that all its codes
share, as whole numbers in floats do), and the string of bits is cut into words of 64 bits. The first word sorts all
keys by radix; each later one only those that still tie::

    lexsort of u32, u32               64 bits      one word: a radix argsort
    complex128, lexsort of f64s       128 or more  a radix argsort of the first word, and the ties, if there are any

Sorting by radix, word by word, beats merging the wide keys: a level of merging moves 16 bytes a key and there are 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import check_array, check_indexable, prepare_out
from .dtypes import DeviceKey, device_key
from .loader import launch, require_cupy
from .pairs import sort_indexed, sort_pairs
from .transform import gather

SOURCE = "words.cu"
COLUMN_THREADS = 256  # kColumnThreads in words.cu
MEASURE_BLOCKS = 1024  # some for each multiprocessor, few enough that their atomics are nothing
WORD_BITS = 64
NARROW_BITS = 32  # strings up to this long are sorted as 32-bit keys


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
class Bits:
    """A share of a word: `bits` bits of (a column's code - `least`), above the `drop` lowest."""

    column: Column
    least: int
    drop: int
    bits: int


def blocks_of(n: int) -> int:
    """Blocks of a kernel with one thread an element."""
    return -(-n // COLUMN_THREADS)


@dataclass(frozen=True)
class Width:
    """Which bits of (a column's code - `least`) vary: `bits` of them, above the `zeros` lowest, which do not."""

    least: int
    zeros: int
    bits: int


def measure(columns: Sequence[Column], n: int) -> list[Width]:
    """The bits of each column's codes that tell keys apart."""
    ranges = require_cupy().zeros((len(columns), 3), np.uint64)
    blocks = min(blocks_of(n), MEASURE_BLOCKS)
    for column, found in zip(columns, ranges, strict=True):
        arguments = (column.keys, np.uint64(column.stride), np.uint64(n), found)
        launch(SOURCE, f"measure_column<{column.key.order}>", blocks, COLUMN_THREADS, arguments)
    return [width_of(*map(int, found)) for found in ranges.get()]


def width_of(least_complement: int, greatest: int, differing: int) -> Width:
    """The width of a column from what measure_column gives."""
    least = (1 << WORD_BITS) - 1 - least_complement
    zeros = (differing & -differing).bit_length() - 1 if differing else 0
    return Width(least, zeros, max(0, greatest - least).bit_length() - zeros)


def lay_out(columns: Sequence[Column], n: int) -> list[list[Bits]]:
    """Cut the string of all columns' bits into words.

    Returns
    -------
    list of lists of Bits
        Words, the most significant first, each of 64 bits but for the last; none if all keys are equal.
    """
    if sum(column.bits for column in columns) <= WORD_BITS:
        widths = [Width(0, 0, column.bits) for column in columns]
    else:
        widths = measure(columns, n)
    words: list[list[Bits]] = [[]]
    room = WORD_BITS
    for column, width in zip(columns, widths, strict=True):
        left = width.bits
        while left > 0:
            if not room:
                words.append([])
                room = WORD_BITS
            bits = min(left, room)
            left, room = left - bits, room - bits
            words[-1].append(Bits(column, width.least, width.zeros + left, bits))
    return [word for word in words if word]


def make_word(shares: Sequence[Bits], n: int, positions: Any = None) -> Any:
    """The word of every key, or of the keys at positions: uint32 or uint64, shape (n,)."""
    narrow = sum(share.bits for share in shares) <= NARROW_BITS
    word = require_cupy().empty(n, np.uint32 if narrow else np.uint64)
    for i, share in enumerate(shares):
        column, numbers = share.column, (share.least, share.drop, (1 << share.bits) - 1, share.bits)
        name = f"append_column<{column.key.order}, {'u32' if narrow else 'u64'}, {str(i == 0).lower()}>"
        scalars = tuple(np.uint64(number) for number in numbers)
        arguments = (column.keys, np.uint64(column.stride), positions, np.uint64(n), *scalars, word)
        launch(SOURCE, name, blocks_of(n), COLUMN_THREADS, arguments)
    return word


def sort_word(word: Any, positions: Any, sorted_word: Any) -> None:
    """Stable argsort of unsigned words, which also come out sorted if asked for."""
    sort_indexed(word, device_key(word.dtype), "long long", positions, sorted_word)


def argsort_columns(columns: Sequence[Column], n: int, out: Any) -> Any:
    """Stable permutation that sorts keys by all their columns.

    Parameters
    ----------
    columns : sequence of Column
        The most significant first.
    n : int
        Keys; more than none.
    out : cupy.ndarray, shape (n,), int64
        Receives the positions.
    """
    cupy = require_cupy()
    words = lay_out(columns, n)
    if not words:
        out[...] = cupy.arange(n, dtype=np.int64)
        return out
    word = make_word(words[0], n)
    ordered = cupy.empty_like(word) if len(words) > 1 else None
    sort_word(word, out, ordered)
    del word
    if len(words) == 1:
        return out
    starts = mark_starts(ordered)
    if starts is not None:
        break_ties(words[1:], out, starts)
    return out


def mark_starts(ordered: Any) -> Any | None:
    """Where a sorted word differs from the one before it: bool, shape (n,); `None` where all do."""
    cupy = require_cupy()
    n = ordered.size
    starts = cupy.empty(n, np.bool_)
    ties = cupy.zeros(1, np.uint64)
    arguments = (ordered, np.uint64(n), starts, ties)
    launch(SOURCE, "mark_starts<u64>", blocks_of(n), COLUMN_THREADS, arguments)
    return starts if int(ties.get()[0]) else None


def break_ties(words: Sequence[Sequence[Bits]], positions: Any, starts: Any) -> None:
    """Sort, within each stretch of keys that tie so far, by the further words.

    Parameters
    ----------
    words : sequence of words
    positions : int64 array, shape (n,)
        Of the keys, in the order so far; rewritten.
    starts : bool array, shape (n,)
        Where a key differs from the one before it.
    """
    cupy = require_cupy()
    for shares in words:
        ends = cupy.concatenate([starts[1:], cupy.ones(1, np.bool_)])
        tied = cupy.flatnonzero(~(starts & ends))
        if tied.size == 0:
            return
        elements, begins = gather(positions, tied), starts[tied]
        stretch = cupy.cumsum(begins.astype(np.uint32), dtype=np.uint32)
        word = make_word(shares, tied.size, elements)
        order = argsort_in_stretches(stretch, word, sum(share.bits for share in shares))
        positions[tied] = gather(elements, order)
        word = gather(word, order)
        begins[1:] |= word[1:] != word[:-1]
        starts[tied] = begins


def argsort_in_stretches(stretch: Any, word: Any, bits: int) -> Any:
    """Stable permutation by (stretch, word); stretches ascend already, words have `bits` bits."""
    cupy = require_cupy()
    n = word.size
    order = cupy.empty(n, np.int64)
    if int(stretch[-1:].get()[0]).bit_length() + bits <= WORD_BITS:
        sort_word(stretch.astype(np.uint64) << np.uint64(bits) | word.astype(np.uint64), order, None)
        return order
    by_stretch = cupy.empty(n, np.int64)
    sort_word(word, order, None)
    sort_word(gather(stretch, order), by_stretch, None)
    return gather(order, by_stretch)


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
    return argsort_columns([Column(words[:, w], key, width) for w in range(width)], n, out)


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
    launch(
        SOURCE,
        f"search_words<{str(side == 'right').lower()}>",
        blocks_of(len(needles)),
        COLUMN_THREADS,
        (words, *lengths, needles, ranks, np.uint64(len(needles))),
    )
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
    return argsort_columns(columns[::-1], n, out) if n else out


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
    words = require_cupy().empty((keys.size, 2), np.uint64)
    encode_complex(keys, words[:, 0], words[:, 1], 2, descending, closed=False)
    return words


def check_complex(keys: Any) -> None:
    """Raise unless these are complex128 keys."""
    check_array(keys, "keys")
    if keys.dtype != np.complex128:
        raise TypeError(f"`keys` are {keys.dtype}; wide keys are complex128, others have a code (`encode`).")


def encode_complex(keys: Any, high: Any, low: Any, stride: int, descending: bool, *, closed: bool) -> None:
    """Both words of complex128 keys, `stride` words apart; `closed` where whole numbers should share low bits."""
    name = f"encode_complex<{str(bool(descending)).lower()}, {str(closed).lower()}>"
    arguments = (keys, high, low, np.uint64(stride), np.uint64(keys.size))
    launch(SOURCE, name, blocks_of(keys.size), COLUMN_THREADS, arguments)


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
    launch(SOURCE, name, blocks_of(needles.size), COLUMN_THREADS, arguments)
    return ranks


def check_side(side: str) -> None:
    """Raise unless a side is one of NumPy's."""
    if side not in ("left", "right"):
        raise ValueError(f"`side` is {side!r}; give 'left' or 'right'.")


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
        launch(SOURCE, name, blocks_of(codes.size), COLUMN_THREADS, (codes, np.uint64(codes.size)))
    return codes


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
    if n == 0:
        return out
    return argsort_columns(wide_columns(keys, descending), n, out)


def sort_wide(keys: Any, *, descending: bool = False, out: Any = None) -> Any:
    """Sort complex128 keys, stable; parameters as `argsort_wide`, `out` of complex128 and apart from `keys`.

    Returns
    -------
    cupy.ndarray, shape (n,), complex128
    """
    check_complex(keys)
    out = prepare_out(out, keys.shape, np.complex128)
    cupy, n = require_cupy(), keys.size
    if n == 0:
        return out
    columns = wide_columns(keys, descending)
    words = lay_out(columns, n)
    if not words:
        out[...] = keys
        return out
    ordered, _ = sort_pairs(make_word(words[0], n), keys, values_out=out)
    starts = mark_starts(ordered) if len(words) > 1 else None
    if starts is not None:
        # The further words of the keys as they stand now, in the memory of those in input order.
        encode_complex(out, columns[0].keys, columns[1].keys, 1, descending, closed=True)
        positions = cupy.arange(n, dtype=np.int64)
        break_ties(words[1:], positions, starts)
        gather(out, positions, out)
    return out


def wide_columns(keys: Any, descending: bool) -> list[Column]:
    """Both words of complex128 keys, as columns that can be told apart by few bits."""
    both = require_cupy().empty((2, keys.size), np.uint64)
    encode_complex(keys, both[0], both[1], 1, descending, closed=True)
    key = device_key(np.uint64)
    return [Column(word, key) for word in both]
