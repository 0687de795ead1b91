"""The methods of the accessor ``gpusort`` that reduce dimensions of DataArrays and Datasets of xarray."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable
from typing import Any

import xarray as xr

from .. import api
from . import labelled
from .signatures import refusing_interpolation


class Reductions:
    """What is found of all values along some dimensions."""

    def __init__(self, obj: Any):
        self._obj = obj

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
        whole = not isinstance(self._obj, xr.DataArray)
        if weights is not None:
            given = (dim, keep_attrs, skipna, whole, weights)
            return labelled.with_dataset(self._obj, lambda ds: labelled.weighted_medians(ds, *given))
        options = {"numeric_only": True} if whole else {}
        return labelled.reduced(self._obj, labelled.skipping_nan("median", skipna), dim, keep_attrs, **options)

    @refusing_interpolation
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
    ) -> Any:
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
        numeric_only : bool, default False
            Whether variables of a Dataset of other dtypes than numbers and booleans are dropped.
        weights : DataArray or array_like, optional
            Weights of the elements, not negative, in memory or lazy. Dimensions of a DataArray are found by name, and
            may be some of those of the object. Labels must be equal, in the same order (``join="exact"``). Other
            arrays have the shape of the object, or its sizes along `dim`. Of a Dataset they are for the variables with
            dimensions to be reduced.

        Returns
        -------
        DataArray or Dataset
            As `xarray.DataArray.quantile` and `xarray.Dataset.quantile`; several quantiles are along a first dimension
            ``quantile``.

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
        if numeric_only and not isinstance(self._obj, xr.Dataset):
            raise TypeError("numeric_only is for the variables of a Dataset: leave it out")
        options = (method, keep_attrs, skipna, numeric_only, weights)
        return labelled.with_dataset(self._obj, lambda ds: labelled.quantiles(ds, q, dim, *options))

    def mode(self, dim: Any = None, *, skipna: bool | None = None, keep_attrs: bool | None = None) -> Any:
        """The most common values along some dimensions, of several that are as common the smallest.

        Parameters
        ----------
        dim, skipna, keep_attrs
            As for `median`. NaN that are not skipped are a value, all of them the same.

        Returns
        -------
        DataArray or Dataset
            With the dtypes of the object, without the dimensions.

        Raises
        ------
        ValueError
            If there is no such dimension.

        See Also
        --------
        dask_gpusort.mode : with the counts, and of groups

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.from_array([[3, 1, 3], [2, 2, 1]], chunks=2), dims=("y", "x"))
        >>> x.gpusort.mode("x").values
        array([3, 2])
        """
        return labelled.reduced(self._obj, functools.partial(labelled.modes, skipna=skipna), dim, keep_attrs)

    def nunique(self, dim: Any = None, *, keep_attrs: bool | None = None) -> Any:
        """The numbers of distinct values along some dimensions; all NaN are one value.

        Parameters
        ----------
        dim, keep_attrs
            As for `median`.

        Returns
        -------
        DataArray or Dataset of int64
            Without the dimensions.

        Raises
        ------
        ValueError
            If there is no such dimension.

        See Also
        --------
        dask_gpusort.nunique : of groups

        Examples
        --------
        >>> import dask.array as da
        >>> import xarray as xr
        >>> import dask_gpusort.xarray
        >>> x = xr.DataArray(da.from_array([[3, 1, 3], [2, 2, 2]], chunks=2), dims=("y", "x"))
        >>> x.gpusort.nunique("x").values
        array([2, 1])
        """
        return labelled.reduced(self._obj, api.nunique, dim, keep_attrs)
