"""The public functions: checks of their arguments, then the graph.

==================  ==================================================
`sorts`             sorts, indices that sort, merges
`order_statistics`  medians, quantiles, percentiles
`top_k`             the largest and the smallest keys
`partitions`        partitions by the keys at some ranks
`ranks`             ranks of keys
`sets`              distinct values, sets
`search`            positions in a sorted array, membership
`positions`         elements at given positions, read or written
==================  ==================================================
"""

from .order_statistics import explain_quantile, median, nanmedian, nanpercentile, nanquantile, percentile, quantile
from .partitions import argpartition, partition
from .positions import explain_take, explain_take_along_axis, put_along_axis, take, take_along_axis
from .ranks import explain_rank, rank
from .search import explain_isin, explain_searchsorted, isin, searchsorted
from .sets import (
    explain_unique,
    intersect1d,
    nunique,
    setdiff1d,
    setxor1d,
    union1d,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from .sorts import argsort, explain, is_sorted, lexsort, merge_sorted, sort, sort_by_key
from .top_k import argtopk, topk

__all__ = [
    "argpartition",
    "argsort",
    "argtopk",
    "explain",
    "explain_isin",
    "explain_quantile",
    "explain_rank",
    "explain_searchsorted",
    "explain_take",
    "explain_take_along_axis",
    "explain_unique",
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
    "put_along_axis",
    "quantile",
    "rank",
    "searchsorted",
    "setdiff1d",
    "setxor1d",
    "sort",
    "sort_by_key",
    "take",
    "take_along_axis",
    "topk",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]
