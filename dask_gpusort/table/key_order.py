"""How the table compares keys, whose meaning it does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

Side = Literal["left", "right"]


@dataclass(frozen=True)
class KeyOrder:
    """Hold the comparisons of keys that the table needs."""

    argsort: Callable[[np.ndarray], np.ndarray]  # the permutation that sorts keys
    changes: Callable[[np.ndarray], np.ndarray]  # where neighbours of sorted keys differ, shape (n - 1,)
    search: Callable[[np.ndarray, np.ndarray, Side], np.ndarray]  # sorted keys, needles, side: as `numpy.searchsorted`
