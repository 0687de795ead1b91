"""CUDA C++ kernels, and typed functions on CuPy arrays that launch them.

Importing the package needs neither CuPy nor a GPU; the first call of a function does.
"""

from .complex_keys import argsort_wide, encode_words, search_wide, sort_wide
from .few_values import MOST_FEW, count_few
from .keys.dtypes import first_nan_code
from .keys.transform import (
    decode,
    encode,
    floor_codes,
    gather,
    gather_in_range,
    random_keys,
    rank_samples,
    rank_sorted_needles,
    scatter,
    search_sorted,
    value_type,
)
from .launch.loader import KernelsUnavailable
from .merging import (
    argsort_by_comparison,
    compare_elements,
    merge_runs,
    prefers_merging,
    search_by_comparison,
    sort_by_comparison,
)
from .pairs import argsort, sort_pairs, sort_with_positions
from .selecting import MOST_BRACKETS, draw_samples, extract, select_rows, take_positions
from .sorting import argsort_rows, sort_keys, sort_rows, sort_rows_with_positions, sorted_codes
from .ties.ties import MOST_RANKED, ROW_RANKINGS, mark_ties, pack_ties, rank_rows, scatter_numbers
from .wide.word_sort import argsort_words, search_words
