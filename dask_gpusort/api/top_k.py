"""The public functions for the largest or smallest keys; they check their arguments, then make the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..arguments.arrays import checked_array, checked_arrays, known_size
from ..arguments.checks import checked_axis, checked_labels
from ..arguments.table import MODE_OF_TOP_K, SPLIT_EVERY, WITH_GROUPS, WITH_MASKED, K
from ..builders.groups import build_grouped
from ..builders.masked import NUMBERS, build_masked_top, is_masked
from ..builders.top import select_top
from ..chunk.reducers import top_keys


class TopKResult(NamedTuple):
    """The result of `top_k`, by name or in this order."""

    values: Any
    indices: Any


def top_k(x: Any, k: int, /, *, axis: int = -1, mode: str = "largest") -> TopKResult:
    """The `k` largest or smallest keys along an axis of a Dask array, and their positions, lazily.

    The signature is that of the draft of the array API standard.

    Parameters
    ----------
    x : dask array
        NumPy or CuPy chunks, any number of them, of known size along the axis, and of any dtype that `sort` takes.
    k : int
        How many, from 0 to the size of the axis.
    axis : int, default -1
        Axis along which to select.
    mode : {"largest", "smallest"}
        Which keys: the largest, largest first, or the smallest, smallest first.

    Returns
    -------
    TopKResult
        ``values`` and ``indices`` (int64), Dask arrays of the shape of `x`, but of `k` elements along the axis, in one
        chunk. Of equal keys those at the smallest positions are selected, in ascending order of these. Computed
        together they are selected once.

    Raises
    ------
    numpy.exceptions.AxisError
        If the axis is out of bounds, or the array has no dimension.
    ValueError
        If `k` is negative or greater than the size of the axis, if that is unknown, or if `mode` is unknown.
    TypeError
        If `k` or `axis` is no integer, or the chunks cannot be sorted.

    See Also
    --------
    topk : the keys alone, with companions; takes axes of unknown sizes

    Notes
    -----
    NaN and NaT are last in both modes, as in `sort` and `topk`: they are selected only if there are fewer than `k`
    other keys. ``torch.topk`` counts NaN as the largest.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5, 1, 5, 6], chunks=2)
    >>> values, indices = dask_gpusort.top_k(x, 2)
    >>> values.compute(), indices.compute()
    (array([6, 5]), array([3, 0]))
    """
    array = checked_array(x, "x")
    count, axis = K.checked(k), checked_axis(axis, array.ndim)
    MODE_OF_TOP_K.checked(mode)
    size = known_size(array, axis, "x")
    if not 0 <= count <= size:
        raise ValueError(f"k must be from 0 to {size}, the size of axis {axis} (got {count})")
    return TopKResult(*select_top(array, (), count if mode == "largest" else -count, axis, None))


def topk(
    a: Any,
    k: int,
    axis: int = -1,
    split_every: int | None = None,
    *,
    values: Any = (),
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
) -> Any:
    """The `k` largest or smallest keys along an axis of a Dask array, sorted, lazily.

    The result is the beginning of a stable sort, which is not carried out: ``sort(a, axis, descending=k > 0)``.

    Parameters
    ----------
    a : dask array
        NumPy or CuPy chunks, any number of them, of known or unknown sizes, and of any dtype that `sort` takes. Masked
        elements of NumPy chunks (`numpy.ma`), of numbers or dates and without `values` and `by`, are last.
    k : int
        How many. If positive, the largest keys, largest first; if negative, the ``-k`` smallest keys, smallest first.
        If there are fewer, the result has all of them.
    axis : int, default -1
        Axis along which to select.
    split_every : int, optional
        Most chunks whose keys one task merges, at least 2, as for `dask.array.topk`. By default few enough that their
        first `k` keys are no more than the keys of a chunk, but at least Dask's ``split_every`` and at most 32.
    values : dask array or sequence of dask arrays, optional
        Companions of the shape of `a`, moved with the keys. If `a` is one-dimensional, they may have more dimensions:
        then whole rows move.
    by, groups, window
        As for `quantile`: the keys of each group are selected. Not with `values` or `split_every`. With a window an
        element is selected once for each time that it is near one of the group.

    Returns
    -------
    dask array, or tuple of dask arrays
        The keys; with `values` the keys, then each companion. One chunk along the axis. With `by` the first dimension
        is of ``abs(k)`` keys, and that of the groups is in the place of the axis. A group of fewer elements has NaN or
        NaT behind them; where there may be such groups, integers become float64.

    Raises
    ------
    numpy.exceptions.AxisError
        If the axis is out of bounds, or the array has no dimension.
    ValueError
        If the shapes of `values` do not match, or `split_every` is less than 2. If labels do not fit, or groups may be
        larger than a chunk.
    TypeError
        If the chunks cannot be sorted. If groups may have fewer than ``abs(k)`` elements, and there is no NaN of the
        dtype, as of strings. If `values` or `split_every` is given with `by`.

    See Also
    --------
    argtopk : the positions of the same keys; if both are computed together without `values`, the tasks are the same
    dask.array.topk

    Notes
    -----
    Unlike in `dask.array.topk`, NaN and NaT are last in both directions, as in `sort`: they are returned only if
    there are fewer than `k` other keys. `dask.array.topk` and ``torch.topk`` count NaN as the largest.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5.0, 1.0, float("nan"), 6.0], chunks=2)
    >>> dask_gpusort.topk(x, 2).compute()
    array([6., 5.])
    >>> dask_gpusort.topk(x, -2).compute()
    array([1., 5.])
    >>> dask_gpusort.topk(x, 2, by=["a", "a", "b", "b"]).compute()
    array([[ 5.,  6.],
           [ 1., nan]])
    >>> dask_gpusort.topk(x, 2, by=["a", "a", "b", "b"], window=3).compute()
    array([[5., 6.],
           [5., 6.]])
    """
    checked, companions = checked_array(a, masked=NUMBERS), checked_arrays(values, "values")
    return _select(checked, k, axis, split_every, (by, groups, window), companions, positions=False)


def argtopk(
    a: Any, k: int, axis: int = -1, split_every: int | None = None, *, by: Any = None, groups: Any = None
) -> Any:
    """The positions of the `k` largest or smallest keys along an axis of a Dask array, lazily.

    Parameters
    ----------
    a, k, axis, split_every, by, groups
        As for `topk`.

    Returns
    -------
    dask array of int64
        Positions along the axis in the whole array, in the order of `topk`. Of equal keys the ones at the smallest
        positions are selected, in ascending order of these. With `by`, -1 behind the positions of a group of fewer
        elements.

    Raises
    ------
    AxisError, ValueError, TypeError
        As `topk`; there is no dtype without -1.

    See Also
    --------
    topk
    dask.array.argtopk : leaves the order of equal keys open, and counts NaN as the largest

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5, 1, 5, 6], chunks=2)
    >>> dask_gpusort.argtopk(x, 2).compute()
    array([3, 0])
    """
    return _select(checked_array(a), k, axis, split_every, (by, groups, None), (), positions=True)


def _select(
    array: Any,
    k: int,
    axis: int,
    split_every: int | None,
    grouping: tuple[Any, Any, Any],
    values: Sequence[Any],
    positions: bool,
) -> Any:
    count, axis = K.checked(k), checked_axis(axis, array.ndim)
    labels = checked_labels(*grouping, array, axis)
    if labels is None:
        most = None if split_every is None else SPLIT_EVERY.checked(split_every)
        if is_masked(array):
            WITH_MASKED.refuse(values=bool(values))
            return build_masked_top(array, count, axis, most)
        keys, found, *moved = select_top(array, values, count, axis, most)
        return found if positions else (keys, *moved) if moved else keys
    WITH_MASKED.refuse(by=is_masked(array))
    if values:
        raise TypeError(
            "values do not move with the keys of groups: give by alone, and take values at the positions of argtopk"
        )
    WITH_GROUPS.refuse(split_every=split_every)
    return build_grouped(array, top_keys(count, positions), (axis,), labels)
