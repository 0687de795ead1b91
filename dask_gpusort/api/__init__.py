"""The public functions: checks of their arguments, then the graph.

==================  ==================================================
`sorts`             sorts, indices that sort, merges
`order_statistics`  medians, quantiles, percentiles
`top_k`             the largest and the smallest keys
`partitions`        partitions by the keys at some ranks
`positions`         elements at given positions, read or written
==================  ==================================================
"""

from .order_statistics import (
    explain_quantile,
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from .partitions import argpartition, partition
from .positions import put_along_axis, take, take_along_axis
from .sorts import argsort, explain, is_sorted, lexsort, merge_sorted, sort, sort_by_key
from .top_k import argtopk, topk

__all__ = [
    "argpartition",
    "argsort",
    "argtopk",
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
    "sort",
    "sort_by_key",
    "take",
    "take_along_axis",
    "topk",
]
