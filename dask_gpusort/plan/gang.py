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

#: Bytes of a GPU's share from which on it is exchanged in two groups: one is merged while the other arrives. On two
#: H200 that gains 3 to 7 %, since merges and NCCL's copies share the memory's bandwidth: 2^30 uint32 46.5 ms in place
#: of 48.2, 2^29 uint64 36.9 and 39.5, 2^29 uint32 with a companion 46.0 and 47.6. Of 2^28 uint32 it loses 0.6 of 22.5
#: ms. Four groups are no faster (46.9, 37.3, 47.1 ms), eight are slower (48.3, 39.9, 49.0).
TWO_PIECES_BYTES = 2 << 30


def gang_bundles(given: InputChunks, workers: Workers) -> Runs:
    """Give each member chunks: those of one worker if all are held by workers, else neighbours in equal parts."""
    if held := chunks_of_workers(given):
        return tuple(map(tuple, held))
    unknown = any(map(math.isnan, given.sizes))
    sizes = [1.0] * len(given.sizes) if unknown else list(given.sizes)
    members = max(1, min(workers.processes or workers.threads, len(sizes)))
    return tuple(even_parts(range(len(sizes)), sizes, sum(sizes) / members, math.inf))


def count_pieces(total_bytes: float, members: int, workers: Workers) -> int:
    """Number of groups of each member: two of a large share of a GPU."""
    return 2 if workers.devices and total_bytes / members >= TWO_PIECES_BYTES else 1


def member_chunks(chunks: Sequence[Size], members: int) -> tuple[range, ...]:
    """Give each member neighbouring output chunks of about as many keys as others have.

    Unknown sizes count as equal, and some members are without chunks if there are fewer chunks.
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
