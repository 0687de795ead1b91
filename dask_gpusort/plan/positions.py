"""The plan of reads and writes at positions: how elements and the indices that name them come together.

A lane is the elements along the axis for one index of the others.

============  ========================================  ===================================================
strategy      lanes                                     how
============  ========================================  ===================================================
`blocks`      whole in a chunk                          each chunk of indices takes from its chunk
`gather`      in several chunks of one memory           chunks are joined, then the same
`rechunk`     in several chunks, fit one                rechunked in bounded memory, then the same
`exchange`    longer, or in no memory together          indices go to groups of chunks, elements come back
============  ========================================  ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .groups import count_groups
from .terms import Size, Workers

PositionsStrategy = Literal["blocks", "gather", "rechunk", "exchange"]

#: A chunk of the elements is read by itself if there are so many times as many elements as indices: to join the chunks
#: would take longer than to find the elements.
FEW_INDICES = 8


@dataclass(frozen=True)
class Addressed:
    """An array whose elements are read or written at positions along one axis.

    Attributes
    ----------
    chunks : int
        Chunks along the axis.
    size : float
        Elements along the axis, nan if unknown.
    lanes : float
        Number of lanes, nan if unknown.
    itemsize : int
        Bytes of an element.
    indices : float
        Number of indices, nan if unknown.
    limit : float
        Most bytes of a chunk of whole lanes.
    index_bytes : int
        Bytes of an index and its value, if values are written.
    """

    chunks: int
    size: Size
    lanes: Size
    itemsize: int
    indices: float
    limit: float
    index_bytes: int = 0

    @property
    def lane_bytes(self) -> float:
        """Bytes that one task needs for one lane."""
        return self.bytes / self.lanes if self.lanes else 0.0

    @property
    def bytes(self) -> float:
        """Bytes of all lanes, and of what is written to them."""
        written = self.indices * self.index_bytes if self.index_bytes else 0
        return self.lanes * self.size * self.itemsize + written


def choose_addressing(array: Addressed, shared: bool, memory: float) -> PositionsStrategy:
    """The strategy for an array.

    Parameters
    ----------
    array : Addressed
    shared : bool
        Whether all tasks run in one memory.
    memory : float
        Bytes that the joined chunks may take there.
    """
    if array.chunks == 1:
        return "blocks"
    few = array.lanes == 1 and array.indices * FEW_INDICES <= array.size and not array.index_bytes
    if shared and not few and array.bytes <= memory:
        return "gather"
    if array.lane_bytes <= array.limit and not (shared and few):
        return "rechunk"
    return "exchange"


@dataclass(frozen=True)
class Bundles:
    """Neighbouring chunks that one task handles each, along one axis or in C order.

    Attributes
    ----------
    ends : tuple of int
        Number of the first chunk of each bundle, and the number of chunks.
    """

    ends: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ends) - 1

    def chunks(self, number: int) -> range:
        """The chunks of a bundle."""
        return range(self.ends[number], self.ends[number + 1])


def bundle_chunks(sizes: Sequence[Size], item_bytes: int, workers: Workers, wanted: int | None = None) -> Bundles:
    """Bundles of chunks that fit a share of the memory of a thread, enough for all threads.

    Parameters
    ----------
    sizes : sequence of int
        Elements of each chunk; if any is nan, all count as equal.
    item_bytes : int
        Bytes that move with an element.
    workers : Workers
    wanted : int, optional
        Approximate number of bundles.
    """
    weights = [1.0] * len(sizes) if any(map(math.isnan, sizes)) else list(map(float, sizes))
    total = sum(weights) * item_bytes
    wanted = wanted or count_groups("p2p", total, len(sizes), replace(workers, staging_memory=None))
    most = max(sum(weights) / wanted, 1.0) * 1.001
    ends, held = [0], 0.0
    for number, weight in enumerate(weights):
        if number > ends[-1] and held + weight > most:
            ends.append(number)
            held = 0.0
        held += weight
    return Bundles((*ends, len(sizes)))
