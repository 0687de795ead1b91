"""The table of all chunks' counts, and the cuts that follow from it; independent of Dask and of the meaning of keys.

==============  ====================================================================
`digits`        exclusive scans, and the paper's column-major table of digit counts
`rank_summary`  sampled keys of chunks with their ranks, alone and added up
`brackets`      key intervals that hold the keys at the boundaries
`cuts`          the cuts of each chunk
`quantiles`     order statistics from the keys at a few ranks
==============  ====================================================================
"""

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
