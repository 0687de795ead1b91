"""Steps on one chunk with one code for NumPy and CuPy: on the steps of its library, and on functions that dispatch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, TypeAlias

import numpy as np

from ..order import Order, of_words
from ..table import Candidates, Digits, IntArray, RankSummary, Side
from . import numpy_words, ops_for
from .labels import on_host
from .numpy_columns import Column, codes_of, columns_of
from .numpy_keys import differ
from .run import Run, concatenate

SIDES: tuple[Side, Side] = ("left", "right")
#: The size of a run, some of its keys, and their positions.
DrawnKeys: TypeAlias = tuple[int, np.ndarray, IntArray]


def check_lengths(block: Any, values: Sequence[Any], dims: int = 1) -> None:
    """Refuse companions that differ from the keys in the size of one of the first dimensions."""
    for value in values:
        if value.shape[:dims] != block.shape[:dims]:
            keys, others = (" x ".join(map(str, array.shape[:dims])) for array in (block, value))
            raise ValueError(
                f"a chunk of {keys} keys has {others} values: "
                "keys and values must have the same chunks, so call compute_chunk_sizes() and rechunk, "
                "or if they are not the same each time they are computed, persist them"
            )


def check_key_shapes(blocks: Sequence[Any]) -> None:
    """Refuse several keys of one chunk that differ in shape."""
    shapes = {block.shape for block in blocks}
    if len(shapes) > 1:
        raise ValueError(
            f"a chunk has keys of shapes {', '.join(map(str, sorted(shapes)))}: all keys must have the same chunks, so "
            "call compute_chunk_sizes() and rechunk"
        )


def first_descent(array: Any, order: Order) -> int | None:
    """Find the first key in transit that comes before its predecessor; None if the keys are sorted."""
    ops = ops_for(array)
    for start in range(0, len(array) - 1, ops.SCANNED_KEYS):
        part = array[start : start + ops.SCANNED_KEYS + 1]
        # Of keys that ascend the least of their tie classes ascend too.
        if bool(ops.before(part[1:], part[:-1], order).any()):
            part = ops.floor(part, order)
            descents = ops.before(part[1:], part[:-1], order)
            if bool(descents.any()):
                return start + 1 + int(descents.argmax())
    return None


def bound_rank(mean: float) -> int:
    """Give the rank in samples of a bound of the first keys, of which the samples have so many in the mean."""
    # The deviation is less than the root of the mean. Five deviations and five samples beyond it, in random order less
    # than one row in 10^6 has too few keys up to the bound.
    return math.ceil(mean + 5 * math.sqrt(mean)) + 5


def edges(block: Any, order: Order, axis: int) -> tuple[bool, Any, Any]:
    """Tell whether the rows of a chunk are sorted, and give the first and the last key of each row."""
    # They are the least of their tie class, of shape (rows,), or (rows, words); (0,) if rows are empty.
    ops = ops_for(block)
    keys = ops.floor(ops.encode(np.moveaxis(block, axis, 0), order), order)
    row = (-1, *keys.shape[keys.ndim - bool(order.words) :])
    # Keys of one position in all rows are contiguous, so that neighbours within rows are two slices.
    ordered = not bool(ops.before(keys[1:].reshape(row), keys[:-1].reshape(row), order).any())
    return ordered, keys[:1].reshape(row), keys[-1:].reshape(row)


def add_starts(positions: Sequence[Any], starts: Sequence[int]) -> Any:
    """Turn positions in several chunks, end to end, into int64 positions in the whole array."""
    found = np.empty_like(positions[0], shape=sum(map(len, positions)), dtype=np.int64)
    ends = pairwise(accumulate(map(len, positions), initial=0))
    for part, (first, last), start in zip(positions, ends, starts, strict=True):
        found[first:last] = part
        found[first:last] += start
    return found


def take_rows(block: Any, indices: Any, axis: int) -> Any:
    """Take a chunk's elements in the order of indices along an axis."""
    return np.take_along_axis(block, indices, axis)


def pack(parts: Sequence[Any], directions: Sequence[bool]) -> Any:
    """Pack several keys of one chunk, the most significant one first, into codes, or into words in a last dimension."""
    # They are in the order of the sort and equal where NumPy calls the keys equal; a record of columns if NumPy must
    # compare one of them. See `packed_order`.
    ops, keys = ops_for(parts[0]), zip(parts, directions, strict=True)
    packed = _join_columns([ops.columns_of(part.reshape(-1), Order(part.dtype, falls)) for part, falls in keys])[0]
    return packed.reshape(*parts[0].shape, *packed.shape[1:])


def packed_order(dtypes: Sequence[np.dtype[Any]], directions: Sequence[bool]) -> Order:
    """Give the order of the result of `pack` for keys of some dtypes."""
    keys = zip(dtypes, directions, strict=True)
    packed, descending = _join_columns([columns_of(np.empty(0, dtype), Order(dtype, falls)) for dtype, falls in keys])
    return of_words(packed.shape[1]) if packed.ndim > 1 else Order(packed.dtype, stable=True, directions=descending)


def _join_columns(keys: Sequence[Sequence[Column]]) -> tuple[Any, tuple[bool, ...]]:
    """Give the columns of several keys as one array, and the directions of its fields, if it is of records."""
    columns = list(chain.from_iterable(keys))
    codes = codes_of(columns)
    if codes is not None:
        return numpy_words.pack(codes, [column.bits for column in columns]), ()
    # A record cannot hold variable-width strings, so it holds Python strings.
    arrays = [column.values.astype(object) if column.values.dtype.kind == "T" else column.values for column in columns]
    record = np.empty(len(arrays[0]), [(f"key{number}", array.dtype) for number, array in enumerate(arrays)])
    for number, array in enumerate(arrays):
        record[f"key{number}"] = array
    return record, tuple(column.descending for column in columns)


class SortedKeys:
    """The sorted keys in transit of one run. Keys returned or passed in are the least of their tie class."""

    def __init__(self, run: Run, order: Order):
        self.array, self.order = run.keys, order

    @property
    def size(self) -> int:
        """Number of keys."""
        return len(self.array)

    def at(self, positions: IntArray) -> np.ndarray:
        """Keys at some positions, on the host."""
        raise NotImplementedError

    def search(self, needles: np.ndarray, side: Side) -> IntArray:
        """Count the keys less than ("left"), or up to ("right"), each needle; from the right any code may be one."""
        raise NotImplementedError

    def differ(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Tell elementwise whether two returned keys differ."""
        return differ(first, second, self.order)

    def ranked(self, distance: int) -> tuple[np.ndarray, IntArray, IntArray]:
        """Keys at regular positions and the last one, and the numbers of keys less than and up to each."""
        position = np.append(np.arange(0, self.size, distance), np.arange(max(self.size - 1, 0), self.size))
        found = self.at(position)
        new = np.ones(len(found), bool)
        new[1:] = self.differ(found[1:], found[:-1])
        left, right = _own_counts(self, found[new], position[new])
        distinct = np.cumsum(new) - 1
        return found, left[distinct], right[distinct]


def summarize_run(run: Run, order: Order, *, samples: int, radix_bits: int = 0) -> RankSummary:
    """Summarize a run in regular samples, and count leading digits if `radix_bits` is not 0."""
    # Regular samples bound every sub-block (Satish, Harris, Garland, IPDPS 2009, section 5.2).
    keys = ops_for(run.keys).sorted_keys(run, order)
    digits = count_digits(keys, radix_bits) if radix_bits and len(run) else None
    found, left, right = keys.ranked(max(1, -(-keys.size // samples)))
    # Keys that compare equal have the same rank.
    new = np.ones(len(found), bool)
    new[1:] = left[1:] != left[:-1]
    return RankSummary(keys.size, found[new], left[new], right[new], digits)


def draw_keys(run: Run, order: Order, *, samples: int, seed: int) -> DrawnKeys:
    """Draw one random key of each of so many equal parts of a run."""
    # At regular positions, the keys of all runs would be near each other.
    keys, parts = ops_for(run.keys).sorted_keys(run, order), min(samples, len(run))
    ends = np.arange(parts + 1) * keys.size // max(parts, 1)
    position = np.random.default_rng(seed).integers(ends[:-1], ends[1:])
    return keys.size, keys.at(position), position


def count_before(run: Run, number: int, candidates: Candidates, order: Order) -> IntArray:
    """Count the keys of the run of some number before each candidate."""
    keys = ops_for(run.keys).sorted_keys(run, order)
    left, right = (keys.search(candidates.keys, side) for side in SIDES)
    return candidates.counted(number, left, right)


def _search_ends(search: Callable[[np.ndarray, Side], IntArray], low: np.ndarray, high: np.ndarray) -> IntArray:
    """Count the keys less than and up to both ends of brackets, shape (4, brackets)."""
    # Both ends are searched at once: a search by comparisons makes as many NumPy calls for one needle as for many.
    ends = concatenate([low, high])
    (low_left, high_left), (low_right, high_right) = (np.split(search(ends, side), 2) for side in SIDES)
    # A bracket of one key has no keys between its ends.
    return np.stack([low_left, low_right, np.maximum(low_right, high_left), high_right])


def extract_sorted(keys: Any, low: np.ndarray, high: np.ndarray) -> tuple[IntArray, Any]:
    """Count and take as `extract` does, of keys that are sorted, shape (n,), NaN last."""

    def search(needles: np.ndarray, side: Side) -> IntArray:
        found: IntArray = on_host(np.searchsorted(keys, np.asarray(needles, like=keys), side))
        return found

    ends = _search_ends(search, low, high)
    _, start, stop, _ = ends
    count = stop - start
    inside = np.arange(count.sum()) + np.repeat(start - np.cumsum(count) + count, count)
    return ends, keys[np.asarray(inside, like=keys)]


def _own_counts(keys: SortedKeys, found: np.ndarray, position: IntArray) -> tuple[IntArray, IntArray]:
    """Numbers of keys less than, and up to, the keys at some positions."""
    # A key that differs from both neighbours needs no search, and reading neighbours is cheap: they are in the cache.
    left, right = position.copy(), position + 1
    before, after = np.maximum(position - 1, 0), np.minimum(right, keys.size - 1)
    tied = np.flatnonzero(~(keys.differ(keys.at(before), found) & keys.differ(keys.at(after), found)))
    left[tied] = keys.search(found[tied], "left")
    right[tied] = keys.search(found[tied], "right")
    return left, right


def count_digits(keys: SortedKeys, radix_bits: int) -> Digits:
    """Count the leading digits of codes, below the prefix shared by all of them."""
    # Bucket offsets are where the digits of neighbours differ (Satish, Harris, Garland, IPDPS 2009, section 4.2). A key
    # has the digit of the least code of its tie class, in every chunk: those before an edge are the keys up to the
    # class of the code before it.
    ends = keys.at(np.array([0, keys.size - 1]))
    first, last = int(ends[0]), int(ends[1])
    shift = max(0, (first ^ last).bit_length() - radix_bits)
    digits = np.arange(first >> shift, (last >> shift) + 1, dtype=np.uint64)
    offsets = keys.search(((digits[1:] << np.uint64(shift)) - np.uint64(1)).astype(ends.dtype), "right")
    return Digits(shift, first >> shift, np.diff(offsets, prepend=0, append=keys.size).astype(np.int64))
