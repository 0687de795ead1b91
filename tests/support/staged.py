"""Arrays that are staged on a GPU: keys, and what the device and the host hold of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import strategies as ours

DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[ns]", ">i8", ">f2", ">c16", ">M8[D]"]


def keys_of(dtype: str, n: int) -> np.ndarray:
    """Special values, ties and random bits."""
    parts = [ours.special(np.dtype(dtype)), ours.make(dtype, n // 2, "few"), ours.make(dtype, n // 2, "bits")]
    return np.random.default_rng(n).permutation(np.concatenate(parts))


def native(array: np.ndarray) -> np.ndarray:
    """The array as the device holds it."""
    array = array.view(array.dtype.str[0] + "i8") if array.dtype.kind in "mM" else array
    return array.astype(array.dtype.newbyteorder("="))


def same(found: Any, wanted: np.ndarray) -> None:
    """Assert that an array of the host has the bits of another one, in C order."""
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.flags.c_contiguous
    assert found.tobytes() == wanted.tobytes()
