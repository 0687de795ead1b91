"""CUDA C++ kernels, and typed functions on CuPy arrays that launch them.

Importing the package needs neither CuPy nor a GPU; the first call of a function does. The files here dispatch; the
folders, from the outside inwards, are:

- ``wide``: keys of several words
- ``select``: keys at wanted ranks, and keys between bounds
- ``msd``, ``block_sort``, ``lsd``, ``buckets``: radix sorts
- ``ties``: tie groups of sorted keys, and writes to the positions of a permutation
- ``merge``: merge sort, by any comparison
- ``papers``: the sorts of the papers, to read and to compare with
- ``policy``: sizes of blocks and tiles, and limits of the device
- ``keys``, ``primitives``, ``launch``: codes of keys, device-wide building blocks, compiling and launching
"""

from .complex_keys import argsort_wide, encode_words, search_wide, sort_wide
from .keys.transform import (
    decode,
    encode,
    floor_codes,
    gather,
    gather_in_range,
    moves_rows,
    rank_samples,
    rank_sorted_needles,
    scatter,
    search_sorted,
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
from .selecting import MOST_BRACKETS, draw_samples, extract, select_rows
from .sorting import argsort_rows, sort_keys, sort_rows, sorted_codes
from .ties.ties import MOST_RANKED, TieBits, mark_ties, pack_ties, scatter_numbers
from .wide.word_sort import argsort_words, search_words
