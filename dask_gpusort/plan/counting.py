"""How the cuts are counted: the samples, the digits, and the candidates of a second round."""

from __future__ import annotations

import math

from ..keys import code_dtype
from ..order import Order

#: Bytes of a table entry without its key: two counts, and half a digit count, since there are fewer than half as many
#: digits as entries.
ENTRY_BYTES = 20
#: Counts that one task adds up.
FAN_IN = 32
#: Fewest samples for each group in a summary: they then leave at most a quarter of the keys unresolved.
LEAST_SAMPLES_PER_GROUP = 8
#: Most unresolved keys, as a share of all: they are sent to two groups.
MOST_UNRESOLVED = 1 / 3
#: Candidates for each group: two neighbours are then some 2 / 16 of a group apart around a boundary.
CANDIDATES_PER_GROUP = 16
#: Samples for each group and run: about a hundredth of the keys is then unresolved and sent twice.
SAMPLES_PER_GROUP = 256
#: Most samples of all runs together. With more, the host would take longer than GPUs do.
TASK_SAMPLES = 1 << 17
#: The same where a quarter of the keys would be unresolved with fewer: some 30 MB.
MOST_TASK_SAMPLES = 1 << 20


def check_method(order: Order, method: str) -> None:
    """Refuse digits of keys that have no codes of up to 64 bits."""
    if method == "radix" and not order.coded:
        what = "a comparison" if order.less is not None else order.kind
        raise TypeError(
            f"method='radix' needs keys that map to unsigned integers of up to 64 bits, not {what}: "
            "use method='auto' or 'merge'"
        )


def choose_radix_bits(order: Order, samples: int) -> int:
    """Bits of the digits counted in each run, so that digits are fewer than samples."""
    code = code_dtype(order.dtype)
    assert code is not None
    return max(1, min(code.itemsize * 8, samples.bit_length() - 2))


def choose_samples(num_runs: int, num_groups: int, staged: bool = False) -> int:
    """Samples in a run's summary."""
    if num_groups == 1:
        return 1
    least = min(LEAST_SAMPLES_PER_GROUP * num_groups, MOST_TASK_SAMPLES // num_runs)
    # What is moved to a GPU and back costs more than samples do.
    most = MOST_TASK_SAMPLES if staged else TASK_SAMPLES
    return max(1, least, min(SAMPLES_PER_GROUP * num_groups, most // num_runs))


def unresolved_share(num_groups: int, samples: int) -> float:
    """Bound the share of the keys that regular samples leave unresolved, for every distribution."""
    # Regular samples at distance d bound a rank to within d keys of each run on either side.
    return 2 * num_groups / samples if num_groups > 1 else 0.0


def most_groups(num_runs: int) -> int:
    """Most groups whose cuts one task bounds in one round, with few unresolved keys."""
    return int(MOST_TASK_SAMPLES / num_runs * MOST_UNRESOLVED / 2)


def count_sums(num_runs: int) -> int:
    """Tasks that add up the counts of runs before the last one does."""
    nodes, sums = math.ceil(num_runs / FAN_IN), 0
    while nodes > 1:
        sums, nodes = sums + nodes, math.ceil(nodes / FAN_IN)
    return sums
