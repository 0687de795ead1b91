"""How the table compares keys, whose meaning it does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

Side = Literal["left", "right"]


@dataclass(frozen=True)
class KeyOrder:
    """The comparisons of keys that the table needs.

    Attributes
    ----------
    argsort : callable(keys)
        Permutation that sorts keys.
    changes : callable(sorted keys)
        Where neighbours differ, shape (n - 1,).
    search : callable(sorted keys, needles, side)
        As `numpy.searchsorted`.
    """

    argsort: Callable[[np.ndarray], np.ndarray]
    changes: Callable[[np.ndarray], np.ndarray]
    search: Callable[[np.ndarray, np.ndarray, Side], np.ndarray]
