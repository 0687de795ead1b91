"""Exact, stable, lazy sorts of Dask arrays."""

from importlib.metadata import PackageNotFoundError, version

from .api import (
    argpartition,
    argsort,
    argtopk,
    explain,
    explain_quantile,
    intersect1d,
    is_sorted,
    isin,
    lexsort,
    median,
    merge_sorted,
    nanmedian,
    nanpercentile,
    nanquantile,
    nunique,
    partition,
    percentile,
    quantile,
    rank,
    searchsorted,
    setdiff1d,
    setxor1d,
    sort,
    sort_by_key,
    topk,
    union1d,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from .gpu_cluster import cluster, warm_up
from .register import register, unregister

__all__ = [
    "argpartition",
    "argsort",
    "argtopk",
    "cluster",
    "explain",
    "explain_quantile",
    "intersect1d",
    "is_sorted",
    "isin",
    "lexsort",
    "median",
    "merge_sorted",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "nunique",
    "partition",
    "percentile",
    "quantile",
    "rank",
    "register",
    "searchsorted",
    "setdiff1d",
    "setxor1d",
    "sort",
    "sort_by_key",
    "topk",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unregister",
    "warm_up",
]

try:
    __version__ = version("dask_gpusort")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"
