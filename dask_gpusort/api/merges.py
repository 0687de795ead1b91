"""Arrays that are sorted: merges of several, and whether one is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arguments.arrays import checked_array, checked_sorted_arrays
from ..arguments.checks import axis_or_none, checked_options, on_device, resolved_chunks
from ..builders.sort import build_is_sorted, build_merge


def merge_sorted(
    *arrays: Any,
    order: str | Sequence[str] | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    less: Callable[[Any, Any], Any] | str | None = None,
    chunks: Any = None,
    method: str = "auto",
    exchange: str = "auto",
    device: str | None = None,
) -> Any:
    """Merge sorted Dask arrays into one, lazily, without sorting them again.

    Parameters
    ----------
    *arrays : dask arrays
        One-dimensional; each chunk is already sorted, by the same order.
    order, descending, key, less, chunks, method, exchange, device
        As for `sort`. The default chunks are those of the concatenated arrays, without the empty ones.

    Returns
    -------
    dask array
        All elements, sorted. Equal elements keep the order of the arrays, and their order within each array.

    Raises
    ------
    TypeError
        If there is no array; also as `sort`.
    ValueError
        If an array is not one-dimensional; during the computation, if a chunk is not sorted.

    Notes
    -----
    Each chunk is checked once, which is cheap. The chunks of one array need not be in order among themselves.

    See Also
    --------
    is_sorted

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> old, new = da.from_array([1, 3, 5, 7], chunks=2), da.from_array([2, 3])
    >>> dask_gpusort.merge_sorted(old, new).compute()
    array([1, 2, 3, 3, 5, 7])
    """
    options = on_device(checked_options(None, order, True, descending, key, less, method, exchange), device)
    checked = checked_sorted_arrays(arrays)
    chunks = resolved_chunks(chunks, 0, 1)
    return build_merge(options, checked, chunks)


def is_sorted(
    a: Any,
    axis: int | None = -1,
    *,
    order: str | Sequence[str] | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    less: Callable[[Any, Any], Any] | str | None = None,
) -> Any:
    """Whether a Dask array is sorted along an axis, lazily.

    Parameters
    ----------
    a, axis, order, descending, key, less
        As for `sort`.

    Returns
    -------
    dask array of bool, shape ()
        True if no element comes before its predecessor, within chunks and across their borders. Rows of at most one
        element are sorted.

    Raises
    ------
    AxisError, ValueError, TypeError
        As `sort`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> bool(dask_gpusort.is_sorted(da.from_array([1, 2, 2, 5], chunks=2)))
    True
    """
    options = checked_options(order=order, descending=descending, key=key, less=less)
    array = checked_array(a)
    return build_is_sorted(options, array, axis_or_none(axis, array.ndim))
