"""Where each function goes: its place and its arguments in NumPy, Dask, the array API, SciPy, xarray and flox.

A new function appears in all of these by its row. `targets` reads the rows for `register`, `accessor` for its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..arguments.table import IN_PLACE
from . import scipy_stats
from .signatures import OURS, Arguments


class Method(NamedTuple):
    """A method of the accessor, and what it keeps if it replaces arrays along a dimension."""

    name: str
    #: Coordinates along the dimension, if they belong to the results.
    labels: bool = False
    #: Variables of a Dataset without the dimension.
    others: bool = True
    #: How arrays are written to files, if values of the results are some of theirs.
    encoding: bool = True


class Row(NamedTuple):
    """Where a function goes; an empty place has what is said there."""

    #: Its arguments in NumPy; None if NumPy has no such function.
    numpy: Arguments | None = OURS
    #: In `dask.array` and `dask_array`; None if they are NumPy's.
    dask: Arguments | None = None
    #: In the array API; None if they are Dask's.
    array_api: Arguments | None = None
    #: Functions of `scipy.stats`, by name: their arguments, or what is called with SciPy's own function before them.
    scipy: Mapping[str, Arguments | Callable[..., Any]] = {}
    #: In the accessor of xarray's objects, if it has such a method.
    xarray: Method = Method("")
    #: Whether it is a method of xarray's groups, which `flox` serves.
    groups: bool = False


def _refuse_out(given: dict[str, Any]) -> None:
    IN_PLACE.refuse(out=given["out"])


def _need_axis(given: dict[str, Any]) -> None:
    if given["axis"] is None and given["a"].ndim != 1:
        raise ValueError(f"axis must be given for an array of {given['a'].ndim} dimensions")


_SORT_OF_ARRAY_API = Arguments("a /", {"stable": True})
_MEDIAN_OF_DASK = Arguments("a axis keepdims out")

#: By the names of our functions. NumPy's and Dask's have these names too.
ROWS = {
    "sort": Row(array_api=_SORT_OF_ARRAY_API, xarray=Method("sort_values")),
    "argsort": Row(array_api=_SORT_OF_ARRAY_API, xarray=Method("argsort", encoding=False)),
    "lexsort": Row(xarray=Method("sortby")),
    "partition": Row(),
    "argpartition": Row(),
    "median": Row(dask=_MEDIAN_OF_DASK, xarray=Method("median"), groups=True),
    "nanmedian": Row(dask=_MEDIAN_OF_DASK, xarray=Method("median")),
    "quantile": Row(scipy={"quantile": scipy_stats.quantile}, xarray=Method("quantile"), groups=True),
    "nanquantile": Row(xarray=Method("quantile")),
    # Dask's choice between approximations.
    "percentile": Row(dask=Arguments("a q method internal_method", {"internal_method": "default"})),
    "nanpercentile": Row(),
    "searchsorted": Row(),
    "interp": Row(),
    "isin": Row(),
    "unique": Row(xarray=Method("unique")),
    "unique_all": Row(),
    "unique_counts": Row(),
    "unique_inverse": Row(),
    "unique_values": Row(),
    "union1d": Row(),
    "intersect1d": Row(),
    "setdiff1d": Row(),
    "setxor1d": Row(),
    "take": Row(
        numpy=Arguments("a indices axis out mode", {"out": None}, _refuse_out),
        dask=Arguments("a indices axis", {"axis": 0}),
        array_api=Arguments("a indices /", check=_need_axis),
    ),
    "take_along_axis": Row(array_api=Arguments("arr indices /")),
    "rank": Row(
        numpy=None,
        scipy={
            "rankdata": Arguments("a method", check=scipy_stats.check_ranks),
            "_rankdata": scipy_stats.average_ranks,
            **dict.fromkeys((*scipy_stats.PAIRED, *scipy_stats.UNPAIRED), scipy_stats.along_last_axis),
            "spearmanr": scipy_stats.spearmanr,
            "permutation_test": scipy_stats.refuse_permutations,
        },
        xarray=Method("rank", labels=True, others=False, encoding=False),
    ),
    "mode": Row(numpy=None, scipy={"mode": Arguments("a axis nan_policy keepdims")}, xarray=Method("mode")),
    "nunique": Row(numpy=None, xarray=Method("nunique")),
    "topk": Row(numpy=None, xarray=Method("topk")),
}
