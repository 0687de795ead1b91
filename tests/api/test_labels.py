"""Functions of arrays refuse labelled arrays, and collections that are no arrays, with the remedy."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

import dask_gpusort

X = da.arange(6, chunks=2)
CALLS = {
    "sort": dask_gpusort.sort,
    "argsort": dask_gpusort.argsort,
    "sort_by_key": lambda a: dask_gpusort.sort_by_key(X, a),
    "lexsort": lambda a: dask_gpusort.lexsort([X, a]),
    "lexsort of one": dask_gpusort.lexsort,
    "merge_sorted": lambda a: dask_gpusort.merge_sorted(X, a),
    "is_sorted": dask_gpusort.is_sorted,
    "median": dask_gpusort.median,
    "nanquantile": lambda a: dask_gpusort.nanquantile(a, 0.5),
    "weights": lambda a: dask_gpusort.quantile(X, 0.5, method="inverted_cdf", weights=a),
    "topk": lambda a: dask_gpusort.topk(a, 2),
    "partition": lambda a: dask_gpusort.partition(a, 2),
    "explain": dask_gpusort.explain,
    "searchsorted": lambda a: dask_gpusort.searchsorted(a, X),
    "needles": lambda a: dask_gpusort.searchsorted(X, a),
    "isin": lambda a: dask_gpusort.isin(X, a),
}


def labelled():
    """Objects by the package that defines them, with a part of the message."""
    xr, pd = pytest.importorskip("xarray"), pytest.importorskip("pandas")
    dd, bag = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.bag")
    array, frame = xr.DataArray(np.arange(6.0), dims="t"), pd.DataFrame({"a": np.arange(6.0)})
    lazy = dd.from_pandas(frame, npartitions=2)
    return [
        (array, r"DataArray .*import dask_gpusort.xarray.*sort_values\(dim\).*x\.data"),
        (array.chunk(t=2), r"DataArray .*import dask_gpusort.xarray"),
        (array.variable, r"Variable .*x\.data"),
        (array.to_dataset(name="a"), r"Dataset .*x\.gpusort\.sortby\(key\)"),
        (frame, r"DataFrame .*to_numpy\(\)"),
        (frame["a"], r"Series .*to_numpy\(\)"),
        (lazy, r"DataFrame .*to_dask_array\(lengths=True\)"),
        (lazy["a"], r"Series .*to_dask_array\(lengths=True\)"),
        (bag.from_sequence([1, 2]), r"Bag .*to_dataframe\(\)"),
        (dask.delayed(np.arange)(3), r"Delayed.* .*from_delayed"),
    ]


@pytest.mark.parametrize("name", CALLS)
def test_the_error_names_the_remedy(name, raise_if_computes):
    with raise_if_computes():
        for given, message in labelled():
            with pytest.raises(TypeError, match=message):
                CALLS[name](given)


def test_the_remedies_work():
    for given, message in labelled():
        if r"to_dask_array" in message:
            with pytest.raises(TypeError):
                dask_gpusort.sort(given)
            assert dask_gpusort.sort(given.to_dask_array(lengths=True), 0).compute().shape[0] == 6
