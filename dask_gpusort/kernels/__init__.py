"""The GPU room: CUDA C++ kernels and typed functions on CuPy arrays.

Importing it needs neither CuPy nor a GPU; the first call of a function does.
"""

from .loader import KernelsUnavailable
from .sorting import (
    argsort,
    argsort_rows,
    decode,
    encode,
    gather,
    search_sorted,
    sort_keys,
    sort_pairs,
    sort_rows,
    top_histogram,
)

__all__ = [
    "KernelsUnavailable",
    "argsort",
    "argsort_rows",
    "decode",
    "encode",
    "gather",
    "search_sorted",
    "sort_keys",
    "sort_pairs",
    "sort_rows",
    "top_histogram",
]
