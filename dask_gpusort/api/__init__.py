"""The public functions: checks of their arguments, then the graph.

==================  ==================================================
`sorts`             sorts, indices that sort
`joins`             joins of arrays by equal, or by the nearest elements
`merges`            merges of sorted arrays, whether an array is sorted
`order_statistics`  medians, quantiles, percentiles
`top_k`             the largest and the smallest keys
`partitions`        partitions by the keys at some ranks
`ranks`             ranks of keys
`sets`              distinct values, sets
`modes`             the most common values, numbers of distinct ones
`search`            positions in a sorted array, membership, interpolation
`positions`         elements at given positions, read or written
`stores`            arrays of unknown sizes, stored
`explain`           what a call will do
==================  ==================================================
"""

import sys

from ..arguments.arrays import refusing_labels
from ..arguments.packages import for_both_packages, with_its_name
from .explain import *
from .joins import *
from .merges import *
from .modes import *
from .order_statistics import *
from .partitions import *
from .positions import *
from .ranks import *
from .search import *
from .sets import *
from .sorts import *
from .stores import *
from .top_k import *

#: The public functions of arrays; each name stands here alone.
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
    "interp",
    "intersect1d",
    "is_sorted",
    "isin",
    "join_indices",
    "lexsort",
    "median",
    "merge_asof",
    "merge_sorted",
    "mode",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "nunique",
    "partition",
    "percentile",
    "permutation",
    "put_along_axis",
    "quantile",
    "rank",
    "searchsorted",
    "setdiff1d",
    "setxor1d",
    "shuffle",
    "sort",
    "sort_by_key",
    "take",
    "take_along_axis",
    "to_zarr",
    "top_k",
    "topk",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

# In their own modules too, where pickle looks them up.
for _name in __all__:
    _function = for_both_packages(with_its_name(refusing_labels(globals()[_name])))
    globals()[_name] = vars(sys.modules[_function.__module__])[_name] = _function
