"""The input arrays of a sort: flattened, concatenated and brought to the same chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import library_of
from ._dask import normalize_chunks
from .rechunk import chunk_limit, rechunk


def flatten(array: Any, axis: int | None) -> tuple[Any, int]:
    """The array itself, or for ``axis=None`` its elements in C order as one dimension."""
    if axis is not None:
        return array, axis
    if array.ndim == 1:
        return array, 0
    if array.ndim == 0:
        return array.map_blocks(np.ravel, new_axis=[0], chunks=((1,),), dtype=array.dtype, meta=array._meta.ravel()), 0
    if any(math.isnan(size) for size in array.shape):
        raise ValueError("axis=None cannot flatten chunks of unknown sizes: call compute_chunk_sizes() first")
    if array.size == 0:
        return da.from_array(array._meta.ravel()[:0], chunks=-1, asarray=False), 0
    return _in_c_order(array), 0


def _in_c_order(array: Any) -> Any:
    """Elements of an array in C order, in chunks near Dask's target size."""
    if array.ndim == 1:
        return array
    row = math.prod(array.shape[1:])
    if row * array.dtype.itemsize > chunk_limit(array):
        return da.concatenate([_in_c_order(array[index]) for index in range(array.shape[0])])
    # With whole trailing dimensions, C order of the array is C order of each chunk in turn.
    # Dask cannot choose chunks of objects, whose size it does not know: the size of their references is used.
    item = np.dtype((np.void, max(1, array.dtype.itemsize)))
    spec = ("auto",) + (-1,) * (array.ndim - 1)
    whole = rechunk(array, normalize_chunks(spec, array.shape, dtype=item, previous_chunks=array.chunks))
    sizes = tuple(size * row for size in whole.chunks[0])
    dropped = list(range(1, array.ndim))
    return whole.map_blocks(_ravel, drop_axis=dropped, chunks=(sizes,), dtype=array.dtype, meta=array._meta.ravel())


def _ravel(block: Any) -> Any:
    return block.ravel()


def concatenate_inputs(arrays: Sequence[Any]) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """Concatenate the arrays of `merge_sorted`.

    Parameters
    ----------
    arrays : sequence of one-dimensional dask arrays, not empty

    Returns
    -------
    dask array
    tuple of (number, chunks)
        The arrays that are not empty, and how many of its chunks come from each.
    """
    # Dask drops empty arrays when it concatenates.
    held = [number for number, array in enumerate(arrays) if array.size != 0] or [0]
    joined = da.concatenate([arrays[number] for number in held], allow_unknown_chunksizes=True)
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) == 1 and joined.dtype not in dtypes:
        # Concatenation makes swapped byte orders native and padded records packed.
        joined = joined.astype(*dtypes)
    # Of an array of one key, beside others, Dask drops the empty chunks.
    single = {number for number in held if arrays[number].size == 1 and len(held) > 1}
    return joined, tuple((number, 1 if number in single else arrays[number].numblocks[0]) for number in held)


def companion(keys: Any, value: Any, number: int) -> Any:
    """A value array in the keys' chunks, with its trailing dimensions whole.

    Parameters
    ----------
    keys, value : dask arrays
    number : int
        Number of the value array, for error messages.

    Raises
    ------
    TypeError
        If one array has NumPy chunks and the other CuPy chunks.
    ValueError
        If the shapes do not match, or chunks of unknown sizes differ in number.
    """
    if library_of(value._meta) != library_of(keys._meta):
        raise TypeError(
            f"keys of {library_of(keys._meta)} chunks and values of {library_of(value._meta)} chunks: move one of "
            "them, with map_blocks(cupy.asarray) or map_blocks(cupy.asnumpy)"
        )
    lead = value.shape[: keys.ndim]
    if not _sizes_match(lead, keys.shape) or (keys.ndim > 1 and value.ndim != keys.ndim):
        raise ValueError(
            f"values {number} of shape {value.shape} do not fit keys of shape {keys.shape}: "
            "their shapes must be the same, or for one-dimensional keys their first dimensions"
        )
    unknown = any(math.isnan(size) for size in (*lead, *keys.shape))
    if unknown and value.numblocks[: keys.ndim] != keys.numblocks:
        raise ValueError(
            "keys and values of unknown chunk sizes have different numbers of chunks: call compute_chunk_sizes()"
        )
    wanted = {dim: keys.chunks[dim] for dim in range(keys.ndim)} if not unknown else {}
    whole = {dim: -1 for dim in range(keys.ndim, value.ndim) if value.numblocks[dim] > 1}
    return rechunk(value, {**wanted, **whole}) if wanted or whole else value


def same_chunks(template: Any, array: Any, name: str) -> Any:
    """An array of the template's shape, in the template's chunks.

    Raises
    ------
    ValueError
        If the shapes differ, or chunks of unknown sizes differ in number.
    """
    if not _sizes_match(array.shape, template.shape):
        raise ValueError(
            f"all keys need to be the same shape: {name} has shape {array.shape}, the last key {template.shape}"
        )
    if not any(map(math.isnan, (*array.shape, *template.shape))):
        return array if array.chunks == template.chunks else rechunk(array, template.chunks)
    if array.numblocks != template.numblocks:
        raise ValueError(
            f"{name} and the last key, of unknown chunk sizes, have different numbers of chunks: "
            "call compute_chunk_sizes()"
        )
    return array


def _sizes_match(shape: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two shapes are equal; an unknown size (nan) matches any."""
    return len(shape) == len(other) and all(
        a == b or math.isnan(a) or math.isnan(b) for a, b in zip(shape, other, strict=True)
    )


def output_chunks(keys: Any, chunks: Any) -> tuple[tuple[Any, ...], ...]:
    """Chunks of the sorted array, from the argument ``chunks`` with its axes resolved.

    Raises
    ------
    ValueError, TypeError
        If `chunks` is not what `dask.array.Array.rechunk` takes for the keys' shape, or if chunk sizes are unknown.
    """
    if chunks is None:
        return keys.chunks
    if any(math.isnan(size) for size in keys.shape):
        raise ValueError("chunks= needs an array of known chunk sizes: call compute_chunk_sizes() first")
    if isinstance(chunks, (list, tuple)) and len(chunks) == keys.ndim:
        chunks = tuple(old if new is None else new for new, old in zip(chunks, keys.chunks, strict=True))
    try:
        return normalize_chunks(_as_tuple(chunks), keys.shape, dtype=keys.dtype, previous_chunks=keys.chunks)
    except (TypeError, AttributeError, ValueError, ZeroDivisionError) as error:
        kind = TypeError if isinstance(error, (TypeError, AttributeError)) else ValueError
        raise kind(
            f"chunks must be what rechunk takes for shape {keys.shape}: an int, a tuple, a dict or 'auto' "
            f"(got {chunks!r}: {error})"
        ) from error


def _as_tuple(chunks: Any) -> Any:
    # Dask hashes chunks, and lists and arrays are not hashable.
    if isinstance(chunks, np.ndarray):
        return _as_tuple(chunks.tolist())
    return tuple(map(_as_tuple, chunks)) if isinstance(chunks, (list, tuple)) else chunks
