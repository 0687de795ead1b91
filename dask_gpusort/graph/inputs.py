"""The input arrays of a sort: flattened, concatenated, and rechunked after their chunks are checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.tokenize import tokenize
from dask.utils import parse_bytes

from ..chunk import library_of
from ..chunk.checks import DeclaredChunk, checked_chunk
from ..plan.plan import Plan
from ..plan.terms import format_chunks, format_size
from ._dask import ArrayBlockwiseDep, normalize_chunks

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


def equal_chunks(chunks: Any, others: Any) -> bool:
    """Whether chunks are the same; an unknown size is nan, which differs from itself, and equals another one here."""
    return len(chunks) == len(others) and all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(chunks, others, strict=True)
    )


class DeclaredChunks(ArrayBlockwiseDep):
    """What an array says of its chunks, as an argument of `dask.array.blockwise`.

    Along axes that are contracted, `blockwise` asks for a list of chunks, and gets their declarations in C order.
    """

    def __init__(self, array: str, dtype: np.dtype[Any], chunks: Any, exact: bool = False) -> None:
        super().__init__(chunks)
        self.array, self.dtype, self.exact = array, dtype, exact

    def __getitem__(self, index: tuple[Any, ...]) -> DeclaredChunk | list[DeclaredChunk]:
        numbers = [number if isinstance(number, list) else [number] for number in index]
        found = [self._chunk(one) for one in product(*numbers)]
        return found if any(isinstance(number, list) for number in index) else found[0]

    def _chunk(self, index: tuple[int, ...]) -> DeclaredChunk:
        shape = tuple(sizes[number] for sizes, number in zip(self.chunks, index, strict=True))
        return DeclaredChunk(self.array, self.dtype, index, shape, self.exact)


def rechunk(array: Any, chunks: Any, limit: float | None = None) -> Any:
    """Validate the user's chunks before rechunking; once joined, mismatches are invisible.

    Dask joins small chunks before it divides them, to chunks of `limit` bytes; by default to its own target.
    """
    asked = chunks if isinstance(chunks, dict) else dict(enumerate(chunks))
    if all(sizes == array.chunks[dim] or (sizes == -1 and array.numblocks[dim] == 1) for dim, sizes in asked.items()):
        return array
    dims = tuple(range(array.ndim))
    declared = DeclaredChunks("the input", array.dtype, array.chunks, exact=True)
    checked = blockwise(checked_against, dims, array, dims, declared, dims, dtype=array.dtype, meta=array._meta)
    return rechunk_checked(checked, chunks, limit)


def checked_against(block: Any, declared: DeclaredChunk) -> Any:
    """Task: a chunk, if it is what its array says."""
    return declared.check(block)


def rechunk_checked(array: Any, chunks: Any, limit: float | None = None) -> Any:
    """Rechunk a validated array, in one step if any chunk is empty: Dask cannot plan several then."""
    if 0 in array.shape:
        # Dask leaves arrays without elements in the chunks that they have, or names them alike whose records differ.
        asked = chunks if isinstance(chunks, dict) else dict(enumerate(chunks))
        spec = tuple(asked.get(dim, sizes) for dim, sizes in enumerate(array.chunks))
        if any(map(math.isnan, array.shape)):
            raise ValueError(
                f"an array of shape {array.shape} has no elements, and chunks of unknown sizes: call its "
                "compute_chunk_sizes() first"
            )
        empty, name = np.empty_like(array._meta, shape=array.shape), f"rechunk-{tokenize(array.name, spec)}"
        return da.from_array(empty, chunks=spec, name=name, asarray=False)
    if array.dtype.itemsize == 0:
        # Dask divides by the item size when it plans, so declare one byte, and restore the dtype afterwards.
        declared = array.map_blocks(checked_chunk, None, meta=np.empty_like(array._meta, dtype=np.uint8))
        return rechunk_checked(declared, chunks).map_blocks(checked_chunk, None, meta=array._meta)
    new = chunks.values() if isinstance(chunks, dict) else chunks
    empty = any(0 in sizes for sizes in (*array.chunks, *new) if isinstance(sizes, tuple))
    return array.rechunk(chunks, ONE_STEP if empty else None, None if limit is None else int(limit))


def without_empty_chunks(value: Any) -> Any:
    """A Dask array in chunks that have elements, if it has any; other values as they are."""
    # Beside empty chunks Dask merges no axes, broadcasts no single element, and loses some of `cumsum` and `[::-1]`.
    if not isinstance(value, da.Array):
        return value
    kept = {dim: tuple(filter(None, sizes)) or (0,) for dim, sizes in enumerate(value.chunks) if 0 in sizes}
    return rechunk(value, {dim: sizes for dim, sizes in kept.items() if not math.isnan(value.shape[dim])})


#: Chunks that Dask joins before it divides them, when chunks are put into C order: 4 halve the number of tasks.
_JOINED_CHUNKS = 4


def with_axes(array: Any, axes: list[int]) -> Any:
    """The array with its axes in another order."""
    # Dask makes tasks even if nothing changes.
    return array if axes == sorted(axes) else array.transpose(axes)


def lane_by_lane(
    function: Callable[..., tuple[Any, ...]], arrays: Sequence[Any], axis: int, dims: int
) -> tuple[Any, ...]:
    """Apply a function to the lanes of some arrays of `dims` dimensions, which are broadcast, one by one: they are few.

    The first array may have further dimensions, which are part of its lanes.
    """
    axes = [*(dim for dim in range(dims) if dim != axis), axis]
    moved = [with_axes(array, [*axes, *range(dims, array.ndim)]) for array in arrays]
    return tuple(with_axes(array, np.argsort(axes).tolist()) for array in _stacked(function, moved, dims))


def _stacked(function: Callable[..., tuple[Any, ...]], arrays: Sequence[Any], dims: int) -> tuple[Any, ...]:
    if dims == 1:
        return function(*arrays)
    sizes = {array.shape[0] for array in arrays} - {1} or {1}
    if any(map(math.isnan, sizes)):
        raise ValueError(
            "indices or arr has chunks of unknown sizes, where arr has several chunks along the axis: call "
            "compute_chunk_sizes() on it first"
        )
    (count,) = sizes
    lanes = [
        _stacked(function, [array[index if array.shape[0] > 1 else 0] for array in arrays], dims - 1)
        for index in range(count)
    ]
    # Stacking makes swapped byte orders native and padded records packed.
    return tuple(
        da.stack(column, axis=0, allow_unknown_chunksizes=True).astype(column[0].dtype)
        for column in zip(*lanes, strict=True)
    )


def blockwise(function: Callable[..., Any], dims: Sequence[int], *inputs: Any, **options: Any) -> Any:
    """As `dask.array.blockwise`, of chunks that are aligned; a task gets lists of those along contracted axes."""
    return da.blockwise(function, dims, *inputs, concatenate=False, align_arrays=False, **options)


def flatten(array: Any, axis: int | None) -> tuple[Any, int]:
    """The array itself, or for ``axis=None`` its elements in C order as one dimension."""
    if axis is not None:
        return array, axis
    if array.ndim == 1:
        return array, 0
    if array.ndim == 0:
        return array.map_blocks(np.ravel, new_axis=[0], chunks=((1,),), dtype=array.dtype, meta=array._meta.ravel()), 0
    if any(math.isnan(size) for size in array.shape):
        raise ValueError(
            f"an array of {array.ndim} dimensions and chunks of unknown sizes cannot be flattened: "
            "call its compute_chunk_sizes() first"
        )
    if array.size == 0:
        return da.from_array(array._meta.ravel()[:0], chunks=-1, asarray=False), 0
    return _in_c_order(array), 0


def _in_c_order(array: Any) -> Any:
    """Elements of an array of several dimensions in C order, in chunks of about as many as the array's chunks have."""
    chunks, divided = _chunks_in_c_order(array)
    limit = min(_JOINED_CHUNKS * largest_chunk(array), chunk_limit(array))
    array = rechunk(array, chunks, max(limit, 1))
    if divided + 1 < array.ndim:
        row = math.prod(array.shape[divided + 1 :])
        sizes = (*array.chunks[:divided], tuple(size * row for size in array.chunks[divided]))
        meta = array._meta.reshape((0,) * len(sizes))
        dropped = list(range(divided + 1, array.ndim))
        array = array.map_blocks(_merge_axes, divided, drop_axis=dropped, chunks=sizes, dtype=array.dtype, meta=meta)
    return _blocks_in_a_row(array)


def _blocks_in_a_row(array: Any) -> Any:
    """An array whose axes but the last are in chunks of one element, as one dimension: blocks only move."""
    if array.ndim == 1:
        return array
    if da.array_expr_enabled():  # such arrays have no reshape
        return da.concatenate([_blocks_in_a_row(array[index]) for index in range(array.shape[0])])
    return _reshape(array, (-1,))


def _reshape(array: Any, shape: tuple[int, ...]) -> Any:
    """Reshape an array that has elements; where it has one, Dask's own reshape fails on empty chunks."""
    return (array if array.size > 1 else array.rechunk(-1)).reshape(shape)


def shaped_as(found: Any, array: Any) -> Any:
    """Give elements in C order the shape and the chunks of an array."""
    if math.isnan(array.size):
        return found
    return (found if found.ndim == array.ndim else _reshape(found, array.shape)).rechunk(array.chunks)


def _chunks_in_c_order(array: Any) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Find chunks that are each contiguous in C order, and the axis that they divide."""
    # The axes before it are in chunks of one element, those behind it are whole. The array's own chunks are kept if
    # they are so; others have at most as many elements as the largest of the array's.
    rows = [math.prod(array.shape[dim + 1 :]) for dim in range(array.ndim)]
    divided = next((dim for dim, sizes in enumerate(array.chunks) if set(sizes) != {1}), array.ndim - 1)
    if all(count == 1 for count in array.numblocks[divided + 1 :]):
        return array.chunks, divided
    most = math.prod(max(sizes) for sizes in array.chunks)
    divided = next(dim for dim, row in enumerate(rows) if row <= most)
    size = array.shape[divided]
    ends = np.linspace(0, size, math.ceil(size / (most // rows[divided])) + 1).astype(int)
    behind = tuple((size,) for size in array.shape[divided + 1 :])
    return (*((1,) * size for size in array.shape[:divided]), tuple(np.diff(ends).tolist()), *behind), divided


def flat_plan(array: Any, axis: int | None) -> Plan:
    """How an array of several dimensions is flattened; empty if it is not."""
    if axis is not None or array.ndim < 2 or array.size == 0:
        return Plan()
    flat = flatten(array, None)[0]
    chunks = format_chunks(math.prod(array.numblocks))
    if _chunks_in_c_order(array)[0] == array.chunks:
        return Plan(given={"flat": f"{chunks}, in C order as they are"})
    how = f"{chunks} rechunked to {flat.numblocks[0]:,} in C order, of at most {format_size(largest_chunk(flat))}"
    return Plan(given={"flat": how}, notes=(f"flattened first, which the peak does not count: {how}",))


def _merge_axes(block: Any, before: int) -> Any:
    """Task: a chunk whose axes behind the first ones, which are of one element, are one."""
    return block.reshape(*(1,) * before, -1)


def concatenated_dtype(arrays: Sequence[Any]) -> np.dtype[Any]:
    """Find the dtype that NumPy gives arrays end to end; empty ones count."""
    return np.concatenate([np.empty(0, array.dtype) for array in arrays]).dtype


def concatenate_inputs(arrays: Sequence[Any]) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """Concatenate the arrays of `merge_sorted`, and list (number, chunks) of those that are not empty."""
    dtype = concatenated_dtype(arrays)
    # Dask drops empty arrays when it concatenates.
    held = [number for number, array in enumerate(arrays) if array.size != 0] or [0]
    joined = da.concatenate([arrays[number] for number in held], allow_unknown_chunksizes=True)
    if joined.dtype != dtype:
        # Dask leaves empty arrays out.
        joined = joined.astype(dtype)
    # Of an array of one key, beside others, Dask drops the empty chunks.
    single = {number for number in held if arrays[number].size == 1 and len(held) > 1}
    return joined, tuple((number, 1 if number in single else arrays[number].numblocks[0]) for number in held)


def check_library(arrays: Mapping[str, Any]) -> None:
    """Refuse arrays of NumPy chunks beside arrays of CuPy chunks; their names are for error messages."""
    (first, own), *others = ((name, library_of(array._meta)) for name, array in arrays.items())
    for name, library in others:
        if library != own:
            raise TypeError(
                f"{first} has {own} chunks and {name} {library} chunks: move one of them, with "
                "map_blocks(cupy.asarray) or map_blocks(cupy.asnumpy)"
            )


def companion(keys: Any, value: Any, number: int) -> Any:
    """Give a value array in the keys' chunks, with its trailing dimensions whole; `number` names it in errors."""
    check_library({"keys": keys, f"values {number}": value})
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
    if unknown and value.chunks[: keys.ndim] != keys.chunks and not da.array_expr_enabled():
        # Dask refuses to pair a known size with an unknown one; tasks check that they are the same.
        chunks = (*keys.chunks, *value.chunks[keys.ndim :])
        value = da.Array(value.dask, value.name, chunks, meta=value._meta)
    wanted = {dim: keys.chunks[dim] for dim in range(keys.ndim)} if not unknown else {}
    whole = {dim: -1 for dim in range(keys.ndim, value.ndim) if value.numblocks[dim] > 1}
    return rechunk(value, {**wanted, **whole}) if wanted or whole else value


def same_chunks(chunks: tuple[tuple[Any, ...], ...], array: Any, name: str, template: str) -> Any:
    """Give an array in the chunks of another one of the same shape; both have names, for error messages."""
    shape = tuple(map(sum, chunks))
    if not _sizes_match(array.shape, shape):
        raise ValueError(f"all keys need to be the same shape: {name} has shape {array.shape}, {template} {shape}")
    if not any(map(math.isnan, (*array.shape, *shape))):
        return array if array.chunks == chunks else rechunk(array, chunks)
    if array.numblocks != tuple(map(len, chunks)):
        raise ValueError(
            f"{name} and {template}, of unknown chunk sizes, have different numbers of chunks: "
            "call compute_chunk_sizes()"
        )
    return array


def _sizes_match(shape: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two shapes are equal; an unknown size (nan) matches any."""
    return len(shape) == len(other) and all(
        a == b or math.isnan(a) or math.isnan(b) for a, b in zip(shape, other, strict=True)
    )


def output_chunks(keys: Any, chunks: Any) -> tuple[tuple[Any, ...], ...]:
    """Find the chunks of the sorted array from the argument ``chunks``, whose axes are resolved already."""
    if chunks is None:
        return keys.chunks
    if any(math.isnan(size) for size in keys.shape):
        raise ValueError("chunks= needs an array of known chunk sizes: call compute_chunk_sizes() first")
    if isinstance(chunks, (list, tuple)) and len(chunks) == keys.ndim:
        chunks = tuple(old if new is None else new for new, old in zip(chunks, keys.chunks, strict=True))
    try:
        found = normalize_chunks(_as_tuple(chunks), keys.shape, dtype=keys.dtype, previous_chunks=keys.chunks)
        if min(map(min, found)) < 0:
            raise ValueError("chunk sizes must not be negative")
        return found
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
