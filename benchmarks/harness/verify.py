"""Checks that an array is a sorted permutation of another: order and checksums, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np

from ..asv.data import make_chunk


@dataclass(frozen=True)
class Part:
    """Summary of one chunk. The checksums are modulo 2**64."""

    keys: int
    first: Any
    last: Any
    in_order: bool
    sum: int
    squares: int


def summarize(chunk: Any) -> Part:
    """Summarize a NumPy or CuPy chunk in few cheap passes, which hardly change the measured time.

    Its elements are integers, or strings that are words of 32 bits.
    """
    if not len(chunk):
        return Part(0, 0, 0, True, 0, 0)
    numbers = chunk.view("u4") if chunk.dtype.kind in "SU" else chunk
    words = numbers.view("u8") if numbers.itemsize == 8 else numbers.astype("u8")
    in_order = not (chunk[1:] < chunk[:-1]).any()
    return Part(len(chunk), chunk[0].item(), chunk[-1].item(), in_order, int(words.sum()), int(np.dot(words, words)))


def summarize_block(chunk: np.ndarray) -> np.ndarray:
    found = np.empty(1, object)
    found[0] = summarize(chunk)
    return found


def parts_of(array: da.Array) -> da.Array:
    """Lazy summaries of an array's chunks. The array is consumed chunk by chunk."""
    return array.map_blocks(summarize_block, dtype=object, chunks=((1,) * array.npartitions,), meta=np.empty(0, object))


def checksums(parts: Iterable[Part]) -> tuple[int, int, int]:
    """Number of keys, sum and sum of squares of all chunks."""
    held = list(parts)
    return (
        sum(part.keys for part in held),
        sum(part.sum for part in held) % 2**64,
        sum(part.squares for part in held) % 2**64,
    )


def check_sorted(found: Iterable[Any], distribution: str, n: int, chunks: int) -> list[int]:
    """Raise unless the chunks are the sorted keys of `benchmarks.asv.data.dask_keys`; return their sizes."""
    size = n // chunks
    keys = (make_chunk(number, size, size * chunks, distribution, "i8") for number in range(chunks))
    return check_parts(found, checksums(map(summarize, keys)))


def fault_of(parts: Iterable[Part], wanted: tuple[int, int, int]) -> str:
    """What is wrong with chunks that should be in order and have these checksums; empty if nothing is."""
    full = [part for part in parts if part.keys]
    if not all(part.in_order for part in full):
        return "a chunk of the result is not in order"
    if any(after.first < before.last for before, after in pairwise(full)):
        return "a chunk of the result begins below the end of the one before"
    return "" if checksums(full) == wanted else "the result does not hold the keys of the input"


def check_parts(parts: Iterable[Any], wanted: tuple[int, int, int]) -> list[int]:
    """Raise unless the chunks are in order and have these checksums; return their sizes."""
    held = list(parts)
    if fault := fault_of(held, wanted):
        raise AssertionError(fault)
    return [part.keys for part in held]


def is_sorted_permutation(keys: Any, found: Any) -> bool:
    """Whether NumPy or CuPy integers ascend and have the number, sum and sum of squares of the keys."""
    return not fault_of([summarize(found)], checksums([summarize(keys)]))


def is_stable_order(keys: Sequence[Any], positions: Any) -> bool:
    """Whether positions of NumPy or CuPy sort stably by all keys, the most significant key first. Does not sort."""
    seen = np.zeros_like(positions, dtype=bool)
    seen[positions] = True
    rising = positions[1:] > positions[:-1]
    for key in reversed(keys):
        taken = key[positions]
        rising = (taken[1:] > taken[:-1]) | ((taken[1:] == taken[:-1]) & rising)
    return positions.size == keys[0].size and bool(seen.all()) and bool(rising.all())


def check_indices(keys: Sequence[np.ndarray], indices: np.ndarray) -> None:
    if not is_stable_order(keys, indices):
        raise AssertionError("the indices are not those of a stable sort")
