"""The order of a sort: the dtype, the direction, and whether equal keys keep their order.

An order defines how the keys of one array compare. There are four kinds, by the form of keys in transit, that is
between the stages::

    coded       one unsigned integer of up to 64 bits, in the order of the sort       `keys`
    words       several uint64, most significant first: shape (n, words)              `chunk.numpy_words`
    less        unchanged keys, ordered by the user's comparison                      `chunk.numpy_less`
    compared    unchanged keys, compared column by column                             `chunk.numpy_columns`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import keys

#: Bytes of a key's position in the whole array.
POSITION_BYTES = 8


@dataclass(frozen=True)
class Order:
    """Say how keys of one dtype are sorted."""

    dtype: np.dtype[Any]  # of the user's keys; for words, ``(uint64, (words,))``
    descending: bool = False  # largest first; NaN and NaT stay last
    stable: bool = False  # equal keys keep their input order, if that is visible: signed zeros and NaNs, or companions
    fields: tuple[str, ...] = ()  # of a structured dtype to compare first
    #: Whether each field of a structured dtype descends, if the fields differ in direction; else empty.
    directions: tuple[bool, ...] = ()
    #: A function of NumPy arrays, or for CuPy chunks a CUDA C++ expression in ``a`` and ``b``.
    less: Callable[[Any, Any], Any] | str | None = None

    @property
    def coded(self) -> bool:
        """Whether keys have unsigned codes of at most 64 bits."""
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
        """Whether keys that compare equal, and must keep their order, may have distinct codes."""
        return self.stable and self.coded and keys.has_ties(self.dtype)

    @property
    def kind(self) -> str:
        """Description of the keys for messages."""
        return f"{self.words} words of 64 bits" if self.words else str(self.dtype)


def of_words(count: int) -> Order:
    """The order of keys of several words: ascending, because the words contain the directions."""
    return Order(np.dtype((np.uint64, (count,))), stable=True)


def holds_objects(dtype: np.dtype[Any]) -> bool:
    """Whether elements are Python objects, or records with some."""
    return dtype.hasobject and dtype.kind in "OV"


def of_floors(order: Order) -> Order:
    """The order of keys in transit that are the least of their tie class: as unsigned integers, if they are coded."""
    return Order(order.transit_dtype) if order.coded else order
