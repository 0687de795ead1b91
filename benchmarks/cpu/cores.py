"""Sorts against the number of threads, on a host with many cores, beside NumPy and Polars.

    python -m benchmarks.cpu.cores [--keys-log2 26] [--repeat 3] [--quick] [--output DIRECTORY] [--commit COMMIT]

Writes results/cores_cpu.json. The input is in memory, in 64 chunks that are slices of one array; a time is the wall
time of the call with ``persist``, the median after a warm-up. On one and two threads it is measured once, as NumPy is,
which works on the whole array, on one thread. Polars uses all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.system import CPU_COUNT

from ..harness.command import arguments, measure
from ..harness.jobs import Effort, in_turns, on_threads
from ..harness.records import Row, slug, timed_row
from .keys import WORKS, check, chunked, make

CHUNKS = 64
#: Threads on which a sort takes so long that it is measured once.
FEW_THREADS = 2
THREADS = [1 << bits for bits in range(CPU_COUNT.bit_length())]
#: Function, and by how many powers of two fewer keys.
SORTS = {"sort int64": ("sort", 0), "stable argsort int64": ("argsort", 2)}


def by_polars(work: str, keys: np.ndarray) -> Callable[[], Any]:
    """Polars' sort, or the positions that sort stably."""
    import polars

    if work == "sort":
        return polars.Series(keys).sort
    positions = polars.arg_sort_by(["keys"], maintain_order=True)
    return lambda: polars.DataFrame({"keys": keys}).select(positions).to_series()


def of_chunks(work: str, n: int) -> Any:
    """Case: one of our functions, whose result stays in chunks, NumPy's and Polars'."""
    keys, (ours, theirs) = make("int64", n), WORKS[work]
    chunks = chunked(keys[0], CHUNKS).persist()

    def checked(found: Any, _: str) -> None:
        check(work, keys, np.asarray(found.compute() if isinstance(found, da.Array) else found))

    works = {"ours": lambda: dask.persist(ours(chunks))[0], "NumPy": lambda: theirs(*keys)}
    return works | ({"Polars": by_polars(work, keys[0])} if find_spec("polars") else {}), checked


def rows(keys: int, effort: Effort) -> Iterator[Row]:
    for name, (work, fewer) in SORTS.items():

        def seconds(who: str, threads: int, effort: Effort, n: int = keys >> fewer, work: str = work) -> Any:
            jobs = {who: (partial(on_threads, threads=threads), of_chunks, who, work, n)}
            return {who: [one.seconds for one in in_turns(effort, jobs)[who]]}

        others = seconds("NumPy", 1, effort.once)
        others |= seconds("Polars", CPU_COUNT, effort) if find_spec("polars") else {}
        for threads in THREADS:
            samples = seconds("ours", threads, effort.once if threads <= FEW_THREADS else effort) | others
            title = f"{name}, 2^{(keys >> fewer).bit_length() - 1}, {threads} thread{'s' * (threads > 1)}"
            yield timed_row(slug(name, threads), title, samples, "s", keys=keys >> fewer)


if __name__ == "__main__":
    more = {"--keys-log2": {"type": int, "default": 26, "help": "keys of the longest work (default: %(default)s)"}}
    options = arguments("cpu.cores", __doc__, more=more)
    keys = 1 << options.effort.size(options.keys_log2, 18)
    measure(options, "cores_cpu", {"all": rows}, keys, options.effort, packages=["polars"], keys=keys)
