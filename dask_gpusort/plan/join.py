"""Whether one task can hold the whole sort: the bytes that a join takes on a device."""

from __future__ import annotations

from ..chunk.device_memory import USABLE_FRACTION
from ..order import Order
from .terms import InputChunks, Workers

#: Widest codes that are counted and filled in, without scratch memory.
COUNTED_BYTES = 2
POSITION_BYTES = 8


def join_bytes(order: Order, given: InputChunks) -> float:
    """Bytes that a join takes at its peak beside its input, nan if a chunk size is unknown.

    The chunks are concatenated. Keys alone are then sorted in place with scratch memory of the same size; positions and
    companions go to new arrays.
    """
    width, companions = order.transit_dtype.itemsize, given.companion_bytes
    if not companions and order.coded:
        copies = 1 if width <= COUNTED_BYTES else 2
        return sum(given.sizes) * width * (copies + order.has_ties)
    return 0.0


def joined_bytes(order: Order, given: InputChunks) -> float:
    """Bytes that the input and a join take together, nan if a chunk size is unknown."""
    return sum(given.sizes) * (order.transit_dtype.itemsize + given.companion_bytes) + join_bytes(order, given)


def fits_join(order: Order, given: InputChunks, workers: Workers) -> bool:
    """Whether a join fits the memory of the one device; where a size is unknown it is tried."""
    if workers.memory is None:
        return True
    return not joined_bytes(order, given) > USABLE_FRACTION * workers.memory
