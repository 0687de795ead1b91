"""The methods of the accessor ``gpusort`` that DataArrays and Datasets of xarray share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import xarray as xr

from .. import api
from . import labelled
from .labelled_groups import Groups
from .reductions import Reductions
from .table import ROWS


class Accessor(Reductions):
    """The methods that DataArrays and Datasets share."""

    def sort_values(self, dim: Hashable, *, ascending: bool = True) -> Any:
        """Sort the values along a dimension.

        Parameters
        ----------
        dim : hashable
            Dimension along which to sort, of any chunks. Of a Dataset each variable is sorted on its own; variables
            without the dimension are left alone.
        ascending : bool, default True
            Smallest first, as in pandas; functions take ``descending``. NaN and NaT come last in both directions.

        Returns
        -------
        DataArray or Dataset
            With the name, the attributes and the chunks of the object. Coordinates along the dimension are dropped,
            because labels no longer belong to values.

        Raises
        ------
        ValueError
            If there is no such dimension.

        See Also
        --------
        sortby : moves whole slices, with their labels
        dask_gpusort.sort

        Examples
        --------
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray([3, 1, 2], dims="x", coords={"x": [10, 20, 30]}).chunk(x=2)
        >>> x.gpusort.sort_values("x").values
        array([1, 2, 3])
        """
        return self._along("sort", dim, descending=not ascending)

    def argsort(self, dim: Hashable, *, ascending: bool = True) -> Any:
        """Positions that sort the values along a dimension.

        Parameters
        ----------
        dim, ascending
            As for `sort_values`.

        Returns
        -------
        DataArray or Dataset of int64
            Positions along the dimension; equal values keep their order. Coordinates along the dimension are dropped.

        See Also
        --------
        dask_gpusort.argsort

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.from_array([3, 1, 2], chunks=2), dims="x")
        >>> x.gpusort.argsort("x").values
        array([1, 2, 0])
        """
        return self._along("argsort", dim, descending=not ascending)

    def sortby(
        self,
        variables: Hashable | xr.DataArray | list[Any] | Callable[[Any], Any],
        ascending: bool = True,
    ) -> Any:
        """Sort by the values of one-dimensional variables, which may be lazy, without computing them.

        Parameters
        ----------
        variables : hashable, DataArray, list of these, or callable
            The keys: names, or arrays of one dimension, the first one most significant. A function is called with the
            object. Keys of different dimensions sort each their own.
        ascending : bool, default True
            Smallest first. As in xarray, equal keys are in reverse order if it is False.

        Returns
        -------
        DataArray or Dataset
            All variables along the dimension of the keys are reordered, in their chunks. If a key is lazy, so are they,
            coordinates too. Indexes along the dimension are then replaced by one that refuses to be aligned with
            others, until ``set_xindex`` computes the labels.

        Raises
        ------
        ValueError
            If a key has another number of dimensions than one.

        See Also
        --------
        xarray.Dataset.sortby : computes the keys, and gathers all chunks
        dask_gpusort.sort_by_key

        Notes
        -----
        NaN and NaT come last in each key, in both directions.

        Examples
        --------
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> ds = xr.Dataset({"k": ("x", [2, 0, 1]), "v": ("x", [20, 0, 10])}).chunk(x=2)
        >>> ds.gpusort.sortby("k")["v"].values
        array([ 0, 10, 20])
        """
        return labelled.sort_dimensions(self._obj, variables, bool(ascending))

    def rank(self, dim: Hashable, *, ascending: bool = True, pct: bool = False, keep_attrs: bool | None = None) -> Any:
        """Ranks of the values along a dimension, from 1; equal values have the average of their ranks.

        Parameters
        ----------
        dim : hashable
            Dimension along which to rank, of any chunks. Of a Dataset each variable is ranked on its own; variables
            without the dimension are dropped.
        ascending : bool, default True
            Whether the smallest value has rank 1, or the largest.
        pct : bool, default False
            Whether ranks are divided by the number of values that are not NaN.
        keep_attrs : bool, optional
            As in xarray.

        Returns
        -------
        DataArray or Dataset of float64
            As `xarray.DataArray.rank`, which refuses several chunks along the dimension. NaN have no rank, but NaN.

        See Also
        --------
        dask_gpusort.rank

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.from_array([30.0, 10.0, float("nan"), 10.0], chunks=2), dims="x")
        >>> x.gpusort.rank("x").values
        array([3. , 1.5, nan, 1.5])
        """
        return labelled.ranks(self._obj, dim, ascending, pct, keep_attrs)

    def topk(self, k: int, dim: Hashable) -> Any:
        """The largest or smallest values along a dimension, sorted.

        Parameters
        ----------
        k : int
            How many: if positive the largest, largest first; if negative the smallest ``-k``, smallest first.
        dim : hashable
            Dimension along which to select, of any chunks.

        Returns
        -------
        DataArray or Dataset
            With at most ``abs(k)`` values along the dimension, in one chunk, and without its coordinates. NaN come last
            in both directions.

        See Also
        --------
        dask_gpusort.topk

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.from_array([5, 1, 7, 3], chunks=2), dims="x")
        >>> x.gpusort.topk(2, "x").values
        array([7, 5])
        >>> x.gpusort.topk(-2, "x").values
        array([1, 3])
        """
        return self._along("topk", dim, k=k)

    def groupby(self, *args: Any, **kwargs: Any) -> Groups:
        """Groups of any chunks, by labels in memory or lazy, for exact medians and quantiles of each.

        Parameters
        ----------
        *args, **kwargs
            As of `xarray.DataArray.groupby`, so also groupers such as `xarray.groupers.BinGrouper`.

        Returns
        -------
        Groups
            With the methods ``median(dim=None, *, skipna, keep_attrs)`` and ``quantile(q, dim=None, *, method,
            keep_attrs, skipna)`` of xarray's groups. Results have the labels that xarray gives, by ``flox`` where its
            options take it. ``rank(*, ascending, pct, keep_attrs, window)`` ranks each value in its group, ``topk(k)``
            gives the largest of each; ``mode(dim=None, *, skipna, keep_attrs)`` and ``nunique(dim=None, *,
            keep_attrs)`` are of each group.

        See Also
        --------
        dask_gpusort.register : the same for xarray's own ``groupby``
        dask_gpusort.quantile : with ``by=``

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.arange(6, chunks=4), dims="x", coords={"kind": ("x", list("abbaba"))})
        >>> x.gpusort.groupby("kind").median().values
        array([3., 2.])
        >>> x.gpusort.groupby("kind").rank().values
        array([1., 1., 2., 2., 3., 3.])
        """
        return Groups(self._obj.groupby(*args, **kwargs))

    def resample(self, *args: Any, **kwargs: Any) -> Groups:
        """Groups along time, in any chunks, for exact medians and quantiles of each.

        Parameters
        ----------
        *args, **kwargs
            As of `xarray.DataArray.resample`.

        Returns
        -------
        Groups
            As of `groupby`.

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> days = {"time": xr.date_range("2001-01-30", periods=5)}
        >>> x = xr.DataArray(da.arange(5, chunks=3), days, dims="time")
        >>> x.gpusort.resample(time="1MS").quantile(0.5).values
        array([0.5, 3. ])
        """
        return Groups(self._obj.resample(*args, **kwargs))

    def _along(self, name: str, dim: Hashable, **options: Any) -> Any:
        """Call a function along a dimension of each variable, and keep what its row says."""
        return labelled.map_along(self._obj, dim, functools.partial(getattr(api, name), **options), ROWS[name].xarray)
