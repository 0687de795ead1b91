"""The accessor ``gpusort`` of xarray's objects; ``import dask_gpusort.xarray`` registers it."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import xarray as xr

from .adapters.accessor import Accessor
from .adapters.days import percentile_doy
from .adapters.labelled_groups import Groups
from .adapters.reductions import Reductions

__all__ = ["DataArrayAccessor", "DataTreeAccessor", "DatasetAccessor", "Groups"]


@xr.register_dataarray_accessor("gpusort")
class DataArrayAccessor(Accessor):
    """Sorts and order statistics of a DataArray."""

    def unique(self, dim: Hashable | None = None) -> Any:
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

        return self._along("unique", dim)

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
class DatasetAccessor(Accessor):
    """Sorts and order statistics of the variables of a Dataset."""


@xr.register_datatree_accessor("gpusort")
class DataTreeAccessor(Reductions):
    """Order statistics of all Datasets of a DataTree, of each along those of the dimensions that it has."""

    @functools.wraps(Reductions.quantile)
    def quantile(self, q: Any, dim: Any = None, **options: Any) -> Any:  # type: ignore[override]
        known = {each for node in self._obj.subtree for each in node.dims}
        wanted = known if dim is None or dim is ... else {dim} if isinstance(dim, str) else {*dim}
        if unknown := wanted - known:
            raise ValueError(f"Dimensions {unknown} not found in those of the tree: give dim some of {known}")

        def of_node(node: xr.DataTree) -> xr.Dataset:
            dims = [each for each in node.to_dataset(inherit=False).dims if each in wanted]
            return DatasetAccessor(node.to_dataset()).quantile(q, dims, **options)

        nodes = {path: of_node(node) for path, node in self._obj.subtree_with_keys}
        return xr.DataTree.from_dict(nodes, name=self._obj.name)
