"""What is asked of a sort: options applied to an array give its keys, with their order, and the request.

Chunk by chunk, several keys become one array of codes, or of words in an added last dimension::

    keys 0   (n,) in chunks --.
    keys 1   (n,) in chunks ---+-- pack-keys, one task a chunk -->  (n,) of codes, or (n, words)
    keys 2   (n,) in chunks --'

Rows and checks use this array. The tasks of a global sort and of a join pack the keys themselves, from `Keys.parts`.

If NumPy must compare one of them (`longdouble`, `object`, `StringDType`), they become a record instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import dask.array as da
import numpy as np

from ..chunk import library_of, numpy_ops, ops_for
from ..chunk.checks import checked_chunk
from ..chunk.steps import check_key_shapes
from ..config import setting
from ..graph.inputs import same_chunks
from ..graph.runtime import Runtime
from ..order import Order
from ..plan import check_method

Want = Literal["keys", "positions", "both", "values"]


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


@dataclass(frozen=True)
class Request:
    """Request a sort, without the arrays."""

    order: Order
    want: Want  # sorted keys, the indices that sort, keys and companions, or companions alone
    method: str
    runtime: Runtime  # that has the chunks
    exchange: str = "auto"  # the setting takes the place of "auto"
    staged: bool = False  # whether chunks of the host are sorted on a GPU, some at a time
    #: An upper bound of the number of keys, where chunk sizes are unknown; nan if there is none.
    most_keys: float = math.nan

    @property
    def asked(self) -> str:
        """The exchange that is asked for."""
        return setting("exchange") if self.exchange == "auto" else self.exchange


@dataclass(frozen=True)
class Options:
    """Hold options of a sort, already checked as far as that needs no array."""

    stable: bool = False
    descending: bool = False
    order: tuple[str, ...] | None = None  # fields of a structured dtype to compare first
    method: str = "auto"
    exchange: str = "auto"
    key: Callable[[Any], Any] | None = None
    less: Callable[[Any, Any], Any] | str | None = None
    device: str | None = None  # where NumPy chunks are sorted

    @property
    def nat_last(self) -> bool:
        """Whether NaT must be the greatest integer where dates are sorted as integers; otherwise it is the least."""
        return self.less is None and not self.descending

    def keys(self, array: Any, want: Want) -> Keys:
        """Make the keys that decide the order of an array's elements."""
        if self.less is not None:
            _check_less_type(self.less, "cupy" if self.device else library_of(array._meta))
            return Keys(array, Order(array.dtype, stable=True, less=self.less))
        if self.key is None:
            stable = self.stable or want != "keys"
            return Keys(array, Order(array.dtype, self.descending, stable, fields_of(self.order, array.dtype)))
        found = keys_by(self.key, array, self.descending)
        if self.order is None:
            return found
        if found.order.directions:
            raise ValueError(
                "order cannot be combined with a key of several arrays: give the most significant one first"
            )
        dtype = found.order.dtype
        return Keys(found.array, Order(dtype, self.descending, True, fields_of(self.order, dtype)))

    def request(self, want: Want, keys: Keys, runtime: Runtime | None = None) -> Request:
        """Request a sort of these keys, by the scheduler in use if no other is given."""
        self.check(keys)
        runtime = Runtime.of(keys.array) if runtime is None else runtime.for_chunks_of(keys.array)
        return Request(keys.order, want, self.method, runtime, self.exchange)

    def check(self, keys: Keys) -> None:
        """Refuse keys that cannot be sorted so."""
        order = keys.order
        compared_by_numpy = not (order.coded or order.words or order.less is not None or order.dtype == np.complex128)
        if library_of(keys.array._meta) == "cupy" and compared_by_numpy:
            raise TypeError(
                f"CuPy chunks of {order.dtype} are not sorted: move them to NumPy chunks, with map_blocks(cupy.asnumpy)"
            )
        check_method(order, self.method)


def _check_less_type(less: Any, library: str) -> None:
    if library == "cupy":
        if not isinstance(less, str):
            raise TypeError(
                "less of CuPy chunks, and of NumPy chunks with device='cuda', must be a CUDA C++ expression in a and "
                f"b, as a string such as 'a < b', not {type(less).__name__}"
            )
    elif not callable(less):
        raise TypeError(
            "less of NumPy chunks must be a function of two arrays that gives an array of bool, "
            f"such as numpy.less, not {type(less).__name__}"
        )


def fields_of(order: tuple[str, ...] | None, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """The fields to compare first, checked against a dtype."""
    if order is None:
        return ()
    if dtype.names is None:
        raise ValueError("Cannot specify order when the array has no fields: leave `order` out")
    for field in order:
        if field not in dtype.names:
            raise ValueError(f"unknown field name: {field!r}; the array has {', '.join(map(repr, dtype.names))}")
    if len(set(order)) < len(order):
        raise ValueError("duplicate field name in `order`: name each field once")
    return order


def lexsort_keys(arrays: Sequence[Any], directions: Sequence[bool], names: Sequence[str] | None = None) -> Keys:
    """Make the keys of `lexsort` one; the last array is most significant, and names are for error messages."""
    primary = arrays[-1]
    *of_others, of_primary = names or [*(f"key {number}" for number in range(len(arrays) - 1)), "the last key"]
    others = [
        same_chunks(primary.chunks, array, name, of_primary) for name, array in zip(of_others, arrays[:-1], strict=True)
    ]
    if not others:
        return Keys(primary, Order(primary.dtype, directions[0], stable=True))
    return pack_keys([primary, *others[::-1]], directions[::-1])


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
        shape = getattr(part, "shape", None)
        if shape != block.shape:
            returned = f"an array of shape {shape}" if shape else type(part).__name__
            raise ValueError(
                "key must return an array of its chunk's shape, or a tuple of such arrays: for a chunk of shape "
                f"{block.shape} it returned {returned}"
            )
    return found


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
