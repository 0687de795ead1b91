"""Where lanes are worked on: a lane is the elements along the reduced axes for one index of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .memory import READING, SMALL_BYTES, host_bytes
from .plan import Plan, StepBytes
from .terms import Workers, format_chunks, format_number, format_size

#: In chunks as they are; in one task; in chunks that are made whole; in an exchange, by the names of its kinds too.
Where = Literal["blocks", "join", "rechunk", "exchange", "samples", "sort", "gang"]

#: Most bytes of a chunk of whole lanes, unless the chunks are larger already. Medians over time of (730, 300, 400)
#: float32 in chunks of (73, 100, 100) and (10, 300, 400) took 0.28 and 0.42 s of processor time with 32 MiB, 0.36 and
#: 0.42 with 128, and 0.52 with 8 (EPYC); a quarter of the memory is enough, and more threads have work.
LANES_BYTES = 32 << 20
#: The most such chunks that the memory of a thread would hold. Workers of 512 MiB, which take 200 without any array,
#: peaked at 400 MiB with chunks of 16 MiB, paused at 430 MiB with 32, and were killed with 128. With (14600, 400, 400)
#: float32 from Zarr, workers of 1 GiB peaked at 610 to 770 MiB with 16, and were paused or killed with 32.
LANES_IN_MEMORY = 64
#: Most bytes of chunks that are joined to whole lanes, in the bytes of those that are divided too.
JOINED_SHARE = 1.5
#: Fewest keys of a lane in a chunk, and most lanes in a chunk, for which the lanes are searched one by one: the NumPy
#: calls for a lane take some 0.1 ms, about as long as 2^15 keys.
LEAST_LANE_KEYS = 1 << 15
MOST_LANES = 64


@dataclass(frozen=True)
class Lanes:
    """Describe the lanes of an array; nan where a number is unknown."""

    count: float  # of lanes
    keys: float  # of each lane
    in_chunk: float  # lanes in the largest chunk
    chunks: int  # that a lane is in
    blocks: int  # groups of lanes that are in the same chunks
    itemsize: int  # bytes of a key
    limit: float  # most bytes of a chunk of whole lanes
    searchable: bool  # whether NumPy compares the keys by value, elementwise

    @property
    def bytes(self) -> float:
        """Bytes of all keys."""
        return self.count * self.keys * self.itemsize

    @property
    def lane_bytes(self) -> float:
        """Bytes of the keys of one lane."""
        return self.keys * self.itemsize

    @property
    def are_long(self) -> bool:
        """Whether they are few and long, so that it costs little to work on them one by one."""
        long = math.isnan(self.keys) or self.keys / self.chunks >= LEAST_LANE_KEYS
        return long and self.in_chunk <= MOST_LANES and not self.bytes <= SMALL_BYTES

    @property
    def text(self) -> str:
        """Numbers of lanes, keys and chunks, on one line."""
        number, keys = map(format_number, (self.count, self.keys))
        return f"{number} of {keys} keys, each in {format_chunks(self.chunks)}"

    def whole_bytes(self, where: str, most: float = LANES_BYTES) -> float:
        """Bytes of a chunk of whole lanes: of all with "join"; with "rechunk" of `most`, unless one lane is larger."""
        chunk = self.bytes / (self.chunks * self.blocks)
        if where == "join":
            return self.bytes
        if where == "rechunk":
            joined = self.bytes / self.blocks  # chunks that are only joined
            return joined if joined <= JOINED_SHARE * most else max(chunk, self.lane_bytes, min(most, self.bytes))
        return chunk


class Row(NamedTuple):
    """Say which lanes a function works on one by one, besides those in several chunks that do not fit one."""

    by: Where  # how: the exchange that it has for them
    others: Callable[[Lanes], bool]  # which others
    unknown: bool  # whether they may have an unknown number or length, and be none


#: What functions differ in. Several rows that fit a chunk move once, and are partitioned in parallel.
ROWS = {
    "sort": Row("exchange", lambda lanes: False, unknown=False),
    "distinct": Row("exchange", lambda lanes: lanes.chunks > 1, unknown=True),
    "statistic": Row("samples", lambda lanes: lanes.are_long, unknown=True),
    "groups": Row("sort", lambda lanes: lanes.are_long, unknown=True),
    "partition": Row(
        "samples", lambda lanes: lanes.are_long and lanes.chunks > 1 and not lanes.count > 1, unknown=True
    ),
}


def choose(lanes: Lanes, function: str, *, joins: bool = False, exchanges: bool = True) -> tuple[Where, str]:
    """Choose where lanes are worked on by a function of `ROWS`, and say why.

    `joins` says whether one task should have all chunks; `exchanges` whether lanes may be worked on one by one.
    """
    row, several, fits = ROWS[function], lanes.chunks > 1, lanes.lane_bytes <= lanes.limit
    known = bool(lanes.count) and not math.isnan(lanes.count + lanes.keys)
    chunk, others = f"one of {format_size(lanes.limit)}", row.others(lanes)
    if several and joins:
        return "join", "the chunks share one memory, which holds what the task takes"
    # Lanes that do not fit a chunk cannot be made whole in bounded memory.
    if exchanges and (others or (several and not fits and (known or row.unknown))):
        return row.by, "lanes are in several chunks" + f" and do not fit {chunk}; one by one" * (not others)
    if several:
        return "rechunk", f"lanes are in several chunks and fit {chunk}; made whole, and divided again"
    return "blocks", "lanes are whole in their chunks"


def most_lanes_bytes(lanes: Lanes, workers: Workers) -> float:
    """Most bytes of a chunk of whole lanes made of several chunks: on a GPU a share of its memory."""
    share = (workers.memory or math.inf) / LANES_IN_MEMORY
    return share if workers.devices else min(LANES_BYTES, lanes.limit, share)


def plan_lanes(
    lanes: Lanes,
    where: str,
    why: str,
    step: str,
    what: str = "lanes",
    *,
    key_bytes: float | None = None,
    most: float = LANES_BYTES,
    given: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a step on whole lanes; in an exchange on none, which has plans of its own.

    A task takes some `key_bytes` for each key, by default those of `HOST_BYTES` for `what` is done.
    """
    whole = where in ("blocks", "join", "rechunk")
    a_key = key_bytes or host_bytes(what, lanes.itemsize) + lanes.itemsize * (where == "rechunk" and what in READING)
    moves = f"every key once, {format_size(lanes.bytes)}, and what is found of it" if where == "rechunk" else "nothing"
    taken = StepBytes(step, lanes.whole_bytes(where, most) / lanes.itemsize, lanes.itemsize, 0, a_key)
    return Plan(
        where=where,
        why=why,
        given={"lanes": lanes.text, **(given or {})},
        more={"moves": moves * whole},
        steps=(taken,) * whole,
        scope="process" if where == "join" else "thread",
        stages=((step, lanes.bytes),),
    )
