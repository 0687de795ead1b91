"""The order of a sort: which dtype, which direction, and what equal keys keep.

An order says how the keys of one array compare. Keys that map to unsigned integers up to 64 bits wide are *coded*:
between the first and the last stage only their codes travel (`keys`). All others travel as they are and compare column
by column (`columns`).
"""

from __future__ import annotations

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
        Of the keys as the user has them.
    descending : bool
        Largest first; NaN and NaT stay last.
    stable : bool
        Keys that compare equal keep their input order, where that can be seen: signed zeros and NaNs, or companions.
    fields : tuple of str
        Fields of a structured dtype to compare first.
    """

    dtype: np.dtype[Any]
    descending: bool = False
    stable: bool = False
    fields: tuple[str, ...] = ()

    @property
    def coded(self) -> bool:
        """Whether one unsigned code stands for a key."""
        return keys.code_dtype(self.dtype) is not None

    @property
    def transit_dtype(self) -> np.dtype[Any]:
        """Dtype of the keys between the stages."""
        code = keys.code_dtype(self.dtype)
        return self.dtype if code is None else code

    @property
    def has_ties(self) -> bool:
        """Whether distinct codes can stand for keys that compare equal and must keep their order."""
        return self.stable and self.coded and keys.has_ties(self.dtype)
