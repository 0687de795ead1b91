"""The table of all chunks' counts, and the cuts that follow from it; independent of Dask and of the meaning of keys."""

from .brackets import (
    Brackets,
    KeyOrder,
    RankSummary,
    Side,
    combine_summaries,
    disjoint,
    narrow,
    open_brackets,
    restrict_all,
)
from .cuts import Boundaries, Counts, Cuts, add_counts, cut, find_boundaries, share_ties, still_fits
from .digits import Digits, IntArray, digit_brackets, digit_cuts, exclusive_scan
from .quantiles import METHODS, Ranks, Statistic
