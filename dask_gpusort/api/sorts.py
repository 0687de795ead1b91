"""Sorts, and the indices that sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arguments.arrays import checked_array, checked_arrays, checked_lexsort_keys, checked_sort_keys
from ..arguments.checks import (
    axis_or_none,
    checked_axis,
    checked_directions,
    checked_options,
    is_scalar_row,
    on_device,
    resolved_chunks,
)
from ..arguments.table import WITH_MASKED, WITH_SEVERAL_KEYS
from ..builders.masked import ORDERED, build_masked_argsort, build_masked_sort, is_masked
from ..builders.sort import build_lexsort, build_sort, build_sort_by_keys


def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    less: Callable[[Any, Any], Any] | str | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
    device: str | None = None,
) -> Any:
    """Sort a Dask array, lazily.

    Parameters
    ----------
    a : dask array
        NumPy or CuPy chunks, any number of them, of known or unknown sizes. Other arrays are converted by
        `dask.array.asanyarray`. Of masked NumPy chunks (`numpy.ma`), masked elements come last in both directions.
    axis : int or None, default -1
        Axis along which to sort; None sorts the flattened array.
    kind : {"quicksort", "heapsort", "mergesort", "stable"}, optional
        As in NumPy: the last two request a stable sort; the others have no effect.
    order : str or list of str, optional
        Fields of a structured dtype to compare first; the remaining fields break ties.
    stable : bool, optional
        Whether equal keys keep their input order. In a sort of keys alone this is visible only for -0.0 and +0.0, and
        for NaNs with different bits.
    descending : bool, default False
        Largest first. NaN and NaT come last in both directions.
    key : callable, optional
        Maps a chunk to an array of the same shape, by which the chunk's elements are sorted, or to a tuple of such
        arrays, the first one most significant. Elements with equal keys keep their input order.
    less : callable or str, optional
        A user-defined order: whether elements of an array ``a`` come before those of ``b``. For NumPy chunks a
        vectorised function ``less(a, b)`` that returns an array of bool; for CuPy chunks, and with `device`, a CUDA C++
        expression in ``a`` and ``b``, as a string. It must be a strict weak order; the sort is stable. It excludes
        `key`, `order` and `descending`. It is code, which runs as it stands: do not take it from those you do not
        trust.
    chunks : int, tuple or dict, optional
        Chunks of the output, as for `dask.array.Array.rechunk`; by default those of the input, or
        for ``axis=None`` chunks of at most as many elements.
    method : {"auto", "radix", "merge"}
        Find the cuts between chunks by digit histograms with ranks of samples ("radix"), or by those ranks alone, or
        by splitters where chunks are divided before they are sorted ("auto" and "merge"). A join cuts nothing, so it
        has no effect there. The result is the same.
    exchange : {"auto", "join", "gather", "runs", "tasks", "device", "gang"}
        How keys move between chunks. "auto" uses the setting ``gpusort.exchange``, or else chooses for the scheduler
        in use.
    device : {"cuda", None}
        "cuda" sorts NumPy chunks on the GPU: they are copied there and back through pinned memory. The results are
        NumPy chunks with the same bits. Arrays larger than its memory are sorted there in parts, except with a
        distributed client. CuPy chunks stay where they are. None uses the setting ``gpusort.device``,
        by default None: NumPy chunks are sorted on the host.

    Returns
    -------
    dask array
        Same shape and dtype, masked if the array is. The chunk sizes are exact for every distribution of keys.

    Raises
    ------
    numpy.exceptions.AxisError
        If the axis is out of bounds, or the array has no dimension.
    ValueError
        If an option has an unknown value, or `order` names an unknown field.
    TypeError
        If the chunks are neither NumPy nor CuPy arrays, or if `less` does not fit them; with `device`, if CuPy lacks
        the dtype. If masked chunks have records or objects, or come with `order`, `key` or `less`.
    KernelsUnavailable
        With `device`, if there is no CuPy or no GPU. With a distributed client only its workers need a GPU. It is a
        RuntimeError.

    Notes
    -----
    A `less` that contradicts itself raises ValueError during the computation if this is detected: elements that come
    before themselves, contradictions among some dozen elements of each chunk, or neighbours out of order in the result.

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
    options = on_device(checked_options(kind, order, stable, descending, key, less, method, exchange), device)
    array = checked_array(a, masked=ORDERED)
    axis = axis_or_none(axis, array.ndim)
    chunks = resolved_chunks(chunks, axis, array.ndim)
    if is_masked(array):
        WITH_MASKED.refuse(order=order, key=key, less=less)
        return build_masked_sort(options, array, axis, chunks)
    return build_sort(options, "keys", array, (), axis, chunks)[0]


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    less: Callable[[Any, Any], Any] | str | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
    device: str | None = None,
) -> Any:
    """Indices that sort a Dask array, lazily.

    Parameters
    ----------
    a, axis, kind, order, stable, descending, key, less, chunks, method, exchange, device
        As for `sort`.

    Returns
    -------
    dask array of int64
        Positions along the axis in the whole array, not in a chunk. Equal keys always keep their input order, so the
        result does not depend on the scheduler. Masked elements are last, in their order too. An array without
        dimensions has one position, as in NumPy.

    Raises
    ------
    AxisError, ValueError, TypeError
        As `sort`.

    See Also
    --------
    sort_by_key : moves other arrays with the keys, without indices

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([30, 10, 20], chunks=2)
    >>> dask_gpusort.argsort(x).compute()
    array([1, 2, 0])
    >>> dask_gpusort.argsort(x, descending=True).compute()
    array([0, 2, 1])
    """
    options = on_device(checked_options(kind, order, stable, descending, key, less, method, exchange), device)
    array = checked_array(a, masked=ORDERED)
    axis = None if is_scalar_row(array, axis) else axis_or_none(axis, array.ndim)
    chunks = resolved_chunks(chunks, axis, array.ndim)
    if is_masked(array):
        WITH_MASKED.refuse(order=order, key=key, less=less)
        return build_masked_argsort(options, array, axis, chunks)
    return build_sort(options, "positions", array, (), axis, chunks)[0]


def sort_by_key(
    keys: Any,
    *values: Any,
    axis: int = -1,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    stable: bool | None = None,
    descending: bool | Sequence[bool] | None = False,
    key: Callable[[Any], Any] | None = None,
    less: Callable[[Any, Any], Any] | str | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
    device: str | None = None,
) -> tuple[Any, ...]:
    """Sort a Dask array, or several keys of which the **first** is most significant, and move other arrays, lazily.

    The first key counts most in ``gpusort.sortby``, ``key=`` and pandas' ``sort_values`` too; in `lexsort` the last.

    Parameters
    ----------
    keys : dask array, or tuple or list of dask arrays
        The key, or several keys of one shape, of any dtypes.
    *values : dask arrays
        Arrays of the keys' shape. With one-dimensional keys, values may have more dimensions: then whole rows move.
    descending : bool or sequence of bool, default False
        Largest first; with several keys, for all or for each of them. NaN and NaT come last in both directions.
    axis, kind, order, stable, key, less, chunks, method, exchange, device
        As for `sort`. `chunks` apply to the sorted keys and to the values; by default they are those of the first key.
        `order`, `key` and `less` take one key. "radix" needs keys that fit 64 bits together.

    Returns
    -------
    tuple of dask arrays
        The sorted keys, then the values. Equal keys always keep their input order.

    Raises
    ------
    ValueError
        If the shapes do not match, or the numbers of directions and keys; if several keys get `order`, `key`, `less`.
    AxisError, TypeError
        As `sort`.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> days = da.from_array([3, 1, 2], chunks=2)
    >>> rain = da.from_array([0.5, 7.0, 2.5], chunks=2)
    >>> dask.compute(*dask_gpusort.sort_by_key(days, rain))
    (array([1, 2, 3]), array([7. , 2.5, 0.5]))
    >>> station = da.from_array([2, 1, 1], chunks=2)
    >>> dask.compute(*dask_gpusort.sort_by_key((station, days), rain))
    (array([1, 1, 2]), array([1, 2, 3]), array([7. , 2.5, 0.5]))
    """
    arrays, several = checked_sort_keys(keys)
    if several:
        WITH_SEVERAL_KEYS.refuse(order=order, key=key, less=less)
    directions = checked_directions(descending, len(arrays))
    options = checked_options(kind, order, stable, not several and directions[0], key, less, method, exchange)
    options = on_device(options, device)
    moved = checked_arrays(values, "values")
    axis = checked_axis(axis, arrays[0].ndim)
    chunks = resolved_chunks(chunks, axis, arrays[0].ndim)
    if several:
        return build_sort_by_keys(options, arrays, directions, moved, axis, chunks)
    return build_sort(options, "both", arrays[0], moved, axis, chunks)


def lexsort(
    keys: Any,
    axis: int = -1,
    *,
    descending: bool | Sequence[bool] = False,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
    device: str | None = None,
) -> Any:
    """Indices that sort by several keys, lazily: `numpy.lexsort` for Dask arrays.

    Parameters
    ----------
    keys : sequence of dask arrays, or dask array
        Keys of one shape, the **last** one most significant; of a single array, the first axis enumerates the keys.
        Dtypes may differ.
    axis : int, default -1
        Axis along which to sort.
    descending : bool or sequence of bool, default False
        Largest first, for all keys or for each of them. NaN and NaT come last in both directions.
    chunks, method, exchange, device
        As for `sort`; by default the chunks of the last key. "radix" needs keys that fit 64 bits together.

    Returns
    -------
    dask array of int64
        Positions along the axis in the whole array. If all keys are equal, the input order is kept. All keys together
        determine the cuts between chunks, so output chunks are exact however many of the most significant keys tie. For
        keys without dimensions the result is 0, as in NumPy.

    Raises
    ------
    TypeError
        If there is no key.
    ValueError
        If shapes differ, or the numbers of directions and keys differ.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    See Also
    --------
    numpy.lexsort : the same for arrays in memory
    sort, sort_by_key : with ``key=``, a function that returns several keys

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> surnames = da.from_array([b"Hertz", b"Galilei", b"Hertz"], chunks=2)
    >>> first_names = da.from_array([b"Heinrich", b"Galileo", b"Gustav"], chunks=2)
    >>> dask_gpusort.lexsort((first_names, surnames)).compute()
    array([1, 2, 0])
    """
    options = on_device(checked_options(method=method, exchange=exchange), device)
    arrays = checked_lexsort_keys(keys)
    scalars = all(is_scalar_row(array, axis) for array in arrays)
    checked = None if scalars else checked_axis(axis, arrays[-1].ndim)
    directions = checked_directions(descending, len(arrays))
    chunks = resolved_chunks(chunks, checked, arrays[-1].ndim)
    return build_lexsort(options, arrays, directions, checked, chunks)
