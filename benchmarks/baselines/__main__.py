"""Measures the sort of the same int64 keys by every library that could replace ours.

    python -m benchmarks.baselines [--libraries ...] [--keys 10000 ...] [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/baselines_cpu.json, or baselines_gpu.json if there is a GPU. The input is one array in memory, and so is
the output; one series consumes its result chunk by chunk instead. Libraries take turns in separate processes. Each
timed sort follows a warm-up, and every result is verified. Missing libraries are skipped and named.

A process needs seconds before it can use a GPU, so one turn measures all sizes of a library. With a GPU, the libraries
that sort on it are compared with `numpy.sort`. Keys are made and verified on the device, and a time is the median of
several runs between CUDA events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..harness.command import arguments, measure
from ..harness.jobs import Effort, in_turns
from ..harness.machine import devices
from ..harness.records import Point
from .libraries import CHUNK_KEYS, DEVICE_CHUNK_KEYS, LIBRARIES, turn

FIGURE = "baselines"
KEYS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
#: Most keys for a library on the host, unless sizes are given. Ten times as many keys take half a minute.
HOST_KEYS = 100_000_000
#: The same if there is a GPU, which sorts a hundred times as many keys in less time.
HOST_KEYS_WITH_GPU = 10_000_000


def sizes_of(name: str, asked: Sequence[int] | None, quick: bool) -> list[int]:
    if quick:
        return [1_000, 10_000]
    most = KEYS[-1] if LIBRARIES[name].device else HOST_KEYS_WITH_GPU if devices() else HOST_KEYS
    return sorted(asked or [n for n in KEYS if n <= most])


def points(effort: Effort, sizes: dict[str, list[int]]) -> Iterator[Point]:
    """Measure the libraries in turns; one turn measures all sizes."""
    found = in_turns(effort, {name: (turn, name, own) for name, own in sizes.items()})
    for name, own in sizes.items():
        for n in own:
            yield Point(FIGURE, name, n, [sample.found[n] for sample in found[name]])


def usual() -> list[str]:
    """Libraries measured by default. With a GPU these are NumPy and the libraries that sort on it."""
    return [name for name in LIBRARIES if not devices() or LIBRARIES[name].device or name == "numpy.sort"]


def main() -> None:
    more = {
        "--libraries": {"nargs": "+", "choices": LIBRARIES, "default": usual(), "help": "(default: see above)"},
        "--keys": {"type": int, "nargs": "+", "help": "sizes (default: 10,000 to 100,000,000, on a GPU to 10^9)"},
    }
    options = arguments("baselines", __doc__, more=more)
    missing = {name: LIBRARIES[name].missing() for name in options.libraries}
    for name in filter(missing.get, missing):
        print(f"{name}: left out, {missing[name]}")
    names, effort = [name for name in options.libraries if not missing[name]], options.effort
    for library in filter(None, (LIBRARIES[name].built for name in names)):
        from .cub import Cub

        Cub(library)  # compile before the first turn
    sizes = {name: sizes_of(name, options.keys, effort.quick) for name in names}
    settings = {"dtype": "int64", "chunk_keys": CHUNK_KEYS, "device_chunk_keys": DEVICE_CHUNK_KEYS}
    packages, file = ("polars", "pyarrow", "array-api-compat", "torch"), f"baselines_{'gpu' if devices() else 'cpu'}"
    measure(options, file, {"all": points}, effort, sizes, packages=packages, **settings)


if __name__ == "__main__":
    main()
