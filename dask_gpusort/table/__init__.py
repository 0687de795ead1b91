"""The table of all chunks' counts, and the cuts that follow from it; independent of Dask and of the meaning of keys.

==============  ====================================================================
`scan`          exclusive scans, and ties distributed in chunk order
`digits`        the paper's column-major table of digit counts
`rank_summary`  sampled keys of chunks with their ranks, alone and added up
`brackets`      key intervals that hold the keys at the boundaries
`cuts`          the cuts of each chunk
`key_order`     how the table compares keys
`quantiles`     order statistics from the keys at a few ranks
==============  ====================================================================
"""

from .brackets import Brackets, disjoint, narrow, open_brackets, restrict_all
from .cuts import Boundaries, Counts, Cuts, add_counts, cut, find_boundaries, share_ties, still_fits
from .digits import Digits, digit_brackets, digit_cuts
from .key_order import KeyOrder, Side
from .quantiles import METHODS, Ranks, Statistic
from .rank_summary import RankSummary, combine_summaries
from .scan import IntArray, exclusive_scan

__all__ = [
    "METHODS",
    "Boundaries",
    "Brackets",
    "Counts",
    "Cuts",
    "Digits",
    "IntArray",
    "KeyOrder",
    "RankSummary",
    "Ranks",
    "Side",
    "Statistic",
    "add_counts",
    "combine_summaries",
    "cut",
    "digit_brackets",
    "digit_cuts",
    "disjoint",
    "exclusive_scan",
    "find_boundaries",
    "narrow",
    "open_brackets",
    "restrict_all",
    "share_ties",
    "still_fits",
]
