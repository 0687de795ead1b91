"""Launch of the ranks of a sorted array's own keys (``ranks.cu``): what a chunk answers to a round of counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..launch.array_checks import check_array
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from .dtypes import device_key

#: Of a block: few, so that some thousand samples are spread over many multiprocessors, each look waits for memory.
THREADS = 128
#: Threads of a sample: one looks for equal keys before it, one behind it.
THREADS_PER_SAMPLE = 2


def rank_samples(
    codes: Any, positions: int | np.ndarray, *, ties_of: Any = None, descending: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some keys of a sorted array, and how many keys are less than, and at most, each.

    One launch and one copy to the host.

    Parameters
    ----------
    codes : cupy.ndarray, shape (n,), unsigned
        Ascending by the least codes of their tie classes.
    positions : int64 array, shape (samples,), or int
        On the host; a number d stands for every d-th position and the last one.
    ties_of : dtype, optional
        Codes of this dtype whose keys NumPy calls equal (signed zeros, NaNs) are equal.
    descending : bool
        Of the codes of `ties_of`.

    Returns
    -------
    keys : array, shape (samples,), of the dtype of the codes
        The least code of each sample's tie class.
    less, at_most : int64 arrays, shape (samples,)
        On the host, as the keys.

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 5.2.
    """
    cupy = require_cupy()
    check_array(codes, "codes")
    key = device_key(codes.dtype if ties_of is None else ties_of, descending and ties_of is not None)
    if codes.dtype != key.code_dtype:
        raise ValueError(f"`codes` are {codes.dtype}; give those of the sort, {key.code_dtype}.")
    if isinstance(positions, int):
        where, distance = None, positions
        count = count_regular(codes.size, distance)
    else:
        where, distance, count = cupy.asarray(positions), 1, len(positions)
    answers = cupy.empty((3, count), np.uint64)
    arguments = (codes, np.uint64(codes.size), where, np.uint64(distance), answers, np.uint64(count))
    Launch(
        "keys/ranks.cu", f"rank_samples<{key.order}>", -(-count * THREADS_PER_SAMPLE // THREADS), THREADS, arguments
    ).run()
    least, less, at_most = answers.get()
    return least.astype(codes.dtype), less.view(np.int64), at_most.view(np.int64)


def count_regular(n: int, distance: int) -> int:
    """How many positions stand for every `distance`-th one and the last one, which may be the same."""
    return -(-n // distance) + 1 if n else 0
