"""Exact, stable, lazy sorts of Dask arrays."""

from importlib.metadata import PackageNotFoundError, version

from .api import (
    argpartition,
    argsort,
    argtopk,
    explain,
    explain_quantile,
    is_sorted,
    lexsort,
    median,
    merge_sorted,
    nanmedian,
    nanpercentile,
    nanquantile,
    partition,
    percentile,
    put_along_axis,
    quantile,
    sort,
    sort_by_key,
    take,
    take_along_axis,
    topk,
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
    "is_sorted",
    "lexsort",
    "median",
    "merge_sorted",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "partition",
    "percentile",
    "put_along_axis",
    "quantile",
    "register",
    "sort",
    "sort_by_key",
    "take",
    "take_along_axis",
    "topk",
    "unregister",
    "warm_up",
]

try:
    __version__ = version("dask_gpusort")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"
