"""Ranks of keys among all keys along an axis."""

from __future__ import annotations

from typing import Any

from ..arguments.arrays import checked_array
from ..arguments.checks import axis_or_none, checked_directions, checked_labels
from ..arguments.table import NAN_POLICY, RANK_METHOD, WITH_MASKED
from ..builders.masked import NUMBERS, build_masked_rank, is_masked
from ..builders.ranks import build_grouped_rank, build_rank
from ..chunk.tie_groups import Ranking


def rank(
    a: Any,
    axis: int | None = None,
    *,
    method: str = "average",
    nan_policy: str = "propagate",
    pct: bool = False,
    descending: bool = False,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
) -> Any:
    """Ranks of the elements of a Dask array, lazily: `scipy.stats.rankdata`.

    Parameters
    ----------
    a : dask array
        NumPy or CuPy chunks, any number of them along the axis. Other arrays are converted by `dask.array.asanyarray`.
        NumPy chunks may be masked (`numpy.ma`), without `by`: masked elements have masked ranks, and do not count.
    axis : int or None, default None
        Axis along which to rank; None ranks the flattened array. Of one dimension, chunk sizes may be unknown.
    method : {"average", "min", "max", "dense", "ordinal"}
        The rank of equal elements: the average, the least or the greatest of their positions in the sorted array,
        counted from 1; the same with no gaps; or their own positions, in the order of the input.
    nan_policy : {"propagate", "omit", "raise"}
        With NaN or NaT along the axis: all ranks are NaN; those of NaN are NaN, and the others are ranked without them;
        or ValueError is raised, during the computation. `xarray.DataArray.rank` is as "omit".
    pct : bool, default False
        Whether ranks are divided by the number of elements along the axis that are not NaN, as in xarray.
    descending : bool, default False
        Whether the greatest element has rank 1. NaN are as before, and ordinal ranks of equal elements have the order
        of the input.
    by : array_like, optional
        Labels, in memory or lazy, of the size of `a` along `axis`, or of its shape for ``axis=None``: each element is
        ranked among those of the same label, and one whose label is missing (NaN, NaT, None, pandas.NA) has the rank
        NaN. Lanes must fit a chunk.
    groups, window
        As for `quantile`: elements of other groups have the rank NaN; with a window an element is ranked in the group
        of its own label, among the members and their neighbours, each as often as it is near one. Not for "ordinal".

    Returns
    -------
    dask array
        The shape and the chunks of `a`; for ``axis=None`` one dimension, as in SciPy. float64 for "average", with
        `pct`, and where ranks may be NaN: for floats, complex numbers, dates, time differences, objects, and strings
        whose missing ones are NaN, unless NaN raise, and where labels may be missing. Otherwise int64.

    Raises
    ------
    ValueError
        If the method or the policy is unknown. If lanes are in several chunks of unknown sizes. If labels do not fit,
        or lanes with labels are longer than a chunk may be.
    TypeError
        If the chunks cannot be sorted.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    See Also
    --------
    argsort : the inverse of ordinal ranks
    explain_rank : how ranks are computed, before anything runs

    Notes
    -----
    SciPy returns integers for floats without NaN too; a lazy result cannot know whether there are any.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([30, 10, 20, 10], chunks=2)
    >>> dask_gpusort.rank(x).compute()
    array([4. , 1.5, 3. , 1.5])
    >>> dask_gpusort.rank(x, method="dense").compute()
    array([3, 1, 2, 1])
    >>> dask_gpusort.rank(x, descending=True).compute()
    array([1. , 3.5, 2. , 3.5])
    >>> dask_gpusort.rank(x, by=["a", "b", "a", "a"]).compute()
    array([3., 1., 2., 1.])
    >>> dask_gpusort.rank(x, by=["a", "b", "a", "b"], window=3).compute()
    array([5. , 1.5, 4. , 1.5])
    """
    array = checked_array(a, masked=NUMBERS)
    order = checked_directions(descending, 1)[0]
    ranking = Ranking(RANK_METHOD.checked(method), NAN_POLICY.checked(nan_policy), bool(pct), order)
    checked = axis_or_none(axis, array.ndim)
    labels = checked_labels(by, groups, window, array, checked)
    if labels is None:
        return (build_masked_rank if is_masked(array) else build_rank)(array, ranking, checked)
    WITH_MASKED.refuse(by=is_masked(array))
    if labels.window > 1 and method == "ordinal":
        raise ValueError('method="ordinal" has no rank for elements that occur several times: leave window out')
    return build_grouped_rank(array, ranking, checked, labels)
