"""The plan of a sort: everything decided before anything runs, from shapes, dtypes and the scheduler in use alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from dask.utils import format_bytes

from .keys import code_dtype
from .order import Order

Path = Literal["radix", "merge"]
Exchange = Literal["gather", "p2p", "tasks", "device"]
Size = float  # a chunk size is an int, or nan where it is unknown

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
MOST_IN_QUESTION = 1 / 4
#: Keys of a chunk whose size is not known, for a guess at how many of them to ask for.
GUESSED_KEYS = 1 << 20
#: One group's keys on threads: large enough for a vectorised sort, small enough to stay near the cache.
THREADS_GROUP_BYTES = 8 << 20
#: One group's keys on a GPU: small arrays do not fill the device, and every task costs launches.
DEVICE_GROUP_BYTES = 1 << 30
#: Below this a group costs more in shards than it saves in memory.
SMALLEST_GROUP_BYTES = 4 << 20
#: More groups than this only add slices; memory alone is a reason for more.
MOST_GROUPS = 128
#: Groups a thread, so that no thread waits long for the last group. 16, 32 and 64 groups on two threads of a cluster
#: take the same time for 1,024 chunks, 128 take half as long again.
GROUPS_PER_THREAD = 8
#: Of a worker's memory, what one group's keys and values may take. While a group is finished, it is held up to three
#: times (shards as read, joined, output chunks), by each thread of the worker, beside the shuffle's buffers.
GROUP_MEMORY_FRACTION = 1 / 10
#: A GPU's keys above this are exchanged in two groups: the first is finished while the second arrives, and less memory
#: is held twice. Below it the tasks cost more than is gained.
DEVICE_SHARE_BYTES = 1 << 30
#: Of a GPU's memory, what one group may take: it is held four times while it is finished (slabs, joined, sorted and the
#: sort's scratch), beside slabs that wait and groups that are done.
DEVICE_GROUP_FRACTION = 1 / 16
#: Of a GPU's memory, what the chunks may take that one task sorts. Larger ones hide the cost of a task.
DEVICE_BUNDLE_FRACTION = 1 / 32
#: The same where the GPU's memory is not known.
DEVICE_BUNDLE_BYTES = 4 << 30
#: Samples for each group and chunk in the device exchange: what the boundaries leave in question, and is sent twice, is
#: then about a hundredth of the keys.
SAMPLES_PER_GROUP = 256
#: Samples of all chunks in the device exchange. More would take the host longer than the GPUs take for the keys.
DEVICE_SAMPLES = 1 << 17
#: Chunks up to which each task of the device exchange finds the cuts itself, which saves a step from task to task.
SELF_SCANNED_CHUNKS = 16
#: Sorted chunks that one task of the "tasks" exchange joins, or counts on threads. A task costs about 0.3 ms. Whole
#: bundles are added up together, so it divides FAN_IN.
BUNDLE_CHUNKS = 16


@dataclass(frozen=True)
class Workers:
    """What the plan knows of those who will run it.

    Attributes
    ----------
    threads : int
        In all. Where the chunks lie on GPUs, the GPUs.
    memory : int or None
        Bytes for one thread, or of one GPU, None if there is no limit that we know of.
    devices : bool
        Whether the chunks lie on GPUs, one for each worker.
    """

    threads: int
    memory: int | None = None
    devices: bool = False


@dataclass(frozen=True)
class Plan:
    """How one array is sorted along one chunked axis.

    Attributes
    ----------
    order : Order
    path : {"radix", "merge"}
        Whether the first brackets come from digit histograms or from ranks of samples alone.
    exchange : {"gather", "p2p", "tasks", "device"}
    sizes : tuple of int
        Keys in each input chunk, nan where unknown.
    chunks : tuple of int
        Keys in each output chunk, nan where unknown.
    groups : tuple of (first output chunk, last + 1, part, parts)
        What each group holds: some output chunks, or one of several equal parts of one.
    radix_bits : int
        Digits counted in each chunk, 0 on the merge path.
    samples, kept_samples : int
        Keys with which a chunk answers in a round, and those that are kept of the answers of several.
    fan_in : int
        Answers that one task of the counting adds up.
    rounds : int
        Rounds that bracket the cuts, before the one that counts between which ends of the brackets they fall.
    row_bytes : int
        Bytes of one key in transit and its companions.
    sources : tuple of tuples of int
        Input chunks that one task sorts together, ascending in each, for the device exchange; else empty.
    """

    order: Order
    path: Path
    exchange: Exchange
    sizes: tuple[Size, ...]
    chunks: tuple[Size, ...]
    groups: tuple[tuple[int, int, int, int], ...]
    radix_bits: int
    samples: int
    kept_samples: int
    fan_in: int
    rounds: int
    row_bytes: int
    sources: tuple[tuple[int, ...], ...] = ()

    @property
    def known(self) -> bool:
        """Whether all chunk sizes are known."""
        return not any(map(math.isnan, (*self.sizes, *self.chunks)))

    @property
    def bundles(self) -> tuple[tuple[int, int], ...]:
        """Ranges of input chunks that one task may hold together."""
        count, width = len(self.sizes), min(BUNDLE_CHUNKS, self.fan_in)
        return tuple((first, min(first + width, count)) for first in range(0, count, width))

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Ranges of input chunks that one task counts: several where none has to move for it."""
        return self.bundles if self.exchange == "gather" else tuple((a, a + 1) for a in range(len(self.sizes)))

    @property
    def tree(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """How answers are added up (see `counting_tree`)."""
        return counting_tree(len(self.sizes), self.fan_in)

    @property
    def in_question(self) -> float:
        """Of the keys, how many at most are sent to two groups."""
        if len(self.groups) == 1:
            return 0.0
        if self.exchange == "device":
            return left_in_question(len(self.groups), self.samples, 1, 0)
        return left_in_question(len(self.groups), self.samples, self.kept_samples, len(self.tree) - 1) ** self.rounds

    @property
    def table_bytes(self) -> int:
        """Bytes of the largest table that one task of the counting receives."""
        chunks, groups = len(self.sizes), len(self.groups)
        entry = self.order.transit_dtype.itemsize + ENTRY_BYTES
        if self.exchange == "device":
            return chunks * self.samples * entry
        answers = min(chunks, self.fan_in)
        samples = self.samples if chunks <= self.fan_in else max(self.samples, self.kept_samples)
        told = answers * (samples + ENDS_PER_GROUP * groups) * entry
        listed = chunks * CUT_BYTES * (groups + 1) if self.exchange == "gather" else 0
        return max(told + 8 * chunks, listed)

    @property
    def scans(self) -> bool:
        """Whether the device exchange has a task that finds the cuts for all others."""
        return not self.known or len(self.sizes) > SELF_SCANNED_CHUNKS

    @property
    def whole_chunks(self) -> dict[int, int]:
        """Groups that are one output chunk each, and which, in the device exchange."""
        if self.exchange != "device":
            return {}
        groups = enumerate(self.groups)
        return {group: first for group, (first, last, _, parts) in groups if last - first == parts == 1}

    @property
    def num_tasks(self) -> int:
        """Tasks of one sorted array that is alone, without those that make the input."""
        chunks, groups = len(self.sizes), len(self.groups)
        if self.exchange == "device":
            merges = groups - len(self.whole_chunks)
            return len(self.sources) * (2 + groups) + self.scans + merges + len(self.chunks)
        exchange = {
            "gather": 1 + groups,
            "p2p": chunks + 1 + groups,
            "tasks": len(self.bundles) * (1 + groups) + groups,
        }[self.exchange]
        nodes = sum(map(len, self.tree))
        return chunks + (1 + self.rounds) * (len(self.counted) + nodes) + nodes + exchange + len(self.chunks)

    @property
    def group_bytes(self) -> float:
        """Bytes of the largest group's keys and companions, nan if unknown."""
        sizes = [sum(self.chunks[first:last]) / parts for first, last, _, parts in self.groups]
        return max(sizes, default=0) * self.row_bytes

    @property
    def projected_bytes(self) -> float:
        """Peak bytes that one thread holds: three times a group with what it cuts off, or a chunk and its copy."""
        return max(3 * (1 + self.in_question) * self.group_bytes, 2 * max(self.sizes, default=0) * self.row_bytes)


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
    sent twice. A sample costs about four times what a key that is sent costs: both together cost least where
    ``4 P s == 2 G N / s``.
    """
    if num_groups == 1:
        return 1
    guessed = sum(GUESSED_KEYS if math.isnan(size) else size for size in sizes)
    cheapest = math.isqrt(int(num_groups * guessed / (2 * len(sizes))))
    return min(max(cheapest, LEAST_SAMPLES_PER_GROUP * num_groups), kept_samples)


def choose_kept_samples(order: Order, num_chunks: int, num_groups: int, dropped: int) -> int:
    """Entries that are kept of several chunks' answers: as many as the table has room for, beside the chunks' sizes.

    Of very many groups more are kept, or the rounds would not come to an end: from some 2,700 groups of 64-bit keys on.
    """
    room = (TABLE_BYTES - 8 * num_chunks) // FAN_IN // (order.transit_dtype.itemsize + ENTRY_BYTES)
    return max(room - ENDS_PER_GROUP * num_groups, LEAST_SAMPLES_PER_GROUP * num_groups * max(dropped, 1))


def left_in_question(num_groups: int, samples: int, kept_samples: int, dropped: int) -> float:
    """Of the keys that a round asks about, how many it leaves in question at most, whatever the distribution.

    Regular samples at distance d bound a rank to within d keys of each chunk on either side, so s of them leave 2 / s
    of the keys in question at each boundary. Each of the levels of the tree that drop entries adds as much.
    """
    return 2 * num_groups * (1 / samples + dropped / kept_samples)


def choose_device_samples(num_chunks: int, num_groups: int) -> int:
    """Keys that a chunk answers with in the device exchange."""
    return 1 if num_groups == 1 else max(1, min(SAMPLES_PER_GROUP * num_groups, DEVICE_SAMPLES // num_chunks))


def choose_rounds(in_question: float) -> int:
    """Rounds that bracket the cuts, until few keys are left in question."""
    rounds = 1
    while in_question**rounds > MOST_IN_QUESTION:
        rounds += 1
    return rounds


def count_groups(exchange: Exchange, total_bytes: float, num_chunks: int, workers: Workers) -> int:
    """How many groups the keys are exchanged between."""
    if exchange == "device":
        share = total_bytes / workers.threads
        by_memory = total_bytes / (workers.memory * DEVICE_GROUP_FRACTION) if workers.memory else 1
        return math.ceil(max(workers.threads * (1 if share <= DEVICE_SHARE_BYTES else 2), by_memory))
    if workers.devices:
        return max(1 if exchange == "gather" else workers.threads, math.ceil(total_bytes / DEVICE_GROUP_BYTES))
    if exchange == "gather":
        wanted = total_bytes / THREADS_GROUP_BYTES
        least = GROUPS_PER_THREAD * workers.threads
        # One task lists where all chunks are cut.
        most = min(MOST_GROUPS, TABLE_BYTES // (CUT_BYTES * num_chunks) - 1)
        return int(max(1, min(max(wanted, least), most, total_bytes // SMALLEST_GROUP_BYTES)))
    by_memory = 1.0
    if workers.memory is not None:
        by_memory = total_bytes / (workers.memory * GROUP_MEMORY_FRACTION)
    by_threads = min(GROUPS_PER_THREAD * workers.threads, total_bytes / SMALLEST_GROUP_BYTES)
    return max(1, math.ceil(max(by_memory, min(by_threads, MOST_GROUPS))))


def bundle_chunks(
    sizes: Sequence[Size], row_bytes: int, workers: Workers, places: Sequence[str | None]
) -> tuple[tuple[int, ...], ...]:
    """Input chunks that one task sorts together: those of one worker where that is known, else neighbours.

    Parameters
    ----------
    sizes : sequence of int
        Keys in each input chunk, nan where unknown.
    row_bytes : int
    workers : Workers
    places : sequence of str or None
        The worker that holds each chunk, None where it is not computed yet; empty if nothing is known.

    Returns
    -------
    tuple of tuples of int
        Every chunk once.
    """
    most = workers.memory * DEVICE_BUNDLE_FRACTION if workers.memory else DEVICE_BUNDLE_BYTES
    if any(map(math.isnan, sizes)):
        return tuple((chunk,) for chunk in range(len(sizes)))
    if places and None not in places:
        held: dict[str | None, list[int]] = {}
        for chunk, place in enumerate(places):
            held.setdefault(place, []).append(chunk)
        return tuple(bundle for chunks in held.values() for bundle in _split(chunks, sizes, most / row_bytes))
    total = sum(sizes)
    wanted = max(min(workers.threads, len(sizes)), math.ceil(total * row_bytes / most))
    bundles: dict[int, tuple[int, ...]] = {}
    for chunk, (start, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False)):
        number = int((start + size / 2) * wanted / total) if total else 0
        bundles[number] = (*bundles.get(number, ()), chunk)
    return tuple(bundles.values())


def _split(chunks: Sequence[int], sizes: Sequence[Size], most: float) -> list[tuple[int, ...]]:
    """Consecutive chunks of at most so many keys together, or one that has more."""
    bundles: list[tuple[int, ...]] = []
    held = 0.0
    for chunk in chunks:
        if bundles and held + sizes[chunk] <= most:
            bundles[-1] += (chunk,)
            held += sizes[chunk]
        else:
            bundles.append((chunk,))
            held = sizes[chunk]
    return bundles


def lay_out_groups(chunks: Sequence[Size], wanted: int) -> tuple[tuple[int, int, int, int], ...]:
    """Groups of about equal size: consecutive output chunks, or equal parts of one that is too large.

    Parameters
    ----------
    chunks : sequence of int
        Output chunk sizes; where any is nan they count as equal.
    wanted : int
        About how many groups.

    Returns
    -------
    tuple of (first output chunk, last + 1, part, parts)
    """
    unknown = any(map(math.isnan, chunks))
    sizes = [1.0] * len(chunks) if unknown else list(map(float, chunks))
    target = max(sum(sizes) / wanted, 1.0)
    groups: list[tuple[int, int, int, int]] = []
    first, held = 0, 0.0
    for number, size in enumerate(sizes):
        parts = 1 if unknown else min(wanted, round(size / target))
        if held and held + size > target * 1.001:
            groups.append((first, number, 0, 1))
            first, held = number, 0.0
        if parts > 1:
            if first < number:
                groups.append((first, number, 0, 1))
            groups += [(number, number + 1, part, parts) for part in range(parts)]
            first, held = number + 1, 0.0
        else:
            held += size
    if first < len(sizes):
        groups.append((first, len(sizes), 0, 1))
    return tuple(groups)


def make_plan(
    order: Order,
    sizes: Sequence[Size],
    chunks: Sequence[Size],
    *,
    method: str,
    exchange: Exchange,
    workers: Workers,
    groups: int | None,
    companion_bytes: int,
    places: Sequence[str | None] = (),
) -> Plan:
    """Decide how an array is sorted.

    Parameters
    ----------
    order : Order
    sizes, chunks : sequence of int
        Keys in each input and each output chunk, nan where unknown.
    method : {"auto", "radix", "merge"}
    exchange : {"gather", "p2p", "tasks", "device"}
    workers : Workers
    groups : int or None
        Number of exchange groups asked for; None chooses it.
    companion_bytes : int
        Bytes that travel with each key.
    places : sequence of str or None
        The worker that holds each input chunk, where that is known.

    Returns
    -------
    Plan
    """
    path = choose_path(order, method)
    row_bytes = order.transit_dtype.itemsize + companion_bytes
    total = sum(sizes) * row_bytes
    device = exchange == "device"
    if groups is None and math.isnan(total):
        groups = min(len(chunks), workers.threads if device else GROUPS_PER_THREAD * workers.threads)
    elif groups is None:
        groups = count_groups(exchange, total, len(sizes), workers)
        if device:
            # An output chunk in parts is moved once more, which only GPUs without a group are worth.
            groups = min(groups, max(len(chunks), workers.threads))
    laid_out = lay_out_groups(chunks, groups)
    rounds = 0
    if device:
        # One round of ranks: what it leaves in question is settled where a group is finished.
        path, samples, kept, radix_bits = "merge", choose_device_samples(len(sizes), len(laid_out)), 0, 0
    else:
        dropped = len(counting_tree(len(sizes), FAN_IN)) - 1
        kept = choose_kept_samples(order, len(sizes), len(laid_out), dropped)
        samples = choose_samples(sizes, len(laid_out), kept)
        radix_bits = choose_radix_bits(order, path, samples)
        if len(laid_out) > 1:
            rounds = choose_rounds(left_in_question(len(laid_out), samples, kept, dropped))
    return Plan(
        order=order,
        path=path,
        exchange=exchange,
        sizes=tuple(sizes),
        chunks=tuple(chunks),
        groups=laid_out,
        radix_bits=radix_bits,
        samples=samples,
        kept_samples=kept,
        fan_in=FAN_IN,
        rounds=rounds,
        row_bytes=row_bytes,
        sources=bundle_chunks(sizes, row_bytes, workers, places) if device else (),
    )


def describe(plan: Plan) -> str:
    """The plan as text, one decision a line."""
    order = plan.order
    path = (
        f"radix: {plan.radix_bits}-bit digit histograms, column-major scan"
        if plan.path == "radix"
        else "merge: ranks of regular samples"
    )
    direction = "descending" if order.descending else "ascending"
    if order.less is not None:
        direction = "by a comparison"
    rows = {
        "keys": f"{order.kind}, {direction}{', stable' if order.stable else ''}",
        "path": path,
        "rounds": f"{plan.rounds} + 1 of counting, {plan.samples:,} keys a chunk in each",
        "table": f"at most {format_bytes(plan.table_bytes)} for a task, {plan.in_question:.1%} of the keys in question",
        "chunks": f"{len(plan.sizes):,} in, {len(plan.chunks):,} out{'' if plan.known else ', sizes unknown'}",
        "groups": f"{len(plan.groups):,} of at most {_bytes(plan.group_bytes)}",
        "exchange": f"device, of {len(plan.sources):,} bundles of chunks" if plan.sources else plan.exchange,
        "tasks": f"{plan.num_tasks:,}",
        "peak": f"{_bytes(plan.projected_bytes)} for each thread of a worker",
    }
    return "\n".join(f"{name:<9} {text}" for name, text in rows.items())


def _bytes(number: float) -> str:
    return "an unknown size" if math.isnan(number) else format_bytes(int(number))
