"""The division of a gang: which chunks each member sorts, and which groups it finishes (see `graph.gang`)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise, starmap

from ..order import Order
from .groups import DEVICE_SHARE_BYTES
from .runs import even_parts
from .terms import InputChunks, Runs, Size, Workers, chunks_of_workers

#: A GPU's share of the keys, as a fraction of its memory, above which a gang does not fit: with an input that is kept,
#: sorted chunks and finished groups, three shares would exceed the limit above which results are spilled.
MOST_SHARE_FRACTION = 1 / 5


def gang_bundles(given: InputChunks, workers: Workers) -> Runs:
    """The chunks of each member: those of one worker if all are held by workers, else neighbours in equal parts.

    Parameters
    ----------
    given : InputChunks
    workers : Workers

    Returns
    -------
    tuple of tuples of int
        Every chunk once.
    """
    if held := chunks_of_workers(given):
        return tuple(map(tuple, held))
    unknown = any(map(math.isnan, given.sizes))
    sizes = [1.0] * len(given.sizes) if unknown else list(given.sizes)
    members = max(1, min(workers.processes or workers.threads, len(sizes)))
    return tuple(even_parts(range(len(sizes)), sizes, sum(sizes) / members, math.inf))


def count_gang_groups(total_bytes: float, members: int, workers: Workers) -> int:
    """Number of groups: one for each member, and two of a large share of a GPU, so that less memory is held twice."""
    large = workers.devices and total_bytes / members > DEVICE_SHARE_BYTES
    return members * (2 if large else 1)


def member_groups(sizes: Sequence[Size], members: int) -> tuple[range, ...]:
    """The groups that each member finishes: neighbours with about as many keys as others have.

    Parameters
    ----------
    sizes : sequence of int
        Keys in each group; if any is nan, all count as equal.
    members : int
        Some are without groups if there are fewer groups.
    """
    unknown = any(map(math.isnan, sizes)) or not any(sizes)
    weights = [1.0] * len(sizes) if unknown else sizes
    middles = [end - size / 2 for end, size in zip(accumulate(weights), weights, strict=True)]
    bounds = [bisect_left(middles, sum(weights) * rank / members) for rank in range(members)]
    return tuple(starmap(range, pairwise([*bounds, len(sizes)])))


def fits_gang(order: Order, given: InputChunks, workers: Workers) -> bool:
    """Whether a gang is the best exchange: each chunk is on one of several GPUs, which can hold all keys at once."""
    members = len(chunks_of_workers(given))
    if not workers.devices or members < 2:
        return False
    if workers.memory is None:
        return True
    share = sum(given.sizes) * (order.transit_dtype.itemsize + given.companion_bytes) / members
    return not share > workers.memory * MOST_SHARE_FRACTION
