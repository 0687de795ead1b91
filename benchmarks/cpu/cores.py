"""Sorts against the number of threads, on a host with many cores, beside NumPy and Polars.

    python -m benchmarks.cpu.cores [--keys-log2 27] [--repeat 3] [--quick] [--output DIRECTORY] [--commit COMMIT]

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
#: Function, keys, by how many powers of two fewer, and whether Polars has it. NumPy takes longer for all but int64.
SORTS = {
    "sort int64": ("sort", "int64", 0, True),
    "stable argsort int64": ("argsort", "int64", 3, True),
    "sort S20": ("sort", "S20", 3, True),
    "sort complex128": ("sort", "complex128", 3, False),
    "lexsort two keys": ("lexsort", "few int64, float64", 3, True),
}


def by_polars(work: str, keys: list[np.ndarray]) -> Callable[[], Any]:
    """Polars' sort of one array, or the positions that sort one or several, the first the most significant."""
    import polars

    columns = [polars.Series(str(n), key.astype(str) if key.dtype.kind == "S" else key) for n, key in enumerate(keys)]
    if work == "sort":
        return columns[0].sort
    positions = polars.arg_sort_by([column.name for column in columns], maintain_order=True)
    return lambda: polars.DataFrame(columns).select(positions).to_series()


def of_chunks(work: str, kind: str, n: int) -> Any:
    """Case: one of our functions, whose result stays in chunks, NumPy's and Polars'."""
    keys, (ours, theirs) = make(kind, n), WORKS[work]
    chunks = [chunked(key, CHUNKS).persist() for key in keys]

    def checked(found: Any, _: str) -> None:
        found = np.asarray(found.compute() if isinstance(found, da.Array) else found)
        # Polars gives strings for bytes.
        check(work, keys, found.astype(keys[0].dtype, copy=False) if work == "sort" else found)

    works = {"ours": lambda: dask.persist(ours(*chunks))[0], "NumPy": lambda: theirs(*keys)}
    return works | ({"Polars": by_polars(work, keys)} if find_spec("polars") else {}), checked


def rows(keys: int, effort: Effort) -> Iterator[Row]:
    for name, (work, kind, fewer, in_polars) in SORTS.items():

        def seconds(who: str, threads: int, effort: Effort, n: int = keys >> fewer, case: Any = (work, kind)) -> Any:
            jobs = {who: (partial(on_threads, threads=threads), of_chunks, who, *case, n)}
            return {who: [one.seconds for one in in_turns(effort, jobs)[who]]}

        others = seconds("NumPy", 1, effort.once)
        others |= seconds("Polars", CPU_COUNT, effort) if in_polars and find_spec("polars") else {}
        for threads in THREADS:
            samples = seconds("ours", threads, effort.once if threads <= FEW_THREADS else effort) | others
            title = f"{name}, 2^{(keys >> fewer).bit_length() - 1}, {threads} thread{'s' * (threads > 1)}"
            yield timed_row(slug(name, threads), title, samples, "s", keys=keys >> fewer, details={"x": threads})


if __name__ == "__main__":
    more = {"--keys-log2": {"type": int, "default": 27, "help": "keys of the longest work (default: %(default)s)"}}
    options = arguments("cpu.cores", __doc__, more=more)
    keys = 1 << options.effort.size(options.keys_log2, 18)
    measure(options, "cores_cpu", {"all": rows}, keys, options.effort, packages=["polars"], keys=keys)
