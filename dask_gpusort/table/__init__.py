"""The table of all chunks' counts, and the cuts that follow from it; it knows neither Dask nor what a key is.

===========  =======================================================================
`scan`       exclusive scans, and ties shared out in chunk order
`digits`     the paper's column-major table of digit counts
`entries`    ranks of samples: what a chunk tells, and what many tell together
`brackets`   between which keys a boundary lies
`cuts`       where each chunk is cut
`key_order`  how the table compares keys
===========  =======================================================================
"""

from .brackets import Brackets, disjoint, narrow, open_brackets, restrict_all
from .cuts import Boundaries, Counts, Cuts, add_counts, cut, find_boundaries, share_ties, still_fits
from .digits import Digits, digit_brackets
from .key_order import KeyOrder, Side
from .rank_summary import Entries, summarise
from .scan import IntArray, exclusive_scan

__all__ = [
    "Boundaries",
    "Brackets",
    "Counts",
    "Cuts",
    "Digits",
    "Entries",
    "IntArray",
    "KeyOrder",
    "Side",
    "add_counts",
    "cut",
    "digit_brackets",
    "disjoint",
    "exclusive_scan",
    "find_boundaries",
    "narrow",
    "open_brackets",
    "restrict_all",
    "share_ties",
    "still_fits",
    "summarise",
]
