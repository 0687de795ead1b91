"""Decides how an array is sorted: makes the plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..order import Order
from . import counting
from .division import (
    GROUPS_PER_THREAD,
    bundle_chunks,
    count_groups,
    count_staged_groups,
    gang_bundles,
    groups_of_threads,
    groups_sorted_last,
    join_chunks,
    join_small_chunks,
    lay_out_groups,
    lay_out_members,
)
from .memory import (
    GROUP_COPIES,
    MESSAGE_COPIES,
    RUN_COPIES,
    RUN_POSITION_BYTES,
    Turns,
    join_bytes,
    make_turns,
    sort_bytes,
    tied_bytes,
)
from .sort import SortPlan
from .terms import BY_BUNDLES, BY_TASKS, Exchange, InputChunks, Runs, Size, Workers, chunks_of_workers


def make_plan(
    order: Order,
    given: InputChunks,
    chunks: Sequence[Size],
    *,
    method: str,
    exchange: Exchange,
    workers: Workers,
    groups: int | None,
    sorts_last: bool = False,
) -> SortPlan:
    """Decide how an array is sorted into output chunks of some sizes; `groups` is the number asked for, if any."""
    counting.check_method(order, method)
    workers = replace(workers, devices=workers.devices or exchange == "device")  # which exchanges as CuPy chunks are
    row_bytes = order.transit_dtype.itemsize + given.companion_bytes
    turns = _turns_of(order, given, exchange, workers)
    runs, sources = _runs_and_sources(order, given, exchange, row_bytes, workers, turns)
    if exchange == "gang":
        laid_out = lay_out_members(chunks, len(sources))
    else:
        if exchange == "join":
            groups = 1
        elif groups is None and sorts_last:
            groups = groups_sorted_last(sum(given.sizes) * row_bytes, workers.threads)
        elif groups is None:
            groups = choose_groups(order, exchange, row_bytes, given, len(runs), chunks, workers)
            groups = max(groups, turns.num_groups(len(sources), len(chunks)) if turns else 0)
        parts = tuple((0, len(chunks), part, groups) for part in range(groups))
        laid_out = parts if sorts_last else lay_out_groups(chunks, groups)
    samples = radix_bits = candidates = 0
    if exchange != "join" and not sorts_last:
        samples = counting.choose_samples(len(runs), len(laid_out), workers.staging_memory is not None)
        if exchange not in BY_BUNDLES and counting.unresolved_share(len(laid_out), samples) > counting.MOST_UNRESOLVED:
            candidates = counting.CANDIDATES_PER_GROUP * len(laid_out)
            samples = math.ceil(candidates / len(runs))  # on average
        elif method == "radix" and len(laid_out) > 1:
            # Samples alone bound the cuts for less, so digits are counted only if they are asked for.
            radix_bits = counting.choose_radix_bits(order, samples)
    return SortPlan(
        order=order,
        exchange=exchange,
        sizes=tuple(given.sizes),
        chunks=tuple(chunks),
        groups=laid_out,
        radix_bits=radix_bits,
        samples=samples,
        candidates=candidates,
        row_bytes=row_bytes,
        key_bytes=_key_bytes(order, given, exchange, row_bytes, workers, sorts_last),
        runs=runs,
        sources=sources,
        cut_first=cuts_first(turns, len(sources), len(laid_out)),
        joined_bytes=_joined_bytes(order, given, workers) if exchange == "join" or workers.threads == 1 else 0,
        turns=turns,
        bundle_workers=_bundle_workers(given, tuple(runs[source[0]] for source in sources), turns),
        staging_memory=workers.staging_memory,
        processes=workers.processes,
        sorts_last=sorts_last,
        may_tie=moves_coded(order, given),
        on_devices=workers.devices,
    )


def moves_coded(order: Order, given: InputChunks) -> bool:
    """Whether keys are sorted as codes, and companions or positions move with them."""
    return order.coded and given.companion_bytes > 0


def _key_bytes(
    order: Order, given: InputChunks, exchange: Exchange, row_bytes: int, workers: Workers, last: bool
) -> tuple[float, float]:
    """`SortPlan.key_bytes`."""
    if workers.devices or workers.staging_memory is not None:
        return RUN_COPIES * row_bytes, GROUP_COPIES * row_bytes
    run, group = (sort_bytes(order, given, step, last) for step in ("run", "group"))
    if exchange != "runs":
        return run, group
    group += RUN_POSITION_BYTES * given.positions
    # Slices of kept runs are copied, end to end, so the merge joins none but positions, which it makes global. Those of
    # other hosts come in a message, of which arrays are made before they are copied.
    return run, max(group, MESSAGE_COPIES * row_bytes) if workers.apart else group


def _joined_bytes(order: Order, given: InputChunks, workers: Workers) -> float:
    if workers.devices:
        return join_bytes(order, given)
    keys = sum(given.sizes)
    tied = tied_bytes(keys, order.transit_dtype.itemsize) if moves_coded(order, given) else 0
    return keys * sort_bytes(order, given, "join") + tied


def _turns_of(order: Order, given: InputChunks, exchange: Exchange, workers: Workers) -> Turns | None:
    on_devices = exchange in BY_TASKS and workers.devices and workers.staging_memory is None
    if not on_devices or workers.memory is None or any(map(math.isnan, given.sizes)):
        return None
    return make_turns(order, given, workers.memory, workers.threads)


def _bundle_workers(given: InputChunks, first_runs: Runs, turns: Turns | None) -> tuple[str | int, ...]:
    if turns is None or turns.devices == 1:
        return ()
    held = bool(chunks_of_workers(given))
    return tuple((given.workers[chunks[0]] if held else None) or number for number, chunks in enumerate(first_runs))


def cuts_first(turns: Turns | None, num_bundles: int, num_groups: int) -> bool:
    """`SortPlan.cut_first` of an exchange by tasks."""
    return turns is not None and turns.cuts_first(num_bundles, turns.devices * turns.keys / max(1, num_groups))


def choose_groups(
    order: Order,
    exchange: Exchange,
    row_bytes: int,
    given: InputChunks,
    num_runs: int,
    chunks: Sequence[Size],
    workers: Workers,
) -> int:
    """Choose the number of groups of keys that become some output chunks."""
    total_bytes, most_bytes = sum(given.sizes) * row_bytes, given.most_keys * row_bytes
    if math.isnan(total_bytes):
        if exchange == "runs" and not math.isnan(most_bytes):
            return min(len(chunks), count_groups(exchange, most_bytes, num_runs, len(chunks), workers))
        unequal = max(1, min(GROUPS_PER_THREAD * workers.threads, counting.most_groups(num_runs)))
        return min(len(chunks), groups_of_threads(exchange, workers) if exchange in BY_TASKS else unequal)
    groups = count_groups(exchange, total_bytes, num_runs, len(chunks), workers)
    if workers.staging_memory is not None:
        staged = count_staged_groups(order, given, num_runs, chunks, workers.staging_memory)
        return max(staged, groups) if exchange == "runs" else staged  # runs are on the host, whose memory is limited
    if exchange != "gather" and not workers.devices:
        return groups
    # The parts of an output chunk are copied once more, which pays only if threads or GPUs would lack groups otherwise.
    return min(groups, max(len(chunks), groups_of_threads(exchange, workers)))


def _runs_and_sources(
    order: Order, given: InputChunks, exchange: Exchange, row_bytes: int, workers: Workers, turns: Turns | None
) -> tuple[Runs, Runs]:
    """`SortPlan.runs` and `SortPlan.sources`; in an exchange by tasks each presorted or staged chunk is a run."""
    if exchange == "join":
        return (tuple(range(len(given.sizes))),), ()
    if exchange not in BY_BUNDLES:
        return join_small_chunks(given, row_bytes, workers), ()
    gang = exchange == "gang"
    bundles = gang_bundles(given, workers) if gang else bundle_chunks(given, row_bytes, workers, turns)
    if given.presorted or workers.staging_memory is not None:
        return tuple((chunk,) for chunk in range(len(given.sizes))), bundles
    interchangeable = order.coded and not order.has_ties and not given.companion_bytes
    return join_chunks(bundles, given.sizes, interchangeable)
