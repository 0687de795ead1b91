"""Rechunking of input arrays, after their chunks are checked."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from ._dask import normalize_chunks
from .input_checks import checked_chunk, declared_chunk

#: Threshold of Dask's rechunk, a factor on the number of tasks, above which it never plans intermediate steps.
ONE_STEP = 1 << 40


def chunk_limit(keys: Any) -> float:
    """Most bytes of a chunk of whole rows: Dask's target, or the largest existing chunk if that is larger."""
    target, largest = parse_bytes(dask.config.get("array.chunk-size")), largest_chunk(keys)
    return target if math.isnan(largest) else max(target, largest)


def largest_chunk(array: Any) -> float:
    """Bytes of the largest chunk, nan if unknown."""
    return math.prod(max(sizes) for sizes in array.chunks) * float(array.dtype.itemsize)


def whole_axes(array: Any, axes: Collection[int], itemsize: int, limit: float) -> dict[int, Any]:
    """Make chunks, for `rechunk`, with whole axes and the others divided to keep chunks within `limit` bytes."""
    # Dask does not know the `itemsize` of objects. A lane along the axes may take more than the limit.
    if array.size == 0 or any(map(math.isnan, array.shape)):
        return dict.fromkeys(axes, -1)
    spec = tuple(-1 if dim in axes else "auto" for dim in range(array.ndim))
    dtype = np.dtype((np.void, max(1, itemsize)))
    chosen = normalize_chunks(spec, array.shape, limit=int(limit), dtype=dtype, previous_chunks=array.chunks)
    return dict(enumerate(chosen))


def rechunk(array: Any, chunks: Any, limit: float | None = None) -> Any:
    """Validate the user's chunks before rechunking; once joined, mismatches are invisible.

    Dask joins small chunks before it divides them, to chunks of `limit` bytes; by default to its own target.
    """
    asked = chunks if isinstance(chunks, dict) else dict(enumerate(chunks))
    if all(sizes == array.chunks[dim] or (sizes == -1 and array.numblocks[dim] == 1) for dim, sizes in asked.items()):
        return array
    checked = array.map_blocks(declared_chunk, array.dtype, array.ndim, meta=array._meta)
    return rechunk_checked(checked, chunks, limit)


def rechunk_checked(array: Any, chunks: Any, limit: float | None = None) -> Any:
    """Rechunk a validated array, in one step if any chunk is empty: Dask cannot plan several then."""
    if array.ndim and not any(array.shape):
        # Dask leaves arrays without elements in the chunks that they have.
        asked = chunks if isinstance(chunks, dict) else dict(enumerate(chunks))
        spec = tuple(asked.get(dim, sizes) for dim, sizes in enumerate(array.chunks))
        return da.from_array(np.empty_like(array._meta, shape=array.shape), chunks=spec, asarray=False)
    if array.dtype.itemsize == 0:
        # Dask divides by the item size when it plans, so declare one byte, and restore the dtype afterwards.
        declared = array.map_blocks(checked_chunk, None, meta=np.empty_like(array._meta, dtype=np.uint8))
        return rechunk_checked(declared, chunks).map_blocks(checked_chunk, None, meta=array._meta)
    new = chunks.values() if isinstance(chunks, dict) else chunks
    empty = any(0 in sizes for sizes in (*array.chunks, *new) if isinstance(sizes, tuple))
    return array.rechunk(chunks, ONE_STEP if empty else None, None if limit is None else int(limit))
