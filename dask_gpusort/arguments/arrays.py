"""Checks of the arrays that are given: what they are, and whether the sizes that a function needs are known."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any, TypeVar

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed

from ..chunk import library_of
from ..graph.inputs import check_library

F = TypeVar("F", bound=Callable[..., Any])

#: What to give instead of an object of Python, by its type.
_REMEDIES = {
    "str": "the array that has this name, or a list of strings",
    "bytes": "a list of bytes",
    "dict": "list({}.values())",
}
#: Types of xarray with one array, also the end of others' names.
_OF_ONE_ARRAY = ("DataArray", "Variable")
#: Methods of xarray's accessor that keep the labels which a function would lose.
_OF_DATASETS = {
    "sort": "sort_values(dim)",
    "sort_by_key": "sortby(key)",
    "lexsort": "sortby(keys)",
    "argsort": "argsort(dim)",
    "median": "median(dim)",
    "nanmedian": "median(dim)",
    "quantile": "quantile(q, dim)",
    "nanquantile": "quantile(q, dim)",
    "percentile": "quantile(q / 100, dim)",
    "nanpercentile": "quantile(q / 100, dim)",
    "rank": "rank(dim)",
    "mode": "mode(dim)",
    "nunique": "nunique(dim)",
    "topk": "topk(k, dim)",
}
_METHODS = {"Dataset": _OF_DATASETS, "DataArray": {**_OF_DATASETS, "unique": "unique(dim)"}}


def refusing_labels(function: F) -> F:
    """Let a function refuse labels of its first argument, and name the method that keeps them."""
    first = next(iter(inspect.signature(function).parameters.values()))

    @functools.wraps(function)
    def refusing(*args: Any, **options: Any) -> Any:
        refuse_labels(args[0] if args else options.get(first.name), first.name, function.__name__)
        return function(*args, **options)

    return function if first.kind is first.VAR_POSITIONAL else refusing  # type: ignore[return-value]


def checked_array(a: Any, name: str = "a", *, scalars: bool = False, masked: str = "") -> Any:
    """Make a Dask array whose chunks can be sorted, of an argument of some name.

    `scalars` lets it be one element, and chunks may be masked of the kinds of dtypes in `masked`.
    """
    a = without_labels(a, name)
    if library_of(a) == "pandas":
        a = np.asarray(a)  # Dask keeps indices unconverted, and cannot read dtypes of pandas.
    try:
        array = da.asanyarray(a)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, not a sequence of others of different shapes: {error}") from error
    if isinstance(array._meta, np.matrix):
        # A row of a matrix is a matrix of two dimensions.
        array = array.map_blocks(np.asarray, dtype=array.dtype, meta=np.asarray(array._meta))
    meta = array._meta
    if array.ndim == 0 and array.dtype.kind in "OSU" and not hasattr(a, "dtype"):
        _refuse_objects(a, name, scalars)
    if array.ndim == 0 and array.dtype.kind == "O":
        array = array.map_blocks(_as_array, dtype=array.dtype, meta=meta)
    if array.dtype.kind not in masked:
        refuse_masked(meta, name, "dask.array.ma.filled")
    if library_of(meta) not in ("numpy", "cupy"):
        raise TypeError(
            f"{name} has chunks of {type(meta).__module__}.{type(meta).__name__}: "
            f"turn them into NumPy or CuPy arrays first, with {_in_python(name)}.map_blocks(...)"
        )
    return array


def _as_array(element: Any) -> np.ndarray:
    """Task: an element as an array: Dask's indexing and reductions give Python objects bare."""
    if isinstance(element, np.ndarray):
        return element
    array = np.empty((), object)
    array[()] = element
    return array


def _refuse_objects(a: Any, name: str, scalars: bool) -> None:
    """Refuse what NumPy takes for one element, though it is no number, or has several itself."""
    kind, several = type(a).__name__, isinstance(a, Iterable) and not isinstance(a, (str, bytes))
    if several or not (scalars or isinstance(a, Number)):
        remedy = _REMEDIES.get(kind, "list({})" if several else "an array or a list").format(_in_python(name))
        raise TypeError(f"{name} must be an array, not {kind}: give {remedy}")


def _in_python(name: str) -> str:
    """How an argument is written: "key 0" is ``keys[0]``."""
    return re.sub(r"s? (\d+)$", r"s[\1]", name)


def in_memory(value: Any, name: str) -> Any:
    """An argument that the graph is built from: a Dask array is computed, as NumPy does without query planning."""
    found = value.compute() if is_dask_collection(value) else value
    refuse_masked(found, name)
    return found


def refuse_masked(a: Any, name: str, filled: str = "numpy.ma.filled") -> None:
    """Refuse a masked array, and name the function that fills it."""
    if isinstance(a, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is masked, and masked elements are not left out: fill them first, with "
            f"{filled}({_in_python(name)}, fill_value)"
        )


def without_labels(a: Any, name: str) -> Any:
    """Give the values of what has labels in memory; refuse others of these as `refuse_labels` does."""
    kind, library = type(a).__name__, library_of(a)
    if library == "xarray" and kind.endswith(_OF_ONE_ARRAY) and not is_dask_collection(a):
        return a.data
    if library == "pandas" and kind == "Series" and str(a.dtype) != "category":
        return np.asarray(a)
    refuse_labels(a, name)
    return a


def refuse_labels(a: Any, name: str, function: str = "") -> None:
    """Refuse what has labels, which `function` would lose, and other collections of Dask that are no arrays."""
    # The type's own package names it, so that neither xarray nor pandas is imported. An index of pandas is labels
    # alone.
    kind, library, own = type(a).__name__, library_of(a), _in_python(name)
    if library == "xarray":
        one = own if kind.endswith(_OF_ONE_ARRAY) else f'{own}["name"]'
        remedy = f"give {one}.data, without labels"
        if method := _METHODS.get(kind, {}).get(function):
            remedy = f"import dask_gpusort.xarray and use {own}.gpusort.{method}; or {remedy}"
    elif library == "pandas" and kind == "DataFrame":
        remedy = f'give a column, such as {own}["name"].to_numpy()'
    elif library == "pandas" and str(getattr(a, "dtype", "")) == "category":
        codes = "cat.codes.to_numpy()" if kind == "Series" else "codes"
        remedy = f"give {own}.{codes}, which have the order of the categories"
    elif library == "pandas" and kind == "Series":
        remedy = f"give {own}.to_numpy(), without labels"
    elif isinstance(a, Delayed):
        remedy = f"give dask.array.from_delayed({own}, shape, dtype)"
    elif hasattr(a, "to_dask_array") and kind == "DataFrame":
        remedy = f'give a column, such as {own}["name"].to_dask_array(lengths=True)'
    elif hasattr(a, "to_dask_array"):
        remedy = f"give {own}.to_dask_array(lengths=True), without labels"
    elif is_dask_collection(a) and not isinstance(a, da.Array):
        remedy = f'give {own}.to_dataframe()["name"].to_dask_array(lengths=True)'
    else:
        return
    raise TypeError(f"{name} must be an array, not {kind} of {type(a).__module__.partition('.')[0]}: {remedy}")


def known_size(array: Any, axis: int, name: str) -> int:
    """The size of an axis, which must be known."""
    size = array.shape[axis]
    if math.isnan(size):
        raise ValueError(
            f"{name} has an unknown size along axis {axis}: call {_in_python(name)}.compute_chunk_sizes() first"
        )
    return int(size)


def check_known_axis(array: Any, axis: int, name: str) -> None:
    """Refuse an axis of unknown size, unless it is in one chunk."""
    if array.numblocks[axis] > 1:
        known_size(array, axis, name)


def checked_sides(
    first: Any, second: Any, names: tuple[str, str], scalars: Sequence[str] = (), masked: str = ""
) -> tuple[Any, Any]:
    """Make two arguments whose elements are compared Dask arrays of one library.

    `scalars` names those that may be one element, such as a string; `masked` is that of `checked_array` for the second.
    """
    one = checked_array(first, names[0], scalars=names[0] in scalars)
    other = checked_array(second, names[1], scalars=names[1] in scalars, masked=masked)
    check_library(dict(zip(names, (one, other), strict=True)))
    return one, other


def checked_lexsort_keys(keys: Any) -> list[Any]:
    """Make the keys of `lexsort` a list of Dask arrays."""
    arrays = checked_arrays(_as_sequence(keys), "key", "lexsort")
    if not arrays:
        raise TypeError("need sequence of keys with len > 0 in lexsort: give at least one array")
    return arrays


def _as_sequence(keys: Any) -> Sequence[Any]:
    if isinstance(keys, Sequence) and not isinstance(keys, bytes) and not hasattr(keys, "dtype"):
        return keys
    array = checked_array(keys, "keys")
    if array.ndim == 0:
        return []
    if array.ndim == 1 and array.dtype.kind in "OSUT":
        raise TypeError(f"keys must be several arrays, not one of {array.dtype}: give (a,) to sort by this one alone")
    if math.isnan(array.shape[0]):
        raise ValueError("the first axis of `keys` is the keys, whose number is unknown: call compute_chunk_sizes()")
    return [array[number] for number in range(array.shape[0])]


def checked_sort_keys(keys: Any) -> tuple[list[Any], bool]:
    """Make the keys of `sort_by_key` Dask arrays, and tell whether they are several: a tuple or list of arrays."""
    if isinstance(keys, tuple) and not keys:
        raise TypeError("need sequence of keys with len > 0 in sort_by_key: give at least one array")
    if isinstance(keys, (tuple, list)) and any(getattr(key, "ndim", 0) for key in keys):
        return checked_arrays(keys, "key", "sort_by_key"), True
    return [checked_array(keys, "keys")], False


def checked_arrays(arrays: Any, name: str, function: str = "") -> list[Any]:
    """Make a sequence of arrays, or one, Dask arrays, whose names are numbered; `function` would lose their labels."""
    given = without_labels(arrays, name)
    several = isinstance(given, Iterable) and not hasattr(given, "dtype")
    named = [(one, f"{name} {number}") for number, one in enumerate(given if several else (given,))]
    if function:
        for one in named:
            refuse_labels(*one, function)
    return [checked_array(*one) for one in named]


def checked_sorted_arrays(arrays: Sequence[Any]) -> list[Any]:
    """Make the arrays of `merge_sorted` Dask arrays of one library."""
    if not arrays:
        raise TypeError("merge_sorted needs at least one array")
    checked = checked_arrays(arrays, "array", "merge_sorted")
    for number, array in enumerate(checked):
        if array.ndim != 1:
            raise ValueError(f"array {number} has {array.ndim} dimensions, and only one can be merged: give its rows")
    check_library({f"array {number}": array for number, array in enumerate(checked)})
    return checked
