"""How the cuts are counted: by what path, in how many rounds, with how many samples, up what tree."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..keys import code_dtype
from ..order import Order
from .terms import Path, Size

#: Bytes of the table that one task of the counting may receive. The tree of counting is as deep as that needs.
TABLE_BYTES = 64 << 20
#: Bytes of an entry of the table beside its key: its bracket, two counts, and half of a digit's, of which there are
#: fewer than half as many.
ENTRY_BYTES = 28
#: Bytes of one cut of one chunk: where a group may begin and where the one before it may end.
CUT_BYTES = 16
#: Entries that an answer has beside its samples, for each group at most: the first and the last one of a bracket, and
#: for about as many bytes where it begins and ends.
ENDS_PER_GROUP = 3
#: Answers that one task of the counting adds up. Wide enough that such tasks are few beside the chunks, narrow enough
#: that each answer can be large: the fewer keys it leaves in question, the fewer rounds and the less is sent twice.
FAN_IN = 32
#: Samples for each group that an answer has at least: of the keys, no more than a quarter is then left in question by
#: the chunks' samples, and another by what the tree drops.
LEAST_SAMPLES_PER_GROUP = 8
#: Of the keys, what may be left in question and is sent to two groups. Less would take a round more, which costs a task
#: for each chunk.
MOST_IN_QUESTION = 1 / 3
#: Keys of a chunk whose size is not known, for a guess at how many of them to ask for.
GUESSED_KEYS = 1 << 20
#: Samples for each group and run in the device exchange: what the boundaries leave in question, and is sent twice, is
#: then about a hundredth of the keys.
SAMPLES_PER_GROUP = 256
#: Samples of all runs in the device exchange. More would take the host longer than the GPUs take for the keys.
DEVICE_SAMPLES = 1 << 17


def counting_tree(num_chunks: int, fan_in: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each level the ranges of chunks, then of tasks of the level before, that a task adds up.

    The last level is one task.
    """
    levels: list[tuple[tuple[int, int], ...]] = []
    count = num_chunks
    while count > 1 or not levels:
        levels.append(tuple((first, min(first + fan_in, count)) for first in range(0, count, fan_in)))
        count = len(levels[-1])
    return tuple(levels)


def choose_path(order: Order, method: str) -> Path:
    """The path for a dtype: digits where a key is an unsigned integer of up to 64 bits, else ranks of samples."""
    if method == "merge" or (method == "auto" and not order.coded):
        return "merge"
    if not order.coded:
        what = "a comparison" if order.less is not None else order.kind
        raise TypeError(
            f"method='radix' needs keys that map to unsigned integers of up to 64 bits, not {what}: "
            "use method='auto' or 'merge'"
        )
    return "radix"


def choose_radix_bits(order: Order, path: Path, samples: int) -> int:
    """Width of the digits counted in each chunk, of which there are fewer than samples; 0 on the merge path."""
    code = code_dtype(order.dtype)
    if path == "merge" or code is None:
        return 0
    return max(1, min(code.itemsize * 8, samples.bit_length() - 2))


def choose_samples(sizes: Sequence[Size], num_groups: int, kept_samples: int) -> int:
    """Keys that a chunk answers with in one round.

    With s samples in each of P chunks, at most 2 G N / s of N keys are left in question (see `left_in_question`) and
    sent twice. A sample is about four times the bytes of a key: both together are least where ``4 P s == 2 G N / s``.
    """
    if num_groups == 1:
        return 1
    guessed = sum(GUESSED_KEYS if math.isnan(size) else size for size in sizes)
    cheapest = math.isqrt(int(num_groups * guessed / (2 * len(sizes))))
    return min(max(cheapest, LEAST_SAMPLES_PER_GROUP * num_groups), kept_samples)


def choose_kept_samples(order: Order, num_chunks: int, num_groups: int, dropped: int) -> int:
    """Entries that are kept of several chunks' answers: as many as the table has room for, beside the chunks' sizes.

    Of very many groups more are kept, or the rounds would not come to an end: for 64-bit keys in 100,000 chunks from
    some 2,100 groups on.
    """
    room = (TABLE_BYTES - 8 * num_chunks) // FAN_IN // (order.transit_dtype.itemsize + ENTRY_BYTES)
    return max(room - ENDS_PER_GROUP * num_groups, LEAST_SAMPLES_PER_GROUP * num_groups * max(dropped, 1))


def left_in_question(num_groups: int, samples: int, kept_samples: int, dropped: int) -> float:
    """Of the keys that a round asks about, how many it leaves in question at most, whatever the distribution.

    Regular samples at distance d bound a rank to within d keys of each chunk on either side, so s of them leave 2 / s
    of the keys in question at each boundary. Each of the levels of the tree that drop entries adds as much.
    """
    return 2 * num_groups * (1 / samples + dropped / kept_samples)


def choose_device_samples(num_runs: int, num_groups: int) -> int:
    """Keys that a run answers with in the device exchange."""
    return 1 if num_groups == 1 else max(1, min(SAMPLES_PER_GROUP * num_groups, DEVICE_SAMPLES // num_runs))


def choose_rounds(in_question: float) -> int:
    """Rounds that bracket the cuts, until few keys are left in question.

    Each leaves the same share of what it asks about. Keys that tie with an end of a bracket are asked about again, so
    where they are most of the keys a further round may leave more.
    """
    rounds = 1
    while in_question**rounds > MOST_IN_QUESTION:
        rounds += 1
    return rounds
