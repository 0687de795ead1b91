"""The public functions for elements at given positions; they check their arguments, then make the graph."""

from __future__ import annotations

from typing import Any

from dask.base import is_dask_collection

from ..arguments.arrays import check_known_axis, checked_array, known_size
from ..arguments.checks import axis_or_none, checked_axis, checked_seed, is_scalar_row
from ..arguments.indices import check_broadcast, checked_along, checked_take_indices, checked_values
from ..arguments.table import MODE_OF_TAKE, N
from ..builders.positions import build_put_along, build_take, build_take_along, take_known
from ..builders.shuffle import build_permutation, build_shuffle
from ..graph.inputs import shaped_as


def permutation(n: int, chunks: Any = "auto", seed: int | None = None) -> Any:
    """The positions from 0 to ``n - 1`` in a random order, lazily.

    Parameters
    ----------
    n : int
        How many.
    chunks : int, tuple or str, default "auto"
        Chunks of the result, as for `dask.array.arange`. They do not change its elements.
    seed : int, optional
        At least 0. With the same seed and `n` the order is the same; None draws a seed in the call.

    Returns
    -------
    dask array of int64
        Shape (n,), of NumPy chunks.

    Raises
    ------
    TypeError
        If `n` or `seed` is no integer.
    ValueError
        If `n` or `seed` is negative, or `chunks` do not fit.

    See Also
    --------
    shuffle : arrays in this order

    Notes
    -----
    It is the stable order of the first `n` outputs of `numpy.random.Philox`, of 64 bits, with this seed.

    Examples
    --------
    >>> import dask_gpusort
    >>> order = dask_gpusort.permutation(6, chunks=2, seed=0)
    >>> sorted(order.compute().tolist())
    [0, 1, 2, 3, 4, 5]
    """
    return build_permutation(N.checked(n), chunks, checked_seed(seed))


def shuffle(x: Any, *companions: Any, axis: int = 0, seed: int | None = None) -> Any:
    """A Dask array, and others, with their slices along an axis in one random order, lazily.

    Parameters
    ----------
    x : dask array
        NumPy or CuPy chunks, any number of them, of known sizes along the axis.
    *companions : dask arrays
        Of the same size along the axis; other dimensions, chunks and libraries may differ.
    axis : int, default 0
        Axis along which to shuffle all of them.
    seed : int, optional
        At least 0. With the same seed the order is the same, for any chunks, schedulers and libraries; None draws a
        seed in the call.

    Returns
    -------
    dask array, or tuple of dask arrays
        The shuffled array; with companions a tuple of it and these. Each has the chunks of its input.

    Raises
    ------
    numpy.exceptions.AxisError
        If the axis is out of bounds of an array.
    TypeError
        If `axis` or `seed` is no integer.
    ValueError
        If sizes along the axis differ or are unknown, or if `seed` is negative.

    See Also
    --------
    permutation : the order: ``take(x, permutation(n, seed=seed), axis)`` has the same elements
    take : how slices move, and what that takes of memory

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.arange(6, chunks=2)
    >>> both = dask_gpusort.shuffle(x, x + 10, seed=0)
    >>> (both[1] - both[0]).compute()
    array([10, 10, 10, 10, 10, 10])
    """
    names = ["x", *(f"companions {number}" for number in range(len(companions)))]
    arrays = [checked_array(one, name) for one, name in zip((x, *companions), names, strict=True)]
    axes = [checked_axis(axis, array.ndim) for array in arrays]
    sizes = [known_size(*one) for one in zip(arrays, axes, names, strict=True)]
    for name, size in zip(names, sizes, strict=True):
        if size != sizes[0]:
            raise ValueError(f"{name} has {size} slices along axis {axis}, x has {sizes[0]}: give arrays of one size")
    found = build_shuffle(arrays, axes, checked_seed(seed))
    return tuple(found) if companions else found[0]


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    """Elements of a Dask array at positions along an axis, lazily: `numpy.take`.

    Parameters
    ----------
    a : dask array
        NumPy or CuPy chunks, any number of them. Other arrays are converted by `dask.array.asanyarray`.
    indices : dask array or array_like of int, any shape
        Of a Dask array, neither the indices nor their number need be known, unless `a` has several chunks along the
        axis that do not fit one chunk.
    axis : int or None, default None
        Axis along which to take; None takes from the flattened array.
    mode : {"raise", "wrap", "clip"}
        What to do with indices that are out of range. Negative ones count from the end with "raise".

    Returns
    -------
    dask array
        Shape ``a.shape[:axis] + indices.shape + a.shape[axis + 1:]``, in the chunks of `a` and of the indices.

    Raises
    ------
    numpy.exceptions.AxisError
        If the axis is out of bounds.
    TypeError
        If the indices are no integers; if `a` has NumPy chunks and the indices CuPy chunks, or the reverse.
    ValueError
        If `mode` is unknown; if sizes of several chunks along the axis are unknown.
    IndexError
        If an index is out of range: at once if the indices are in memory, else when it is read.

    See Also
    --------
    take_along_axis : positions of each lane
    explain_take : how elements are read, before anything runs
    dask.array.take : indices in memory only

    Notes
    -----
    Elements of chunks that share a memory are taken from the joined chunks. On a cluster the indices travel to the
    elements and these back, in tasks that hold no more than a tenth of a worker's memory each, or a chunk.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5, 1, 7, 3, 2], chunks=2)
    >>> dask_gpusort.take(x, da.from_array([4, 0, -1], chunks=2)).compute()
    array([2, 5, 2])
    """
    MODE_OF_TAKE.checked(mode)
    array = checked_array(a)
    checked = None if is_scalar_row(array, axis) else axis_or_none(axis, array.ndim)
    if checked is not None or array.ndim == 1:
        check_known_axis(array, checked or 0, "a")
    if is_dask_collection(indices):
        return build_take(array, checked_take_indices(checked_array(indices, "indices"), array), checked, mode)
    return take_known(array, checked_take_indices(indices), checked, mode)


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Elements of a Dask array at positions of each lane, lazily: `numpy.take_along_axis`.

    With `argsort` it gives the sorted array, and with the inverse of a permutation what was before it.

    Parameters
    ----------
    arr : dask array
        NumPy or CuPy chunks, any number of them. Other arrays are converted by `dask.array.asanyarray`.
    indices : dask array of int
        Of as many dimensions. The other axes are broadcast against those of `arr`.
    axis : int or None, default -1
        Axis along which to take; None takes from the flattened array, with one-dimensional indices.

    Returns
    -------
    dask array
        In the chunks of the indices; along axes that these are broadcast to, in the chunks of `arr`.

    Raises
    ------
    numpy.exceptions.AxisError
        If the axis is out of bounds.
    ValueError
        If the numbers of dimensions differ; if sizes of several chunks along the axis are unknown.
    IndexError
        If the indices are no integers, or the shapes do not match; when it is read, if an index is out of range.
    TypeError
        If `arr` has NumPy chunks and the indices CuPy chunks, or the reverse.

    See Also
    --------
    put_along_axis, take, argsort
    explain_take_along_axis : how elements are read, before anything runs

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5, 1, 7, 3, 2], chunks=2)
    >>> dask_gpusort.take_along_axis(x, dask_gpusort.argsort(x)).compute()
    array([1, 2, 3, 5, 7])
    """
    array, positions, checked = checked_along(checked_array(arr, "arr"), indices, axis)
    check_broadcast(array.shape, positions.shape, checked)
    return build_take_along(array, positions, checked)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> Any:
    """A Dask array with values at positions of each lane, lazily: `numpy.put_along_axis` as a new array.

    A Dask array cannot be changed in place, so the result is returned, and `arr` stays as it is.

    Parameters
    ----------
    arr : dask array
        NumPy or CuPy chunks, any number of them. Other arrays are converted by `dask.array.asanyarray`.
    indices : dask array of int
        Of as many dimensions. The other axes are broadcast against those of `arr`.
    values : dask array or array_like
        Broadcast to the shape of the indices, and converted to the dtype of `arr`: arrays are cast, while numbers of
        Python must fit. If an index occurs several times, the last value in C order stays, as in NumPy.
    axis : int or None
        Axis along which to write; None writes to the flattened array, with one-dimensional indices.

    Returns
    -------
    dask array
        Of the shape, the dtype and the chunks of `arr`.

    Raises
    ------
    AxisError, IndexError
        As `take_along_axis`.
    TypeError, ValueError
        As `take_along_axis`; if the values cannot be broadcast; as NumPy, if Python's values do not fit the dtype.
    OverflowError
        If Python's integers do not fit the dtype.

    See Also
    --------
    take_along_axis

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5, 1, 7, 3, 2], chunks=2)
    >>> dask_gpusort.put_along_axis(x, da.from_array([4, 0]), 9, axis=0).compute()
    array([9, 1, 7, 3, 9])
    """
    original = checked_array(arr, "arr")
    array, positions, checked = checked_along(original, indices, axis)
    shape = check_broadcast(array.shape, positions.shape, checked)
    found = build_put_along(array, positions, checked_values(values, array, shape), checked)
    return found if axis is not None else shaped_as(found, original)
