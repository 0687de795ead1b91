"""The same int64 keys, sorted by every library that one could use instead.

    python -m benchmarks.baselines [--libraries ...] [--keys 10000 ...] [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/baselines_cpu.json, or baselines_gpu.json where there is a GPU. One array in memory goes in and one comes
out; in one series the result is consumed chunk by chunk. Libraries take turns, in separate processes; each sort
follows one that is not timed, and every result is verified. Libraries that are missing are left out and named.

Where there is a GPU, the libraries that sort on it are measured against `numpy.sort`. A process needs seconds until it
can use the GPU, so a turn is all sizes of a library. Keys are made and verified on the device, and a time is the median
of some runs between CUDA events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..harness.command import parse, parser_of
from ..harness.jobs import MOST_TIMES, Effort, in_turns, quiet_rounds
from ..harness.machine import describe_machine, devices
from ..harness.records import Point, Record
from .libraries import CHUNK_KEYS, DEVICE_CHUNK_KEYS, LIBRARIES, turn

FIGURE = "baselines"
KEYS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
#: Most keys for a library of the host, unless sizes are given: ten times as many take half a minute.
HOST_KEYS = 100_000_000
#: The same where there is a GPU, which sorts a hundred times as many in less time.
HOST_KEYS_WITH_GPU = 10_000_000


def sizes_of(name: str, asked: Sequence[int] | None, quick: bool) -> list[int]:
    if quick:
        return [1_000, 10_000]
    most = KEYS[-1] if LIBRARIES[name].device else HOST_KEYS_WITH_GPU if devices() else HOST_KEYS
    return sorted(asked or [n for n in KEYS if n <= most])


def points(effort: Effort, sizes: dict[str, list[int]]) -> Iterator[Point]:
    """Measure the sizes of each library, in turns.

    Where there is a GPU a turn is all sizes, and busy rounds are not repeated: most times are those of the GPU.
    """
    every = sorted(set().union(*sizes.values()))
    for together in [every] if devices() else [[n] for n in every]:
        taken = {name: [n for n in own if n in together] for name, own in sizes.items()}
        jobs = {name: (turn, LIBRARIES[name].job, own) for name, own in taken.items() if own}
        one_round = partial(in_turns, Effort(effort.quick, 1), jobs)
        rounds, others = quiet_rounds(effort, one_round, 1 if devices() else MOST_TIMES)
        for name in jobs:
            for n in taken[name]:
                yield Point(FIGURE, name, n, [found[name][0].found[n] for found in rounds], "s", others)


def usual() -> list[str]:
    """Libraries measured by default: where there is a GPU, those that sort on it, and NumPy."""
    return [name for name in LIBRARIES if not devices() or LIBRARIES[name].device or name == "numpy.sort"]


def main() -> None:
    parser = parser_of("benchmarks.baselines", __doc__)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=usual(), help="(default: see above)")
    parser.add_argument("--keys", type=int, nargs="+", help="sizes (default: 10,000 to 100,000,000, on a GPU to 10^9)")
    options = parse(parser)
    missing = {name: LIBRARIES[name].missing() for name in options.libraries}
    for name in filter(missing.get, missing):
        print(f"{name}: left out, {missing[name]}")
    names, effort = [name for name in options.libraries if not missing[name]], options.effort
    settings = {"quick": effort.quick, "repeat": effort.repeat, "dtype": "int64"}
    settings |= {"chunk_keys": CHUNK_KEYS, "device_chunk_keys": DEVICE_CHUNK_KEYS}
    packages = ("polars", "pyarrow", "array-api-compat", "cupy-cuda13x", "torch")
    record = Record(describe_machine(*packages, commit=options.commit), settings)
    for library in filter(None, (LIBRARIES[name].built for name in names)):
        from .cub import Cub

        Cub(library)  # so that no turn waits for the compiler
    record.add(points(effort, {name: sizes_of(name, options.keys, effort.quick) for name in names}))
    if options.output:
        record.write(options.output / f"baselines_{'gpu' if devices() else 'cpu'}.json")


if __name__ == "__main__":
    main()
