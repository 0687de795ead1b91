"""Percentiles of the days of the year, of the values of all years."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from .. import api
from .labelled import through_dask

#: NumPy's methods of these plotting positions, alpha and beta.
_METHODS = {
    (0, 1): "interpolated_inverted_cdf",
    (0.5, 0.5): "hazen",
    (0, 0): "weibull",
    (1, 1): "linear",
    (1 / 3, 1 / 3): "median_unbiased",
    (3 / 8, 3 / 8): "normal_unbiased",
}


def percentile_doy(array: xr.DataArray, window: int, per: Any, alpha: float, beta: float) -> xr.DataArray:
    """Percentiles of the days of the year, each with its neighbours in time, as `percentile_doy` of xclim."""
    if (method := _METHODS.get((alpha, beta))) is None:
        raise ValueError(f"alpha and beta must be one of {[*_METHODS]} (got {alpha} and {beta})")
    if "time" not in array.dims:
        raise ValueError(f"time must be a dimension, and is not in {array.dims}: rename that of time")
    if not array.sizes["time"]:
        raise ValueError("time has no elements, so there are no percentiles: select some, with sel(time=...)")
    time = array["time"].dt
    days = time.dayofyear.values
    if len(np.unique([time.year.values, days], axis=1).T) < len(days):
        raise ValueError("time must have at most one element a day: call resample(time='1D') and reduce first")
    groups, axis, percents = np.unique(days), array.get_axis_num("time"), np.atleast_1d(per)
    options: dict[str, Any] = {"axis": axis, "method": method, "by": days, "groups": groups, "window": window}
    data = through_dask(lambda darr: api.nanpercentile(darr, percents, **options), array.data)
    dims = ["percentiles", *("dayofyear" if each == "time" else each for each in array.dims)]
    labels = {name: coord for name, coord in array.coords.items() if "time" not in coord.dims}
    found = xr.DataArray(data, {**labels, "dayofyear": groups, "percentiles": percents}, dims, "per")
    if groups[-1] == 366:
        # Only leap years have this day, so the other days are interpolated to all.
        found = found.chunk(dayofyear=-1) if found.chunks else found
        found = found.isel(dayofyear=slice(-1)).interpolate_na("dayofyear")
        found["dayofyear"] = np.linspace(groups[0], 366, len(groups) - 1)
        found = found.interp(dayofyear=range(groups[0], 367))
    bounds = array["time"][[0, -1]].dt.strftime("%Y-%m-%d").values.tolist()
    about = {"climatology_bounds": bounds, "window": window, "alpha": alpha, "beta": beta}
    return found.transpose(..., "dayofyear", "percentiles").assign_attrs({**array.attrs, **about})
