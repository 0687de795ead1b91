"""What all plans share: their inputs, and how decisions and numbers are written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dask.utils import format_bytes

Exchange = Literal["join", "gather", "runs", "tasks", "device", "gang"]
#: The exchanges by tasks have the same graph: "tasks" for NumPy chunks, "device" for CuPy chunks.
BY_TASKS: tuple[Exchange, ...] = ("tasks", "device")
#: Exchanges in which one task sorts a bundle.
BY_BUNDLES: tuple[Exchange, ...] = (*BY_TASKS, "gang")
Size = float  # a chunk size is an int, or nan if unknown
Runs = tuple[tuple[int, ...], ...]  # numbers of the chunks, or runs, of each
#: Columns of the names of decisions, before their text.
NAME_COLUMNS = 9


@dataclass(frozen=True)
class Workers:
    """Describe the workers that will run the plan."""

    threads: int  # of all workers together; with CuPy chunks, the number of GPUs
    memory: int | None = None  # bytes for each thread or GPU, None if there is no known limit
    devices: bool = False  # whether the chunks are on GPUs, one GPU for each worker
    #: Bytes of the GPU on which chunks and groups of the host are sorted, some at a time.
    staging_memory: int | None = None
    processes: int = 0  # worker processes of a cluster; 0 without a cluster
    apart: bool = False  # whether these are on several hosts


@dataclass(frozen=True)
class InputChunks:
    """Describe the chunks to sort."""

    sizes: Sequence[Size]  # keys in each chunk, nan where unknown
    companion_bytes: int = 0  # bytes that travel with each key
    #: The workers that hold each chunk, None where it is not computed yet; empty if nothing is known.
    workers: Sequence[str | None] = ()
    presorted: bool = False  # whether each chunk is sorted already
    companions: int = 0  # arrays that travel with the keys
    positions: bool = False  # whether the only companions are the keys' positions, which the sort makes
    packed: bool = False  # whether each key is packed from several arrays
    held: bool = False  # whether the chunks are in memory before the sort, and stay there
    task_bytes: int = 0  # bytes for each key that the task of a join takes beside the sort
    most_keys: Size = math.nan  # an upper bound of the number of keys, where sizes are unknown; nan if there is none


def chunks_of_workers(given: InputChunks) -> list[list[int]]:
    """The chunks of each worker, in order of their first chunks; empty unless the worker of every chunk is known."""
    chunks_of: dict[str | None, list[int]] = {}
    for chunk, worker in enumerate(given.workers):
        chunks_of.setdefault(worker, []).append(chunk)
    return [] if None in chunks_of else list(chunks_of.values())


def format_lines(decisions: Mapping[str, str]) -> str:
    """Named decisions, a line each; empty ones are left out."""
    return "\n".join(f"{name:<{NAME_COLUMNS}} {text}" for name, text in decisions.items() if text)


def format_number(number: float) -> str:
    """A number that may be unknown (nan)."""
    return "an unknown number" if math.isnan(number) else f"{int(number):,}"


def format_chunks(count: int) -> str:
    """A number of chunks."""
    return format_count(count, "chunk")


def format_count(count: int, noun: str) -> str:
    """A number of things."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def remedy(devices: int) -> str:
    """What to do if the memory of some GPUs, or with 0 that of the host, does not suffice."""
    if devices:
        return "more GPUs, or NumPy chunks" if devices > 1 else "NumPy chunks and device='cuda'"
    return "smaller chunks, or fewer threads for each worker"


def format_size(number: float) -> str:
    """Bytes that may be unknown: nan, or inf for no known limit."""
    return format_bytes(int(number)) if math.isfinite(number) else "an unknown size"
