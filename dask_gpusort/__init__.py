"""Exact, stable, lazy sorts of Dask arrays."""

from importlib.metadata import PackageNotFoundError, version

from .api import argsort, explain, is_sorted, lexsort, merge_sorted, sort, sort_by_key
from .gpu_cluster import cluster, warm_up
from .register import register, unregister
from .top_k import argtopk, topk

__all__ = [
    "argsort",
    "argtopk",
    "cluster",
    "explain",
    "is_sorted",
    "lexsort",
    "merge_sorted",
    "register",
    "sort",
    "sort_by_key",
    "topk",
    "unregister",
    "warm_up",
]

try:
    __version__ = version("dask_gpusort")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"
