"""Errors of chunks that do not match their array's metadata, or that changed since they were counted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

#: The remedy if an input changes.
REMEDY = "persist it, or give its random numbers a seed"


def checked_chunk(
    block: Any,
    dtype: np.dtype[Any] | None,
    what: str = "a chunk of the input",
    exact: bool = False,
    ndim: int | None = None,
    sizes: Mapping[int, float] = MappingProxyType({}),
) -> Any:
    """Check a chunk against what its array says, and give it: dtype and number of dimensions, of which None is any.

    The byte order may differ. `sizes` are those along some axes, nan where unknown; `what` names the chunk in errors.
    """
    if not hasattr(block, "dtype"):
        name = type(block).__name__
        raise TypeError(f"{what} is of type {name} where an array is needed: let its function return one")
    if ndim is not None and block.ndim != ndim:
        raise ValueError(
            f"{what} has shape {block.shape} where its array is {ndim}-dimensional: let its function return such an "
            "array, or give map_blocks the true chunks= and meta="
        )
    if isinstance(block, np.ma.MaskedArray):
        raise TypeError(
            f"{what} is a masked array where its array says it is not, and masked elements are not left out: "
            "fill them first, with dask.array.ma.filled"
        )
    block = _of_dtype(block, dtype, what, exact)
    if any(block.shape[axis] != size and not math.isnan(size) for axis, size in sizes.items()):
        said = tuple(sizes.get(axis, math.nan) for axis in range(block.ndim))
        raise ValueError(
            f"{what} has shape {block.shape} where its array says {said}: give map_blocks the true chunks=, "
            f"or call compute_chunk_sizes(); if it is not the same each time it is computed, {REMEDY}"
        )
    return block


def _of_dtype(block: Any, dtype: np.dtype[Any] | None, what: str, exact: bool) -> Any:
    if dtype is None or block.dtype == dtype or np.can_cast(block.dtype, dtype, "equiv"):
        return block
    # With `exact`, strings get the declared length, and must not be longer: sorts accept any, but Dask truncates when
    # it joins chunks, and several keys are packed in columns of the declared lengths.
    if block.dtype.kind == dtype.kind and dtype.kind in "SU":
        if not exact:
            return block
        if block.dtype.itemsize < dtype.itemsize:
            return block.astype(dtype)
    raise TypeError(
        f"{what} has dtype {block.dtype} where its array says {dtype}: give map_blocks the true dtype= and "
        f"meta=, or let its function return chunk.astype({str(dtype)!r})"
    )


@dataclass(frozen=True, slots=True)
class DeclaredChunk:
    """Say what an array declares of one of its chunks."""

    array: str  # its name in error messages
    dtype: np.dtype[Any] | None  # None accepts any
    index: tuple[int, ...]  # of the chunk, in each dimension
    shape: tuple[float, ...]  # nan where unknown
    exact: bool = False  # as for `checked_chunk`

    @property
    def name(self) -> str:
        """Its name in error messages."""
        numbers = tuple(map(int, self.index))
        return f"chunk {numbers[0] if len(numbers) == 1 else numbers} of {self.array}" if numbers else self.array

    def check(self, block: Any) -> Any:
        """Give the chunk, if it is what the array says."""
        sizes = dict(enumerate(self.shape))
        return checked_chunk(block, self.dtype, self.name, self.exact, len(self.shape), sizes)


class Blocks(NamedTuple):
    """Hold chunks, and what their arrays say of them."""

    blocks: Sequence[Any]
    declared: Sequence[DeclaredChunk]

    def checked(self) -> list[Any]:
        """The chunks, if they are what their arrays say."""
        return [one.check(block) for block, one in zip(self.blocks, self.declared, strict=True)]

    @property
    def names(self) -> list[str]:
        """Names of the chunks in error messages."""
        return [one.name for one in self.declared]


def declared_chunks(
    array: str, dtype: np.dtype[Any] | None, chunks: Sequence[Sequence[float]], exact: bool = False
) -> list[DeclaredChunk]:
    """What an array says of its chunks, in C order."""
    pairs = zip(np.ndindex(*map(len, chunks)), product(*chunks), strict=True)
    return [DeclaredChunk(array, dtype, index, shape, exact) for index, shape in pairs]


def only_chunk(block: Any) -> Any:
    """The chunk inside nested lists, one for each axis that `dask.array.blockwise` contracts."""
    while isinstance(block, list):
        (block,) = block
    return block


def wrong_size(what: str, expected: float) -> ValueError:
    """The error for a chunk whose length differs from its chunk size.

    A chunk that was lost and changed when it was computed again, together with its counts, looks the same.
    """
    return ValueError(
        f"{what} where its chunk size says {expected:.0f}: call compute_chunk_sizes() on it before sorting, "
        f"or if it is not the same each time it is computed, {REMEDY}"
    )


def changed_source(what: str) -> RuntimeError:
    """The error for an input that differs each time it is computed."""
    return RuntimeError(f"{what}: the input changes when it is computed again; {REMEDY}")
