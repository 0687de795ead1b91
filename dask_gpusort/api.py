"""The public functions: what may be asked, checked as early as it can be known."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks
from numpy.exceptions import AxisError

from .chunk import library_of
from .config import EXCHANGES
from .graph.global_sort import Request, Want, global_sort, plan_for
from .graph.rows import chunk_limit, rechunk, sort_rows, way_of
from .order import Order
from .plan import choose_path, describe

_KINDS = {"quicksort": False, "heapsort": False, "mergesort": True, "stable": True}
_METHODS = ("auto", "radix", "merge")


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    stable: bool | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
) -> Any:
    """Sort a Dask array, lazily.

    Parameters
    ----------
    a : dask array
        Of NumPy or CuPy chunks, any number of them, also of unknown sizes. Anything else that
        `dask.array.asanyarray` takes becomes one.
    axis : int or None, default -1
        Axis along which to sort; None sorts the flattened array.
    kind : {"quicksort", "heapsort", "mergesort", "stable"}, optional
        As in NumPy: the last two ask for a stable sort, the others for nothing.
    order : str or list of str, optional
        Fields of a structured dtype to compare first; the others break ties.
    stable : bool, optional
        Whether equal keys keep their input order. In a sort of keys alone that shows only in -0.0 beside +0.0 and in
        NaNs of different bits.
    descending : bool, default False
        Largest first. NaN and NaT come last in both directions.
    key : callable, optional
        Maps a chunk to an array of the same shape whose order decides, or to a tuple of such arrays, the first one
        most significant. Elements of equal keys keep their input order.
    chunks : int, tuple or dict, optional
        Chunks of the output, as `dask.array.Array.rechunk` takes them. By default those of the input.
    method : {"auto", "radix", "merge"}
        Find cuts between chunks by digit histograms or by ranks of samples; "auto" takes digits wherever a key is an
        unsigned integer of up to 64 bits in disguise.
    exchange : {"auto", "gather", "p2p", "tasks", "device"}
        How keys move between chunks; "auto" takes the setting ``gpusort.exchange``, else what fits the scheduler in
        use.

    Returns
    -------
    dask array
        Same shape and dtype. The chunk sizes are exact, whatever the data look like.

    Raises
    ------
    numpy.exceptions.AxisError
        If the axis is out of bounds, or the array has no dimension.
    ValueError
        If an option has an unknown value, or `order` names no field.
    TypeError
        If the chunks are neither NumPy nor CuPy arrays, or are masked.

    See Also
    --------
    argsort, sort_by_key, explain
    numpy.sort : the same for an array in memory

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([3, 1, 2, 0], chunks=2)
    >>> dask_gpusort.sort(x).compute()
    array([0, 1, 2, 3])
    """
    options = Options(kind, order, stable, descending, method, exchange)
    array, axis = _flattened(_checked_array(a), axis)
    if key is None:
        return _sort("keys", array, (), axis, chunks, options)[0]
    return _sort("both", _keys_by(key, array), (array,), axis, chunks, options)[1]


def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    stable: bool | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
) -> Any:
    """Indices that sort a Dask array, lazily.

    Parameters
    ----------
    a, axis, kind, order, stable, descending, key, chunks, method, exchange
        As for `sort`.

    Returns
    -------
    dask array of int64
        Positions along the axis in the whole array, not in a chunk. Equal keys always keep their input order, so that
        the result is the same on every scheduler.

    Raises
    ------
    AxisError, ValueError, TypeError
        As `sort`.

    See Also
    --------
    sort_by_key : moves other arrays along, without indices
    """
    options = Options(kind, order, stable, descending, method, exchange)
    array, axis = _flattened(_checked_array(a), axis)
    keys = array if key is None else _keys_by(key, array)
    return _sort("positions", keys, (), axis, chunks, options)[0]


def sort_by_key(
    keys: Any,
    *values: Any,
    axis: int = -1,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    stable: bool | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
) -> tuple[Any, ...]:
    """Sort a Dask array and move others along with it, lazily.

    Parameters
    ----------
    keys : dask array
    *values : dask arrays
        Of the keys' shape; beside keys of one dimension also of more, and then whole rows travel.
    axis, kind, order, stable, descending, key, chunks, method, exchange
        As for `sort`. `chunks` are those of the sorted keys; the values get them too.

    Returns
    -------
    tuple of dask arrays
        The sorted keys, then the values. Equal keys always keep their input order.

    Raises
    ------
    ValueError
        If shapes do not fit.
    AxisError, TypeError
        As `sort`.
    """
    options = Options(kind, order, stable, descending, method, exchange)
    array = _checked_array(keys)
    if key is None:
        return _sort("both", array, values, axis, chunks, options)
    return _sort("both", _keys_by(key, array), (array, *values), axis, chunks, options)[1:]


def explain(
    a: Any,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    stable: bool | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
) -> str:
    """The plan of `sort` with the same arguments, as text, before anything runs.

    Parameters
    ----------
    a, axis, kind, order, stable, descending, key, chunks, method, exchange
        As for `sort`.

    Returns
    -------
    str
        Path, rounds, groups, exchange, number of tasks and projected peak bytes, a line each.
    """
    options = Options(kind, order, stable, descending, method, exchange)
    array, axis = _flattened(_checked_array(a), axis)
    keys, companions = (array, ()) if key is None else (_keys_by(key, array), (array,))
    axis = _checked_axis(axis, keys.ndim)
    request = options.request("both" if companions else "keys", keys)
    sizes = _output_chunks(keys, chunks)[axis]
    way = way_of(keys, axis)
    if way == "whole":
        return f"rows      each whole in a chunk: {math.prod(keys.numblocks):,} chunks sorted where they are"
    if way == "rechunk" and keys.ndim > 1:
        return "rows      in several chunks: rechunk so that they are whole, sort each chunk, rechunk back"
    if keys.ndim == 1:
        return describe(plan_for(request, keys, companions, sizes))
    first = tuple(slice(None) if dim == axis else 0 for dim in range(keys.ndim))
    plan = describe(plan_for(request, keys[first], [array[first] for array in companions], sizes))
    rows = math.prod(size for dim, size in enumerate(keys.shape) if dim != axis)
    return f"rows      {rows:,} too long for a chunk, one global sort each:\n{plan}"


@dataclass(frozen=True)
class Options:
    """The options that all sorts share, as the public functions document them."""

    kind: str | None
    order: str | Sequence[str] | None
    stable: bool | None
    descending: bool | None
    method: str
    exchange: str

    def request(self, want: Want, keys: Any) -> Request:
        """Check the options against the keys."""
        _choice("method", self.method, _METHODS)
        _choice("exchange", self.exchange, EXCHANGES)
        stable = _asks_stable(self.kind, self.stable) or want != "keys"
        rule = Order(keys.dtype, bool(self.descending), stable, _fields(self.order, keys.dtype))
        if library_of(keys._meta) == "cupy" and not rule.coded:
            raise TypeError(
                f"CuPy chunks of {keys.dtype} are not sorted: move them to NumPy chunks, with map_blocks(cupy.asnumpy)"
            )
        choose_path(rule, self.method)
        return Request(rule, want, self.method, self.exchange)


def _sort(want: Want, keys: Any, values: Sequence[Any], axis: int, chunks: Any, options: Options) -> tuple[Any, ...]:
    """Check everything, then build the sort of one or several arrays."""
    axis = _checked_axis(axis, keys.ndim)
    request = options.request(want, keys)
    outputs = _output_chunks(keys, chunks)
    values = [_companion(keys, _checked_array(value), number) for number, value in enumerate(values)]
    if keys.ndim == 1 and (keys.numblocks[0] > 1 or any(value.ndim > 1 for value in values)):
        return global_sort(request, keys, values, outputs[0])
    return sort_rows(request, keys, values, axis, outputs)


def _checked_array(a: Any) -> Any:
    """A Dask array whose chunks can be sorted."""
    array = da.asanyarray(a)
    meta = array._meta
    if isinstance(meta, np.ma.MaskedArray):
        raise TypeError("masked arrays are not sorted: fill them first, with dask.array.ma.filled(a, fill_value)")
    if library_of(meta) not in ("numpy", "cupy"):
        raise TypeError(
            f"chunks of {type(meta).__module__}.{type(meta).__name__} are not sorted: "
            "turn them into NumPy or CuPy arrays first, with a.map_blocks(...)"
        )
    return array


def _checked_axis(axis: Any, ndim: int) -> int:
    number = operator.index(axis)
    if ndim == 0:
        raise AxisError(f"axis {number} is out of bounds for array of dimension 0: use axis=None to flatten it")
    if not -ndim <= number < ndim:
        raise AxisError(number, ndim, f"use an axis from {-ndim} to {ndim - 1}")
    return number % ndim


def _flattened(array: Any, axis: int | None) -> tuple[Any, int]:
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


def _choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))} (got {value!r})")


def _asks_stable(kind: str | None, stable: bool | None) -> bool:
    if kind is None:
        return bool(stable)
    if stable is not None:
        raise ValueError("`kind` and `stable` can't be provided at the same time: use only `stable`")
    if kind not in _KINDS:
        raise ValueError(f"sort kind must be one of {', '.join(map(repr, _KINDS))} (got {kind!r})")
    return _KINDS[kind]


def _fields(order: str | Sequence[str] | None, dtype: np.dtype[Any]) -> tuple[str, ...]:
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


def _output_chunks(keys: Any, chunks: Any) -> tuple[tuple[Any, ...], ...]:
    """Chunks of the sorted array."""
    if chunks is None:
        return keys.chunks
    if any(math.isnan(size) for size in keys.shape):
        raise ValueError("chunks= needs an array of known chunk sizes: call compute_chunk_sizes() first")
    if isinstance(chunks, dict):
        given = {_checked_axis(dim, keys.ndim): size for dim, size in chunks.items()}
        chunks = tuple(given.get(dim, keys.chunks[dim]) for dim in range(keys.ndim))
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


def _companion(keys: Any, value: Any, number: int) -> Any:
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


def _keys_by(key: Callable[[Any], Any], array: Any) -> Any:
    if not callable(key):
        raise TypeError(f"key must be a function of a chunk, not {type(key).__name__}")
    probe = _packed(array._meta.reshape((0,) * array.ndim), key)
    return array.map_blocks(_packed, key, dtype=probe.dtype, meta=probe)


def _packed(block: Any, key: Callable[[Any], Any]) -> Any:
    """Task: keys of one chunk; several become the fields of a record."""
    found = key(block)
    for part in found if isinstance(found, tuple) else (found,):
        if getattr(part, "shape", None) != block.shape:
            raise ValueError(
                f"key must give an array of its chunk's shape {block.shape}, or a tuple of such arrays: "
                f"got {getattr(part, 'shape', type(part).__name__)}"
            )
    if not isinstance(found, tuple):
        return found
    record = np.empty(block.shape, [(f"key{number}", part.dtype) for number, part in enumerate(found)])
    for number, part in enumerate(found):
        record[f"key{number}"] = part
    return record
