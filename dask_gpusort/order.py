"""The order of a sort: which dtype, which direction, and what equal keys keep.

An order says how the keys of one array compare. Four kinds of keys, by what travels between the stages::

    coded       one unsigned integer of up to 64 bits, in the order of the sort       `keys`
    words       several uint64 of which the first decides first: shape (n, words)     `chunk.words`
    less        the keys as they are, ordered by a function of the user's             `chunk.numpy_less`
    compared    the keys as they are, compared column by column                       `chunk.numpy_columns`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import keys


@dataclass(frozen=True)
class Order:
    """How keys of one dtype are sorted.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the keys as the user has them; of words, ``(uint64, (words,))``.
    descending : bool
        Largest first; NaN and NaT stay last.
    stable : bool
        Keys that compare equal keep their input order, where that can be seen: signed zeros and NaNs, or companions.
    fields : tuple of str
        Fields of a structured dtype to compare first.
    directions : tuple of bool
        Whether each field of a structured dtype descends, where the fields differ in that; else empty.
    less : callable(a, b), str or None
        Whether elements of one array come before those of another: a function of NumPy arrays, or for CuPy chunks a
        CUDA C++ expression in ``a`` and ``b``.
    """

    dtype: np.dtype[Any]
    descending: bool = False
    stable: bool = False
    fields: tuple[str, ...] = ()
    directions: tuple[bool, ...] = ()
    less: Callable[[Any, Any], Any] | str | None = None

    @property
    def coded(self) -> bool:
        """Whether one unsigned code stands for a key."""
        return self.less is None and keys.code_dtype(self.dtype) is not None

    @property
    def words(self) -> int:
        """Number of words of a key that travels as words, else 0."""
        subarray = self.dtype.subdtype
        return subarray[1][0] if subarray is not None else 0

    @property
    def transit_dtype(self) -> np.dtype[Any]:
        """Dtype of the keys between the stages."""
        code = keys.code_dtype(self.dtype) if self.coded else None
        return self.dtype if code is None else code

    @property
    def has_ties(self) -> bool:
        """Whether distinct codes can stand for keys that compare equal and must keep their order."""
        return self.stable and self.coded and keys.has_ties(self.dtype)

    @property
    def kind(self) -> str:
        """What is sorted, for people."""
        return f"{self.words} words of 64 bits" if self.words else str(self.dtype)


def of_words(count: int) -> Order:
    """The order of keys of several words: ascending, as every direction is in the words already."""
    return Order(np.dtype((np.uint64, (count,))), stable=True)
