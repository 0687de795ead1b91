"""The division of a gang: which chunks each member sorts, and which groups it finishes (see `graph.gang`).

::

    output chunks    | 0 | 1 |   2   |   3   |     whole chunks for each member, so that it writes each chunk once
    members          |   0   |   1   |   2   |
    groups           | 0 | 1 | 2 | 3 | 4 | 5 |     the pieces of the exchange: one is merged while the next arrives
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise, starmap

from ..order import Order
from .groups import lay_out_groups
from .runs import even_parts
from .terms import InputChunks, Runs, Size, Workers, chunks_of_workers

#: A GPU's share of the keys, as a fraction of its memory, above which a gang does not fit: with an input that is kept,
#: sorted chunks and finished groups, three shares would exceed the limit above which results are spilled.
MOST_SHARE_FRACTION = 1 / 5

#: Bytes of a GPU's share that are one group at least. To exchange 1 GiB between two H200 takes about 2 ms, to merge it
#: 1 ms, and the launches of one more group some tenths of a millisecond.
LEAST_PIECE_BYTES = 1 << 30
#: Groups of a member at most. Only the last merge does not overlap the exchange: with four it is a quarter of all.
MOST_PIECES = 4


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


def count_pieces(total_bytes: float, members: int, workers: Workers) -> int:
    """Number of groups of each member: several of a large share of a GPU, so that merges overlap the exchange."""
    if not workers.devices or math.isnan(total_bytes):
        return 1
    return max(1, min(MOST_PIECES, int(total_bytes / members / LEAST_PIECE_BYTES)))


def member_chunks(chunks: Sequence[Size], members: int) -> tuple[range, ...]:
    """The output chunks of each member: neighbours with about as many keys as others have.

    Parameters
    ----------
    chunks : sequence of int
        Keys in each output chunk; if any is nan, all count as equal.
    members : int
        Some are without chunks if there are fewer chunks.
    """
    unknown = any(map(math.isnan, chunks)) or not any(chunks)
    weights = [1.0] * len(chunks) if unknown else chunks
    middles = [end - size / 2 for end, size in zip(accumulate(weights), weights, strict=True)]
    bounds = [bisect_left(middles, sum(weights) * rank / members) for rank in range(members)]
    return tuple(starmap(range, pairwise([*bounds, len(chunks)])))


def lay_out_members(chunks: Sequence[Size], members: int, pieces: int) -> tuple[tuple[int, int, int, int], ...]:
    """Groups of a gang, as `groups.lay_out_groups` describes them: about `pieces` for each member."""
    return tuple(
        (own.start + first, own.start + last, part, parts)
        for own in member_chunks(chunks, members)
        for first, last, part, parts in lay_out_groups(chunks[own.start : own.stop], pieces)
    )


def fits_gang(order: Order, given: InputChunks, workers: Workers) -> bool:
    """Whether a gang is the best exchange: each chunk is on one of several GPUs, which can hold all keys at once."""
    members = len(chunks_of_workers(given))
    if not workers.devices or members < 2:
        return False
    if workers.memory is None:
        return True
    share = sum(given.sizes) * (order.transit_dtype.itemsize + given.companion_bytes) / members
    return not share > workers.memory * MOST_SHARE_FRACTION
