"""How the cuts are counted: the path, the rounds, the samples in each, and the tree that adds summaries up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..keys import code_dtype
from ..order import Order
from .terms import Path, Size

#: Most bytes of the table that one counting task may receive. This decides the depth of the counting tree.
TABLE_BYTES = 64 << 20
#: Bytes of a table entry without its key: its bracket, two counts, and half a digit count, since there are fewer than
#: half as many digits as entries.
ENTRY_BYTES = 28
#: Bytes of one cut of one chunk: the first possible start of a group and the last possible end of the previous one.
CUT_BYTES = 16
#: Most entries of a summary beyond its samples, for each group: the first and the last of a bracket, and its start and
#: stop, which take about as many bytes as one entry.
ENDS_PER_GROUP = 3
#: Summaries that one counting task adds up. A large fan-in needs few such tasks; a small one allows large summaries,
#: which leave fewer keys unresolved, so fewer rounds are needed and fewer keys are sent twice.
FAN_IN = 32
#: Fewest samples for each group in a summary: the chunks' samples then leave at most a quarter of the keys unresolved,
#: and the entries that the tree drops another quarter.
LEAST_SAMPLES_PER_GROUP = 8
#: Most unresolved keys, as a share of all: they are sent to two groups. A smaller limit would need another round, which
#: costs a task for each chunk.
MOST_UNRESOLVED = 1 / 3
#: Assumed keys of a chunk of unknown size, to choose the number of samples.
GUESSED_KEYS = 1 << 20
#: Samples for each group and run in an exchange by tasks: about a hundredth of the keys is then unresolved and sent
#: twice.
SAMPLES_PER_GROUP = 256
#: Most samples of all runs together in an exchange by tasks. With more, the host would take longer than the GPUs.
TASK_SAMPLES = 1 << 17
#: The same where a quarter of the keys would be unresolved with fewer: about `TABLE_BYTES`.
MOST_TASK_SAMPLES = 1 << 20


def counting_tree(num_chunks: int, fan_in: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each level, the range of chunks, or of tasks one level below, that each task adds up."""
    # The last level is one task.
    levels: list[tuple[tuple[int, int], ...]] = []
    count = num_chunks
    while count > 1 or not levels:
        levels.append(tuple((first, min(first + fan_in, count)) for first in range(0, count, fan_in)))
        count = len(levels[-1])
    return tuple(levels)


def choose_path(order: Order, method: str) -> Path:
    """Choose digits if keys have codes of up to 64 bits, else ranks of samples; keys without codes refuse "radix"."""
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
    """Bits of the digits counted in each chunk, so that digits are fewer than samples; 0 on the merge path."""
    code = code_dtype(order.dtype)
    if path == "merge" or code is None:
        return 0
    return max(1, min(code.itemsize * 8, samples.bit_length() - 2))


def choose_samples(sizes: Sequence[Size], num_groups: int, kept_samples: int) -> int:
    """Choose the number of samples in a chunk's summary in one round."""
    # With s samples in each of P chunks and G groups, at most 2 G N / s of N keys stay unresolved (see
    # `unresolved_share`) and are sorted twice. A sample takes as long as some 32 keys (0.4 us and 12 ns on a Xeon),
    # most of it in few tasks, so the total is least where ``32 P s == 2 G N / s``.
    if num_groups == 1:
        return 1
    guessed = sum(GUESSED_KEYS if math.isnan(size) else size for size in sizes)
    cheapest = math.isqrt(int(num_groups * guessed / (16 * len(sizes))))
    return min(max(cheapest, LEAST_SAMPLES_PER_GROUP * num_groups), kept_samples)


def choose_kept_samples(order: Order, num_chunks: int, num_groups: int, dropped: int) -> int:
    """Entries that are kept when summaries are added up: as many as fit the table together with the chunks' sizes."""
    # For very many groups more are kept, because otherwise the rounds would not end: for 64-bit keys in 100,000 chunks
    # from about 2,100 groups on.
    capacity = (TABLE_BYTES - 8 * num_chunks) // FAN_IN // (order.transit_dtype.itemsize + ENTRY_BYTES)
    return max(capacity - ENDS_PER_GROUP * num_groups, LEAST_SAMPLES_PER_GROUP * num_groups * max(dropped, 1))


def unresolved_share(num_groups: int, samples: int, kept_samples: int, dropped: int) -> float:
    """Bound the share of the keys inside the brackets that one round leaves unresolved, for every distribution."""
    # Regular samples at distance d bound a rank to within d keys of each chunk on either side, so s of them leave 2 / s
    # of the keys unresolved at each boundary. Each tree level that drops entries adds as much.
    return 2 * num_groups * (1 / samples + dropped / kept_samples)


def choose_task_samples(num_runs: int, num_groups: int) -> int:
    """Samples in a run's summary in an exchange by tasks."""
    if num_groups == 1:
        return 1
    least = min(LEAST_SAMPLES_PER_GROUP * num_groups, MOST_TASK_SAMPLES // num_runs)
    return max(1, least, min(SAMPLES_PER_GROUP * num_groups, TASK_SAMPLES // num_runs))


def choose_rounds(unresolved: float) -> int:
    """Choose the rounds that bracket the cuts, until few keys are unresolved."""
    # Each round leaves the same share of the keys that it counts. Keys equal to an end of a bracket are counted again,
    # so if they are most of the keys a further round may leave more.
    rounds = 1
    while unresolved**rounds > MOST_UNRESOLVED:
        rounds += 1
    return rounds
