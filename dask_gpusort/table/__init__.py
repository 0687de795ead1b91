"""The table of all chunks' counts, and the cuts that follow from it; independent of Dask and of the meaning of keys."""

from .bounds import Bounds, Candidates, KeyOrder, RankSummary, Side, bounds_at_ranks
from .digits import Digits, IntArray, exclusive_scan
from .quantiles import METHODS, Ranks, Statistic
