"""Whether one task can hold the whole sort: the bytes that a join takes on a device."""

from __future__ import annotations

from ..chunk.memory import USABLE_FRACTION
from ..order import POSITION_BYTES, Order
from .terms import InputChunks, Workers

#: Bytes of keys and companions on the host below which tasks take longer than one thread sorts. Times of 10^6 int64 on
#: two threads of an EPYC, exchange and join: 24 and 12 ms in 16 chunks, 302 and 40 ms in 1,000.
SMALL_BYTES = 8 << 20
#: Widest codes that are counted and filled in, without scratch memory.
COUNTED_BYTES = 2
#: Bytes for each key of a stable sort by position. Narrow codes share 8 bytes with their positions, in two places, one
#: of them the output; wide codes have 4 bytes of position beside them.
NARROW_CODE_BYTES, NARROW_STABLE_BYTES, WIDE_STABLE_BYTES = 4, 16, 24


def join_bytes(order: Order, given: InputChunks) -> float:
    """Count bytes that the task of a join takes at its peak beside its input, nan if a chunk size is unknown."""
    # The chunks are concatenated, unless they are neighbours in memory. Keys alone are then sorted in place with
    # scratch memory of the same size; positions overwrite the keys; keys and companions go to new arrays. The figures
    # for each key are those measured on CuPy's pool.
    return sum(given.sizes) * ((_coded_bytes if order.coded else _uncoded_bytes)(order, given) + given.task_bytes)


def _coded_bytes(order: Order, given: InputChunks) -> float:
    width, moved = order.transit_dtype.itemsize, given.companion_bytes
    stable = NARROW_STABLE_BYTES if width <= NARROW_CODE_BYTES else WIDE_STABLE_BYTES
    if given.packed:
        return 6 * width
    if given.positions:
        return stable
    copied = 2 * (width + moved)  # concatenated, and the outputs
    if given.companions > 1:
        return copied + POSITION_BYTES
    if given.companions:
        return copied + (4 + max(16, width + moved) if order.has_ties else width + moved + width // 8 * 4)
    if width <= COUNTED_BYTES:
        return width + POSITION_BYTES if order.has_ties else width
    return (2 + order.has_ties) * width


def _uncoded_bytes(order: Order, given: InputChunks) -> float:
    width, moved = order.transit_dtype.itemsize, given.companion_bytes
    if order.words:
        return 3.4 * width + 2 * moved
    if order.less is not None:
        return 3 * width + (2 * moved + NARROW_STABLE_BYTES if moved else 0)
    return 3.5 * width + 2 * moved if moved else 5.5 * width


def joined_bytes(order: Order, given: InputChunks) -> float:
    """Bytes that the input and the task of a join take together, nan if a chunk size is unknown."""
    return _input_bytes(order, given) + join_bytes(order, given)


def _input_bytes(order: Order, given: InputChunks) -> float:
    made = POSITION_BYTES if given.positions else 0
    return sum(given.sizes) * (order.transit_dtype.itemsize + given.companion_bytes - made)


def is_small(order: Order, given: InputChunks) -> bool:
    """Whether keys and companions of the host are so few that one task sorts them in less time than several."""
    return _input_bytes(order, given) <= SMALL_BYTES


def fits_join(order: Order, given: InputChunks, workers: Workers) -> bool:
    """Whether a join fits the memory of the one device; where a size is unknown it is tried."""
    if workers.memory is None:
        return True
    return not joined_bytes(order, given) > USABLE_FRACTION * workers.memory
