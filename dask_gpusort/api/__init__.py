"""The public functions: checks of their arguments, then the graph.

==================  ==================================================
`sorts`             sorts, indices that sort, merges
`order_statistics`  medians, quantiles, percentiles
`top_k`             the largest and the smallest keys
`partitions`        partitions by the keys at some ranks
`search`            positions in a sorted array, membership
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
from .search import isin, searchsorted
from .sorts import argsort, explain, is_sorted, lexsort, merge_sorted, sort, sort_by_key
from .top_k import argtopk, topk

__all__ = [
    "argpartition",
    "argsort",
    "argtopk",
    "explain",
    "explain_quantile",
    "is_sorted",
    "isin",
    "lexsort",
    "median",
    "merge_sorted",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "partition",
    "percentile",
    "quantile",
    "searchsorted",
    "sort",
    "sort_by_key",
    "topk",
]
