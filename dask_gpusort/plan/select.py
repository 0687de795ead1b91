"""The plan of order statistics: how the keys at wanted ranks of each lane are found (see ``docs/how/selection.md``).

A lane is the elements along the reduced axes for one index of the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..table.selection import best_samples, inside_share
from .choose import LANES_BYTES, Lanes, Where, choose, most_lanes_bytes, plan_lanes
from .division import fits_members, gang_bundles
from .memory import host_bytes
from .plan import Plan, StepBytes
from .terms import InputChunks, Runs, Workers, format_size

#: Those that can be asked for. Samples are searched by a gang where that moves less.
STRATEGIES: tuple[Where, ...] = ("blocks", "rechunk", "samples", "join")
BY_SAMPLES: tuple[Where, ...] = ("samples", "gang")

#: Most bytes of the keys, and of the samples, that one task fetches, and the share of a thread's memory that they may
#: take. More keys are searched in another round, which does not read the source.
FETCHED_BYTES, FETCHED_SHARE = 32 << 20, 1 / 16
#: So many times as many on GPUs, which move and sort them in less time than another round takes.
FETCHED_ON_DEVICES = 8
#: Fewest samples of a lane, if it has as many keys, however little memory there is.
LEAST_SAMPLES = 1 << 10
#: Most ranks of a partition for which each key is compared with the keys at all of them, for keys and for positions.
#: Of 51.2M float64 in 64 chunks, on two threads of an AVX-512 EPYC, partitions take 0.75 / 0.81 / 1.03 / 1.43 / 2.1
#: times the time of a sort for 1 / 2 / 4 / 8 / 16 ranks; `argsort` takes 2.2 times, `argpartition` for one rank 0.7.
MOST_CUTS, MOST_CUTS_OF_POSITIONS = 4, 16
#: Most rounds: 2^44 keys are searched in three.
MOST_ROUNDS = 4
#: Most quantiles for which each key is compared with the brackets; for more, each chunk is sorted in the second pass.
#: A comparison with a bracket takes 0.4 to 0.6 ns a key, a sort of a chunk 6 to 14 (2^20 keys; an EPYC with AVX2). A
#: GPU searches for each key among the brackets, and sorts only lanes that are joined: of 2^27 float64 in 16 chunks, 17
#: / 32 / 101 / 1,001 quantiles take 8.0 / 11.7 / 15.6 / 25.8 ms by a search, and 8 by a sort (H200).
MOST_COMPARED = 16
#: Most keys inside brackets, as a share of the keys of a thread, for which only the second pass sorts chunks. Few keys
#: are inside brackets of samples of sorted chunks; else one task sorts the samples and these keys.
MOST_INSIDE = 1 / 2
#: How many passes sort chunks if both do.
BOTH_PASSES = 2
#: What is said of a kernel, of lanes that need no search, and of chunks that are sorted.
ROW_KERNEL = "a row kernel on"
WHOLE = "each lane is partitioned, or sorted for many quantiles: a search would read it twice"
MANY_QUANTILES = "of so many quantiles each key would be compared with too many brackets"
#: Assumed keys of a chunk of unknown size.
GUESSED_KEYS = 1 << 20


@dataclass(frozen=True)
class SelectPlan:
    """Say how order statistics are found."""

    strategy: Where
    lanes: Lanes
    #: For each round, the neighbouring keys of a chunk that one sample is drawn from.
    keys_per_stratum: tuple[float, ...] = ()
    samples: float = 0  # of one group of lanes in the first round
    #: Keys inside the first brackets of one group of lanes, at most, but for the distribution of the keys.
    inside_keys: float = 0
    fetched_keys: float = 0  # the same of the last brackets
    held: bool = True  # whether the source stays in memory between the passes over it
    threads: int = 1  # of all workers together
    #: Most bytes of a chunk of whole lanes made of several chunks, unless these or a lane are larger.
    lanes_bytes: float = LANES_BYTES
    searches: bool = False  # whether lanes are searched one by one, by samples
    sorts: int = 0  # passes that sort them, because many quantiles are wanted: the second one, or both
    whole: bool = False  # whether they could be searched, and are reduced whole in less time
    sources: Runs = ()  # the chunks of each member of a gang

    @property
    def passes(self) -> int:
        """Times that every key of the source is read."""
        return 2 if self.strategy in BY_SAMPLES else 1

    @property
    def moved_bytes(self) -> float:
        """Bytes of keys inside brackets, and of fetched keys and samples, which are concatenated."""
        return (self.inside_keys + 2 * max(self.samples, self.fetched_keys)) * self.lanes.itemsize

    @property
    def stated(self) -> Plan:
        """What is decided, and what it takes."""
        lanes, searched = self.lanes, "a sort of each" if self.sorts else "random samples give brackets"
        if self.strategy in ("blocks", "rechunk"):
            why = f"so that lanes are whole, then {ROW_KERNEL} each chunk"
            if self.strategy == "blocks":
                why = f"lanes are whole in their chunks, {ROW_KERNEL} each"
            plan = plan_lanes(lanes, self.strategy, why, "reduce-lanes", most=self.lanes_bytes)
            return replace(plan, more={"whole": WHOLE * self.whole, **plan.more})
        read_twice = self.strategy in BY_SAMPLES
        passes = "both passes" if self.sorts == BOTH_PASSES else "the second pass"
        sorted_ = f"each chunk is sorted in {passes}" if read_twice else "each joined lane is sorted"
        held = "held in memory between the passes" if self.held else "read again, its tasks are repeated"
        rounds = f"{len(self.keys_per_stratum)}, from {self.samples:,.0f} samples"
        whys = {
            "samples": "random samples give brackets, only the keys inside them move",
            "gang": f"{len(self.sources):,} members draw samples and find brackets, in one task each, only the keys "
            "inside them move",
            "join": f"one task has all chunks of a lane, {searched if self.searches else ROW_KERNEL + ' them'}",
        }
        return Plan(
            where=self.strategy,
            why=whys[self.strategy],
            given={"lanes": lanes.text},
            more={
                "sorts": f"{sorted_}: {MANY_QUANTILES}" * bool(self.sorts),
                "passes": f"{self.passes} over {format_size(lanes.bytes)}; the source is {held}" * read_twice,
                "rounds": f"{rounds}; at most {self.fetched_keys:,.0f} keys fetched" * read_twice,
            },
            steps=(self._step(),),
            scope="all",
            stages=((self.strategy, self.moved_bytes if read_twice else lanes.bytes),),
            reads=1 if self.held else self.passes,
        )

    def _step(self) -> StepBytes:
        """Bytes in use at the peak, the source included where it is held."""
        lanes = self.lanes
        if self.strategy == "join":
            return StepBytes("select-join", 0, 0, stays=joined_bytes(lanes, self.searches and not self.sorts))
        # Few keys are compared at a time, and all of a chunk are sorted.
        a_key = host_bytes("lanes", lanes.itemsize) if self.sorts else lanes.itemsize
        read = self.threads * lanes.whole_bytes("blocks") / lanes.itemsize * a_key
        kept = lanes.bytes + bool(self.sorts) * read if self.held else read
        return StepBytes("select-extract", self.moved_bytes / lanes.itemsize, lanes.itemsize, stays=kept)


def joined_bytes(lanes: Lanes, searches: bool) -> float:
    """Bytes in use while lanes are joined, the source included: keys inside brackets, or whole lanes and a copy."""
    return lanes.bytes * (1.5 if searches else 1 + 2 / lanes.blocks)


def sorts_lanes(lanes: Lanes, quantiles: int, workers: Workers, joins: bool) -> bool:
    """Whether a sort of the keys takes less time than to compare each with the brackets of so many quantiles."""
    fits = joins and joined_bytes(lanes, searches=False) <= (workers.memory or math.inf)
    return quantiles > MOST_COMPARED and (fits or not workers.devices)


def fits_join(lanes: Lanes, workers: Workers, held: bool, searches: bool) -> bool:
    """Whether all chunks of a lane are joined in one task: they are in the memory of the only GPU, which suffices."""
    needed = joined_bytes(lanes, searches)
    return workers.devices and workers.threads == 1 and held and needed <= (workers.memory or math.inf)


def cuts_by_samples(lanes: Lanes, ranks: int, positions: bool, held: bool) -> bool:
    """Whether a partition sorts by the buckets between the keys at its ranks, found by samples, and not by the keys."""
    # That reads the source once more. Each key is compared with a few.
    return lanes.searchable and held and ranks <= (MOST_CUTS_OF_POSITIONS if positions else MOST_CUTS)


def fits_held(lanes: Lanes, workers: Workers, memory: int | None, share: float) -> bool:
    """Whether a share of the workers' memory, or of this process's (`memory`), holds the source."""
    limit = memory if workers.memory is None else workers.threads * workers.memory
    return limit is None or lanes.bytes <= share * limit


def reduces_whole(lanes: Lanes, workers: Workers, held: bool, sorts: bool) -> bool:
    """Whether lanes that could be searched are reduced whole; `sorts` says whether a search would sort the chunks."""
    # One partition or sort of each takes less than the two passes of a search, which saves moves and memory. Of 2^22
    # float64 in 16 lanes, in 4 chunks each, 1 / 3 / 9 quantiles take 0.4 / 0.6 / 0.8 times the time of a sort, and by
    # samples 0.7 / 1.4 / 2.6 (EPYC, AVX2). Pieces of lanes in several chunks are held, and move between processes.
    fits = lanes.keys * lanes.itemsize <= most_lanes_bytes(lanes, workers)
    if lanes.chunks == 1:
        return sorts or (fits and not workers.devices)
    # A search has a task for each chunk.
    busy = lanes.count >= min(workers.threads, lanes.chunks)
    return fits and lanes.count > 1 and (sorts or (busy and held and not (workers.devices or workers.processes)))


def make_select_plan(
    lanes: Lanes, quantiles: int, workers: Workers, held: bool, strategy: Where | None = None
) -> SelectPlan:
    """Plan order statistics, by default with the strategy that suits the lanes; `quantiles` are wanted of each lane."""
    # Of n keys, s samples and q quantiles leave about ``2 q e n / sqrt(s)`` keys inside the brackets, where ``e``
    # follows from the probability of a miss. The number of samples makes the keys that are fetched about as many as the
    # samples.
    searches = choose(lanes, "statistic", exchanges=lanes.searchable)[0] == "samples"
    joins = strategy == "join" or (strategy is None and fits_join(lanes, workers, held, searches))
    sorts = (searches or strategy == "samples") and sorts_lanes(lanes, quantiles, workers, joins)
    if joins:
        return SelectPlan("join", lanes, threads=workers.threads, searches=searches, sorts=sorts)
    whole = searches and reduces_whole(lanes, workers, held, sorts)
    chosen = strategy or choose(lanes, "statistic", exchanges=lanes.searchable and not whole)[0]
    if chosen != "samples":
        most = most_lanes_bytes(lanes, workers)
        if whole:  # no thread is without lanes
            most = min(most, lanes.bytes / workers.threads)
        return SelectPlan(chosen, lanes, threads=workers.threads, lanes_bytes=most, whole=whole)
    for passes in (1, BOTH_PASSES) if sorts else (0,):
        rounds = _plan_rounds(lanes, max(quantiles, 1), workers, passes)
        plan = SelectPlan(chosen, lanes, *rounds, held, workers.threads, searches=True, sorts=passes)
        if plan.inside_keys * workers.threads <= MOST_INSIDE * plan.samples * plan.keys_per_stratum[0]:
            break
    return plan


def _plan_rounds(
    lanes: Lanes, quantiles: int, workers: Workers, passes: int
) -> tuple[tuple[float, ...], float, float, float]:
    """Plan the rounds of a search: `SelectPlan.keys_per_stratum` and the fields behind it."""
    keys = GUESSED_KEYS * lanes.chunks if math.isnan(lanes.keys) else max(lanes.keys, 1)
    in_chunk = 1 if math.isnan(lanes.in_chunk) else max(lanes.in_chunk, 1)
    most = FETCHED_BYTES * (FETCHED_ON_DEVICES if workers.devices else 1)
    fetched = min(most, (workers.memory or math.inf) * FETCHED_SHARE) / lanes.itemsize / in_chunk
    steps, first, inside, runs = [], 0.0, 0.0, lanes.chunks if passes == BOTH_PASSES else math.inf
    while True:
        samples = min(best_samples(keys, quantiles, runs=runs), keys, max(fetched, LEAST_SAMPLES))
        first = first or samples * in_chunk
        steps.append(max(keys / samples, 1.0))
        keys = min(keys, keys * inside_share(samples, quantiles, runs=runs))
        inside = inside or keys * in_chunk
        if keys <= fetched or len(steps) == MOST_ROUNDS:
            return tuple(steps), first, inside, keys * in_chunk
        runs = lanes.chunks if passes else runs  # what is left of sorted chunks is in order


def gang_of_selection(plan: SelectPlan, given: InputChunks, workers: Workers, asked: str) -> Runs:
    """The chunks of each member of a gang that searches samples; empty if other tasks should search them."""
    # Groups of lanes that are not in the same chunks would each need exchanges of their own.
    if plan.strategy != "samples" or plan.lanes.blocks != 1 or len(given.sizes) < 2 or asked not in ("auto", "gang"):
        return ()
    return gang_bundles(given, workers) if asked == "gang" or fits_members(given, workers, plan.moved_bytes) else ()
