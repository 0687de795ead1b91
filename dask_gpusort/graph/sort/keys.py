"""Composite keys: several keys packed into one array, and keys that a function makes from each chunk.

Chunk by chunk, several keys become one array of codes, or of words in an added last dimension::

    keys 0   (n,) in chunks --.
    keys 1   (n,) in chunks ---+-- pack-keys, one task a chunk -->  (n,) of codes, or (n, words)
    keys 2   (n,) in chunks --'

Rows and checks use this array. The tasks of a global sort and of a join pack the keys themselves, from `Keys.parts`.

If NumPy must compare one of them (`longdouble`, `object`, `StringDType`), they become a record instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dask.array as da
import numpy as np

from ...chunk import library_of, numpy_ops, ops_for
from ...order import Order
from ..input_checks import check_key_shapes, checked_chunk


@dataclass(frozen=True)
class Keys:
    """Hold a Dask array of keys and how they are sorted."""

    array: Any  # of the shape of the sorted array; words have one more dimension, the last, in one chunk
    order: Order
    #: The arrays that are packed into `array`, most significant first, with its chunks; else empty.
    parts: tuple[Any, ...] = ()
    directions: tuple[bool, ...] = ()  # whether each of them descends

    @cached_property
    def template(self) -> Any:
        """A Dask array of the sorted array's shape and chunks, for metadata only."""
        return self.array[..., 0] if self.order.words else self.array


def pack_blocks(*blocks: Any, dtypes: Sequence[np.dtype[Any]], directions: tuple[bool, ...]) -> Any:
    """Task: pack several keys of one chunk into one."""
    parts = [checked_chunk(block, dtype, exact=True) for block, dtype in zip(blocks, dtypes, strict=True)]
    check_key_shapes(parts)
    return ops_for(blocks[0]).pack(parts, directions)


def pack_keys(arrays: Sequence[Any], directions: Sequence[bool]) -> Keys:
    """Pack several arrays of keys, the most significant one first, into one; NaN and NaT stay last in each key."""
    directions = tuple(map(bool, directions))
    order, meta = _packed([array._meta for array in arrays], directions)
    new = {"new_axis": [arrays[0].ndim]} if order.words else {}
    chunks = (*arrays[0].chunks, (order.words,)) if order.words else arrays[0].chunks
    packed = da.map_blocks(
        pack_blocks,
        *arrays,
        dtypes=[array.dtype for array in arrays],
        directions=directions,
        dtype=meta.dtype,
        meta=meta,
        chunks=chunks,
        **new,
    )
    return Keys(packed, order, tuple(arrays), directions)


def _packed(metas: Sequence[Any], directions: tuple[bool, ...]) -> tuple[Order, Any]:
    """Order and meta of several packed keys, from their metas."""
    if len({library_of(meta) for meta in metas}) > 1:
        raise TypeError(
            "keys of NumPy and of CuPy chunks cannot be mixed: move one kind, with map_blocks(cupy.asarray) or "
            "map_blocks(cupy.asnumpy)"
        )
    # NumPy finds the layout from the dtypes: the client may have no GPU.
    order = numpy_ops.packed_order([meta.dtype for meta in metas], directions)
    if library_of(metas[0]) == "cupy" and order.dtype.names is not None:
        raise TypeError("CuPy chunks of these keys are not sorted: move them to NumPy chunks, with cupy.asnumpy")
    shape = (0,) * (metas[0].ndim + bool(order.words))
    return order, np.empty_like(metas[0], shape=shape, dtype=np.uint64 if order.words else order.dtype)


def _call_key(block: Any, key: Callable[[Any], Any]) -> Any:
    """The result of a key function for one chunk: an array of the chunk's shape, or a tuple of such arrays."""
    found = key(block)
    parts = found if isinstance(found, tuple) else (found,)
    for part in parts or (None,):
        if getattr(part, "shape", None) != block.shape:
            raise ValueError(
                "key must return an array of its chunk's shape, or a tuple of such arrays: for a chunk of shape "
                f"{block.shape} it returned {_named(part)}"
            )
    return found


def _named(part: Any) -> str:
    """What a key function returned, for error messages."""
    shape = getattr(part, "shape", None)
    return f"an array of shape {shape}" if shape else type(part).__name__


def key_block(block: Any, key: Callable[[Any], Any], descending: bool, dtypes: Sequence[np.dtype[Any]]) -> Any:
    """Task: keys that a function makes from one chunk, packed if there are several."""
    found = _call_key(checked_chunk(block, None), key)
    several = isinstance(found, tuple)
    pairs = zip(found if several else (found,), dtypes, strict=True)
    parts = [checked_chunk(part, dtype, "the result of key for a chunk", exact=several) for part, dtype in pairs]
    return ops_for(block).pack(parts, (descending,) * len(parts)) if several else found


def keys_by(key: Any, array: Any, descending: bool) -> Keys:
    """Make keys by a function that gives an array of each chunk's shape, or several, most significant first."""
    if not callable(key):
        raise TypeError(f"key must be a function of a chunk, not {type(key).__name__}")
    try:
        found = _call_key(array._meta.reshape((0,) * array.ndim), key)
    except Exception as error:
        error.add_note("key was called with an empty chunk, to find the dtype of its result.")
        raise
    if isinstance(found, tuple):
        order, meta = _packed(found, (descending,) * len(found))
    else:
        order, meta = Order(found.dtype, descending, stable=True), found
    new = {"new_axis": [array.ndim], "chunks": (*array.chunks, (order.words,))} if order.words else {}
    dtypes = [part.dtype for part in (found if isinstance(found, tuple) else (found,))]
    made = array.map_blocks(key_block, key, descending, dtypes, dtype=meta.dtype, meta=meta, **new)
    return Keys(made, order)
