"""What may be asked: arguments of the public functions, checked as early as it can be known."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks
from dask.base import is_dask_collection
from numpy.exceptions import AxisError

from .chunk import library_of
from .config import EXCHANGES
from .graph.composite_keys import Keys, keys_by, pack_keys
from .graph.global_sort import Request, Want
from .graph.rows import chunk_limit, rechunk
from .order import Order
from .plan import choose_path

_KINDS = {"quicksort": False, "heapsort": False, "mergesort": True, "stable": True}
_METHODS = ("auto", "radix", "merge")


@dataclass(frozen=True)
class Options:
    """The options that all sorts share, as the public functions document them."""

    kind: str | None = None
    order: str | Sequence[str] | None = None
    stable: bool | None = None
    descending: bool | None = False
    method: str = "auto"
    exchange: str = "auto"
    key: Callable[[Any], Any] | None = None
    less: Callable[[Any, Any], Any] | str | None = None

    def keys(self, array: Any, want: Want) -> Keys:
        """What decides the order of an array's elements, once the options are found to fit it."""
        descending, stable = bool(self.descending), _asks_stable(self.kind, self.stable) or want != "keys"
        if self.less is not None:
            return Keys(array, Order(array.dtype, stable=True, less=self._less(array)))
        if self.key is None:
            return Keys(array, Order(array.dtype, descending, stable, fields_of(self.order, array.dtype)))
        found = keys_by(self.key, array, descending)
        if self.order is None:
            return found
        if found.order.directions:
            raise ValueError("order cannot be given beside a key of several arrays: give the deciding one first")
        return Keys(found.array, Order(found.order.dtype, descending, True, fields_of(self.order, found.order.dtype)))

    def request(self, want: Want, keys: Keys) -> Request:
        """Check the options that are about the way it is done against the keys."""
        choice("method", self.method, _METHODS)
        choice("exchange", self.exchange, EXCHANGES)
        order = keys.order
        plain = not order.coded and not order.words and order.less is None and order.dtype != np.complex128
        if library_of(keys.array._meta) == "cupy" and plain:
            raise TypeError(
                f"CuPy chunks of {order.dtype} are not sorted: move them to NumPy chunks, with map_blocks(cupy.asnumpy)"
            )
        choose_path(order, self.method)
        return Request(order, want, self.method, self.exchange)

    def _less(self, array: Any) -> Callable[[Any, Any], Any] | str:
        for name in ("key", "order", "descending"):
            if getattr(self, name):
                raise ValueError(f"less cannot be given beside {name}: put it into the comparison")
        if library_of(array._meta) == "cupy":
            if not isinstance(self.less, str):
                raise TypeError(
                    "less of CuPy chunks must be a CUDA C++ expression in a and b, as a string such as 'a < b', "
                    f"not {type(self.less).__name__}"
                )
        elif not callable(self.less):
            raise TypeError(
                "less of NumPy chunks must be a function of two arrays that gives an array of bool, "
                f"such as numpy.less, not {type(self.less).__name__}"
            )
        assert self.less is not None
        return self.less


def checked_array(a: Any) -> Any:
    """A Dask array whose chunks can be sorted."""
    array = da.asanyarray(a)
    if library_of(array._meta) == "pandas" and not is_dask_collection(a):
        # Dask would keep a series or an index as it is.
        array = da.asanyarray(np.asarray(a))
    meta = array._meta
    if isinstance(meta, np.ma.MaskedArray):
        raise TypeError("masked arrays are not sorted: fill them first, with dask.array.ma.filled(a, fill_value)")
    if library_of(meta) not in ("numpy", "cupy"):
        raise TypeError(
            f"chunks of {type(meta).__module__}.{type(meta).__name__} are not sorted: "
            "turn them into NumPy or CuPy arrays first, with a.map_blocks(...)"
        )
    return array


def checked_axis(axis: Any, ndim: int) -> int:
    number = operator.index(axis)
    if ndim == 0:
        raise AxisError(f"axis {number} is out of bounds for array of dimension 0: use axis=None to flatten it")
    if not -ndim <= number < ndim:
        raise AxisError(number, ndim, f"use an axis from {-ndim} to {ndim - 1}")
    return number % ndim


def passes_as_row(array: Any, axis: Any) -> bool:
    """Whether NumPy's indirect sorts take an array without dimensions for a row of one element."""
    return array.ndim == 0 and axis is not None and operator.index(axis) in (0, -1)


def flattened(array: Any, axis: int | None) -> tuple[Any, int]:
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
    """Elements of an array in C order, in chunks that are no larger than need be."""
    if array.ndim == 1:
        return array
    row = math.prod(array.shape[1:])
    if row * array.dtype.itemsize > chunk_limit(array):
        return da.concatenate([_in_c_order(array[index]) for index in range(array.shape[0])])
    # Once the later dimensions are whole, C order of the array is C order of each chunk.
    # (Dask does not choose chunks of objects, whose size it cannot know: their references stand for them.)
    item = np.dtype((np.void, max(1, array.dtype.itemsize)))
    spec = ("auto",) + (-1,) * (array.ndim - 1)
    whole = rechunk(array, normalize_chunks(spec, array.shape, dtype=item, previous_chunks=array.chunks))
    sizes = tuple(size * row for size in whole.chunks[0])
    dropped = list(range(1, array.ndim))
    return whole.map_blocks(_ravel, drop_axis=dropped, chunks=(sizes,), dtype=array.dtype, meta=array._meta.ravel())


def _ravel(block: Any) -> Any:
    return block.ravel()


def choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))} (got {value!r})")


def _asks_stable(kind: str | None, stable: bool | None) -> bool:
    if kind is None:
        return bool(stable)
    if not isinstance(kind, str):
        raise TypeError(f"sort kind must be str, not {type(kind).__name__}: one of {', '.join(map(repr, _KINDS))}")
    # NumPy goes by the first letter: "q", "m" and "merge" are kinds too.
    named = [asked for name, asked in _KINDS.items() if name[0] == kind[:1].lower()]
    if not named:
        raise ValueError(f"sort kind must be one of {', '.join(map(repr, _KINDS))} (got {kind!r})")
    if stable is not None:
        raise ValueError("`kind` and keyword parameters can't be provided at the same time: use only `stable`")
    return named[0]


def fields_of(order: str | Sequence[str] | None, dtype: np.dtype[Any]) -> tuple[str, ...]:
    if order is None:
        return ()
    if dtype.names is None:
        raise ValueError("Cannot specify order when the array has no fields: leave `order` out")
    fields = (order,) if isinstance(order, str) else tuple(order)
    for field in fields:
        if field not in dtype.names:
            raise ValueError(f"unknown field name: {field!r}; the array has {', '.join(map(repr, dtype.names))}")
    if len(set(fields)) < len(fields):
        raise ValueError("duplicate field name in `order`: name each field once")
    return fields


def output_chunks(keys: Any, chunks: Any) -> tuple[tuple[Any, ...], ...]:
    """Chunks of the sorted array."""
    if chunks is None:
        return keys.chunks
    if any(math.isnan(size) for size in keys.shape):
        raise ValueError("chunks= needs an array of known chunk sizes: call compute_chunk_sizes() first")
    if isinstance(chunks, dict):
        given = {checked_axis(dim, keys.ndim): size for dim, size in chunks.items()}
        chunks = tuple(given.get(dim) for dim in range(keys.ndim))
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
    # Lists and arrays cannot be hashed, which Dask relies on.
    if isinstance(chunks, np.ndarray):
        return _as_tuple(chunks.tolist())
    return tuple(map(_as_tuple, chunks)) if isinstance(chunks, (list, tuple)) else chunks


def companion(keys: Any, value: Any, number: int) -> Any:
    """A value array in the keys' chunks, whole behind them."""
    if library_of(value._meta) != library_of(keys._meta):
        raise TypeError(
            f"keys of {library_of(keys._meta)} chunks and values of {library_of(value._meta)} chunks: move one of "
            "them, with map_blocks(cupy.asarray) or map_blocks(cupy.asnumpy)"
        )
    lead = value.shape[: keys.ndim]
    fits = len(lead) == keys.ndim and all(
        a == b or math.isnan(a) or math.isnan(b) for a, b in zip(lead, keys.shape, strict=True)
    )
    if not fits or (keys.ndim > 1 and value.ndim != keys.ndim):
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


def lexsort_arrays(keys: Any) -> list[Any]:
    """The keys of `lexsort` as Dask arrays."""
    arrays = [checked_array(key) for key in _listed(keys)]
    if not arrays:
        raise TypeError("need sequence of keys with len > 0 in lexsort: give at least one array")
    return arrays


def lexsort_keys(arrays: Sequence[Any], descending: bool | Sequence[bool]) -> Keys:
    """The keys of `lexsort`, the last of them most significant, as one."""
    if isinstance(descending, (bool, np.bool_)):
        directions = [bool(descending)] * len(arrays)
    else:
        directions = list(map(bool, descending))
        if len(directions) != len(arrays):
            raise ValueError(f"{len(directions)} directions in `descending` for {len(arrays)} keys: give one for each")
    primary = arrays[-1]
    alike = [same_chunks(primary, array, f"key {number}") for number, array in enumerate(arrays[:-1])]
    if not alike:
        return Keys(primary, Order(primary.dtype, directions[0], stable=True))
    return pack_keys([primary, *alike[::-1]], directions[::-1])


def _listed(keys: Any) -> Sequence[Any]:
    """Keys as a sequence of arrays, whether they are one array or several."""
    if hasattr(keys, "__getitem__") and hasattr(keys, "__len__") and not hasattr(keys, "dtype"):
        return [keys[number] for number in range(len(keys))]
    array = da.asanyarray(keys)
    if array.ndim == 0:
        return []
    if math.isnan(array.shape[0]):
        raise ValueError("the first axis of `keys` is the keys, whose number is unknown: call compute_chunk_sizes()")
    return [array[number] for number in range(array.shape[0])]


def same_chunks(template: Any, array: Any, name: str) -> Any:
    """An array of the template's shape in its chunks."""
    fits = array.ndim == template.ndim and all(
        a == b or math.isnan(a) or math.isnan(b) for a, b in zip(array.shape, template.shape, strict=True)
    )
    if not fits:
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


def one_behind_the_other(arrays: Sequence[Any]) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """The arrays of `merge_sorted` as one, and which of them have how many of its chunks."""
    if not arrays:
        raise TypeError("merge_sorted needs at least one array")
    checked = [checked_array(array) for array in arrays]
    for number, array in enumerate(checked):
        if array.ndim != 1:
            raise ValueError(f"array {number} has {array.ndim} dimensions, and only one can be merged: give its rows")
    if len({library_of(array._meta) for array in checked}) > 1:
        raise TypeError("arrays of NumPy and of CuPy chunks: move one kind, with map_blocks(cupy.asarray)")
    # Dask leaves empty arrays out when it joins others.
    held = [number for number, array in enumerate(checked) if array.size != 0] or [0]
    joined = da.concatenate([checked[number] for number in held], allow_unknown_chunksizes=True)
    dtypes = {array.dtype for array in checked}
    if len(dtypes) == 1 and joined.dtype not in dtypes:
        # Joined, swapped byte orders and padded records become native and packed ones.
        joined = joined.astype(*dtypes)
    return joined, tuple((number, checked[number].numblocks[0]) for number in held)
