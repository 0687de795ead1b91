"""Arrays of codes for the sorts and merges of one chunk."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

#: Keys of a block, and of a block that resolves ties, where a test asks for small ones.
BLOCK_KEYS, TIE_KEYS = 1 << 10, 1 << 12


WIDTHS = ["u1", "u2", "u4", "u8"]


@st.composite
def code_arrays(draw, max_dims=3):
    """Codes with few or many ties: each is one of a few high parts plus a random low part."""
    dtype = np.dtype(draw(st.sampled_from(WIDTHS)))
    top = (1 << 8 * dtype.itemsize) - 1
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=max_dims, min_side=0, max_side=40))
    highs = draw(st.lists(st.integers(0, top), min_size=1, max_size=4))
    span = draw(st.sampled_from([1, 2, 1 << 20, top]))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    codes = random.choice(np.array(highs, np.uint64), shape)
    codes = codes + random.integers(0, span, shape, dtype=np.uint64, endpoint=True)
    return (codes & np.uint64(top)).astype(dtype)


def shapes_of_input(n, dtype):
    """Named one-dimensional inputs that take different paths through the sort."""
    random = np.random.default_rng(5)
    dtype = np.dtype(dtype)
    codes = random.integers(0, 256, n * dtype.itemsize, dtype=np.uint8).view(dtype)
    few = codes[:7][np.arange(n) % 7]
    ordered = np.sort(codes)
    outliers = ordered.copy()
    outliers[n // 2 : n // 2 + 2] = codes[:2]
    tail, inserted = ordered.copy(), ordered.copy()
    tail[-n // 8 :] = codes[-n // 8 :]
    inserted[: n // 20] = np.sort(codes[: n // 20])  # a run of keys that are out of order
    inserted[n - n // 100 :] = codes[: n // 100]
    yield "random", codes
    yield "sorted", ordered
    yield "reversed", ordered[::-1].copy()
    yield "reversed, with two ties", np.append(np.arange(n - 1)[::-1], 0).astype(dtype)
    yield "reversed, strictly", np.arange(n)[::-1].astype(dtype)
    yield "reversed, few distinct", np.sort(few)[::-1].copy()
    yield "few distinct", few
    yield "constant", np.full(n, codes[0])
    yield "few outliers", outliers
    yield "in order but for a tail", tail
    yield "in order but for a run and a tail", inserted
    yield "one descent at the end of a block", np.append(ordered[-BLOCK_KEYS:], ordered[:-BLOCK_KEYS])
    yield "ties above the low bits", codes & ~dtype.type(0) << dtype.type(dtype.itemsize * 4)
    yield "ties in the high part", np.where(np.arange(n) % 3 == 0, codes, codes % dtype.type(200))
