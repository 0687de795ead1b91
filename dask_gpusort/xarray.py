"""The accessor ``gpusort`` of xarray's objects; ``import dask_gpusort.xarray`` registers it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import xarray as xr
from dask.base import is_dask_collection

from . import api
from .adapters import labelled
from .adapters.labelled_groups import Groups, percentile_doy

__all__ = ["DataArrayAccessor", "DatasetAccessor", "Groups"]


class _Accessor:
    """The methods that DataArrays and Datasets share."""

    def __init__(self, obj: Any):
        self._obj = obj

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

        def sort(array: Any, axis: int) -> Any:
            return labelled.through_dask(lambda darr: api.sort(darr, axis, descending=not ascending), array)

        return self._map_along(dim, sort, labels=False)

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

        Raises
        ------
        ValueError
            If there is no such dimension.

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

        def argsort(array: Any, axis: int) -> Any:
            return labelled.through_dask(lambda darr: api.argsort(darr, axis, descending=not ascending), array)

        return self._map_along(dim, argsort, labels=False, encoding=False)

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

    def median(
        self,
        dim: str | Iterable[Hashable] | None = None,
        *,
        skipna: bool | None = None,
        keep_attrs: bool | None = None,
        weights: Any = None,
    ) -> Any:
        """Medians along some dimensions, exact and without a sort.

        Parameters
        ----------
        dim : hashable, iterable of hashable, or None
            Dimensions to reduce, of any chunks; all of them for None.
        skipna : bool, optional
            Whether NaN are skipped; by default in floats, complex numbers and objects.
        keep_attrs : bool, optional
            As in xarray.
        weights : DataArray or array_like, optional
            As for `quantile`, of which this is then that of 0.5, by the method "inverted_cdf": an element, no mean.

        Returns
        -------
        DataArray or Dataset
            As `xarray.DataArray.median` and `xarray.Dataset.median`.

        Raises
        ------
        ValueError
            If there is no such dimension; with weights as `quantile`.

        See Also
        --------
        dask_gpusort.median, dask_gpusort.nanmedian

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.from_array([[1, 5, 9], [2, 2, 8]], chunks=(1, 2)), dims=("y", "x"))
        >>> x.gpusort.median("x").values
        array([5., 2.])
        >>> float(x.gpusort.median())
        3.5
        """

        def median(array: Any, axis: Any = None) -> Any:
            if axis == ():
                return array
            function = api.nanmedian if labelled.skips_nan(skipna, array.dtype) else api.median
            return labelled.through_dask(lambda darr: function(darr, axis), array)

        whole = isinstance(self._obj, xr.Dataset)
        if weights is not None:
            options = (dim, keep_attrs, skipna, whole, weights)
            return labelled.with_dataset(self._obj, lambda ds: labelled.weighted_medians(ds, *options))
        return self._obj.reduce(median, dim, keep_attrs=keep_attrs, **({"numeric_only": True} if whole else {}))

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

        Raises
        ------
        ValueError
            If there is no such dimension.

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

        def rank(array: Any, axis: int) -> Any:
            options: dict[str, Any] = {"nan_policy": "omit", "pct": pct, "descending": not ascending}
            return labelled.through_dask(lambda darr: api.rank(darr, axis, **options), array).astype(float)

        found = self._map_along(dim, rank, labels=True, others=False, encoding=False)
        return found if labelled.keeps_attrs(keep_attrs) else found.drop_attrs(deep=False)

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

        Raises
        ------
        ValueError
            If there is no such dimension.

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

        def select(array: Any, axis: int) -> Any:
            return labelled.through_dask(lambda darr: api.topk(darr, k, axis), array)

        return self._map_along(dim, select, labels=False)

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
            options take it.

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

    def _map_along(self, dim: Hashable, function: Callable[[Any, int], Any], **options: bool) -> Any:
        return labelled.with_dataset(self._obj, lambda ds: labelled.map_along(ds, dim, function, **options))

    def _quantile(self, q: Any, dim: Any, *options: Any) -> Any:
        return labelled.with_dataset(self._obj, lambda ds: labelled.quantiles(ds, q, dim, *options))


@xr.register_dataarray_accessor("gpusort")
class DataArrayAccessor(_Accessor):
    """Sorts and order statistics of a DataArray."""

    def quantile(
        self,
        q: Any,
        dim: str | Iterable[Hashable] | None = None,
        *,
        method: str | None = None,
        keep_attrs: bool | None = None,
        skipna: bool | None = None,
        weights: Any = None,
    ) -> xr.DataArray:
        """Quantiles along some dimensions, exact and without a sort.

        Parameters
        ----------
        q : float or array of floats
            Quantiles, from 0 to 1.
        dim, keep_attrs, skipna
            As for `median`.
        method : str, optional
            NumPy's methods; see `dask_gpusort.quantile`. The default is "linear", with weights "inverted_cdf", the only
            one that has them.
        weights : DataArray or array_like, optional
            Weights of the elements, not negative, in memory or lazy. Dimensions of a DataArray are found by name, and
            may be some of those of the object. Labels must be equal, in the same order (``join="exact"``). Other
            arrays have the shape of the object, or its sizes along `dim`.

        Returns
        -------
        DataArray
            As `xarray.DataArray.quantile`; several quantiles are along a first dimension ``quantile``.

        Raises
        ------
        ValueError
            If there is no such dimension, if there are weights and another method than "inverted_cdf", or if the
            dimensions, labels or shape of weights do not fit. During the computation as `dask_gpusort.quantile`.

        See Also
        --------
        dask_gpusort.quantile, dask_gpusort.nanquantile

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.arange(12, chunks=5), dims="x")
        >>> x.gpusort.quantile([0.25, 0.5], "x").values
        array([2.75, 5.5 ])
        >>> hours = xr.DataArray([1, 1, 2, 8], dims="x")
        >>> int(xr.DataArray(da.from_array([40, 10, 30, 20], chunks=2), dims="x").gpusort.quantile(0.5, weights=hours))
        20
        """
        found: xr.DataArray = self._quantile(q, dim, method, keep_attrs, skipna, False, weights)
        return found

    def unique(self, dim: Hashable | None = None) -> xr.DataArray:
        """The distinct values, or along a dimension the distinct slices, sorted.

        Parameters
        ----------
        dim : hashable, optional
            Dimension along which slices are compared. Can be left out for a DataArray of one dimension.

        Returns
        -------
        DataArray
            Without coordinates along the dimension. All NaN are one value. xarray knows no sizes that are unknown, so
            their number is computed at once, but not the values.

        Raises
        ------
        ValueError
            If there is no such dimension, or several and none is given.

        See Also
        --------
        dask_gpusort.unique

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.from_array([3, 1, 3, 2], chunks=2), dims="x")
        >>> x.gpusort.unique().values
        array([1, 2, 3])
        """
        if dim is None:
            if self._obj.ndim != 1:
                raise ValueError(
                    f"dim must be one of {self._obj.dims}: give it for distinct slices, or x.data to "
                    "dask_gpusort.unique for the distinct values"
                )
            (dim,) = self._obj.dims

        def unique(array: Any, axis: int) -> Any:
            own = None if array.ndim == 1 else axis
            found = labelled.through_dask(lambda darr: api.unique(darr, axis=own), array)
            return found.compute_chunk_sizes() if is_dask_collection(found) else found

        result: xr.DataArray = self._map_along(dim, unique, labels=False)
        return result

    def percentile_doy(
        self, window: int = 5, per: Any = 10.0, alpha: float = 1 / 3, beta: float = 1 / 3
    ) -> xr.DataArray:
        """Percentiles of each day of the year, of the values of all years and of days around it, as in xclim.

        Parameters
        ----------
        window : int, default 5
            An odd number of steps of time that count for a day, by position along ``time``.
        per : float or list of floats, default 10
            Percentiles, from 0 to 100.
        alpha, beta : float, default 1/3
            Plotting positions of the quantiles: (1/3, 1/3) is NumPy's method "median_unbiased", (1, 1) "linear".

        Returns
        -------
        DataArray
            With the last dimensions ``dayofyear`` and ``percentiles``, and the attributes that xclim gives, but
            ``history``. NaN are skipped. If there is a day 366, the percentiles of the other days are interpolated to
            all days; xarray needs SciPy for that.

        Raises
        ------
        ValueError
            If there is no dimension ``time``, if it has several elements a day, if `window` is even, or if NumPy has
            no method of `alpha` and `beta`.

        See Also
        --------
        dask_gpusort.nanpercentile : with ``by=`` and ``window=``

        Notes
        -----
        Each value is read once. xclim copies it for each day of the window.

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> days = {"time": xr.date_range("2001-01-01", periods=730)}
        >>> x = xr.DataArray(da.arange(730, chunks=100) % 365, days, dims="time")
        >>> x.gpusort.percentile_doy(window=3, per=[10, 50]).sel(dayofyear=40).values
        array([38., 39.])
        """
        return percentile_doy(self._obj, window, per, alpha, beta)


@xr.register_dataset_accessor("gpusort")
class DatasetAccessor(_Accessor):
    """Sorts and order statistics of the variables of a Dataset."""

    def quantile(
        self,
        q: Any,
        dim: str | Iterable[Hashable] | None = None,
        *,
        method: str | None = None,
        numeric_only: bool = False,
        keep_attrs: bool | None = None,
        skipna: bool | None = None,
        weights: Any = None,
    ) -> xr.Dataset:
        """Quantiles of all variables along some dimensions, exact and without a sort.

        Parameters
        ----------
        q, dim, method, keep_attrs, skipna, weights
            As for `DataArrayAccessor.quantile`. Weights are for the variables with dimensions to be reduced.
        numeric_only : bool, default False
            Whether variables of other dtypes than numbers and booleans are dropped.

        Returns
        -------
        Dataset
            As `xarray.Dataset.quantile`.

        Raises
        ------
        ValueError
            As `DataArrayAccessor.quantile`.

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> ds = xr.Dataset({"low": ("x", da.arange(5, chunks=2)), "high": ("x", da.arange(10, 15, chunks=2))})
        >>> found = ds.gpusort.quantile(0.5, "x")
        >>> float(found.low), float(found.high)
        (2.0, 12.0)
        """
        found: xr.Dataset = self._quantile(q, dim, method, keep_attrs, skipna, numeric_only, weights)
        return found
