"""Measures the public functions against the number of threads, on a host with many cores, beside NumPy and Polars.

    python -m benchmarks.cpu.cores [--keys-log2 28] [--repeat 3] [--quick] [--output DIRECTORY] [--commit COMMIT]

Writes results/cores_cpu.json. The input is in memory, in 64 chunks that are slices of one array; a time is the wall
time of the call with ``persist(scheduler="threads")``, the median after a warm-up. On one and two threads it is
measured once. NumPy works on the whole array, on one thread, and is measured once after no warm-up, as it takes as long
as all others together. Polars uses all cores. Every result equals NumPy's, element by element.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.system import CPU_COUNT

import dask_gpusort

from ..harness.command import arguments, measure
from ..harness.records import Row, slug, timed_row
from .keys import WORKS, make, stable_argsort

CHUNKS, ROW_CHUNKS = 64, 64
#: Keys in a row of the matrix, which is sorted along axis 0.
ROW_KEYS = 1 << 13
#: Threads on which a sort takes so long that it is measured once.
FEW_THREADS = 2
THREADS = [1 << bits for bits in range(CPU_COUNT.bit_length())]

Arrays = list[np.ndarray]


def by_polars(arrays: Arrays, work: str) -> Callable[[], Any]:
    """Polars' sort of one array, or the positions that sort one or several, the first the most significant."""
    import polars

    columns = [
        polars.Series(str(number), array.astype(str) if array.dtype.kind == "S" else array)
        for number, array in enumerate(arrays)
    ]
    if work == "sort":
        return columns[0].sort
    names = [column.name for column in columns]
    return lambda: polars.DataFrame(columns).select(polars.arg_sort_by(names, maintain_order=True)).to_series()


def sort_values(keys: Any, values: Any) -> Any:
    """The values in the order of their keys."""
    return dask_gpusort.sort_by_key(keys, values)[1]


@dataclass(frozen=True)
class Work:
    """A function of arrays, ours and NumPy's, and whether Polars has it. The arrays are `2**fewer` times shorter."""

    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    arrays: Callable[[int], Arrays]
    fewer: int = 3
    polars: str = ""


def numbered(n: int) -> Arrays:
    return [*make("int64", n), np.arange(n)]


def matrix(n: int) -> Arrays:
    return [np.random.default_rng(3).standard_normal((n // ROW_KEYS, ROW_KEYS))]


#: Works by name. NumPy takes two to twenty times as long for them as for int64.
FUNCTIONS = {
    "sort int64": Work(*WORKS["sort"], partial(make, "int64"), 0, "sort"),
    "stable argsort int64": Work(*WORKS["argsort"], partial(make, "int64"), polars="argsort"),
    "sort_by_key int64": Work(sort_values, lambda k, v: v.take(stable_argsort(k)), numbered),
    "sort S20": Work(*WORKS["sort"], partial(make, "S20"), polars="sort"),
    "sort complex128": Work(*WORKS["sort"], partial(make, "complex128")),
    "lexsort two keys": Work(*WORKS["lexsort"], partial(make, "few int64, float64"), polars="lexsort"),
    "sort float64 along axis 0": Work(partial(dask_gpusort.sort, axis=0), partial(np.sort, axis=0), matrix, 2),
}


def seconds(work: Callable[[], Any], wanted: np.ndarray, repeat: int, warm_ups: int = 1) -> list[float]:
    """Wall times of a function; its first result must have the wanted elements."""
    samples = []
    for number in range(warm_ups + repeat):
        start = time.perf_counter()
        found = work()
        samples.append(time.perf_counter() - start)
        if number == 0:
            found = found.compute() if isinstance(found, da.Array) else found
            if not np.array_equal(np.asarray(found).astype(wanted.dtype, copy=False), wanted):
                raise AssertionError("the result differs from NumPy's")
        del found
    return samples[warm_ups:]


def resident(array: np.ndarray, chunks: int = CHUNKS) -> da.Array:
    """Chunks in memory; those of a matrix are columns."""
    sizes = -(-len(array) // chunks) if array.ndim == 1 else (-1, ROW_KEYS // ROW_CHUNKS)
    return da.from_array(array, chunks=sizes, name=False).persist(scheduler="synchronous")


def rows(keys: int, repeat: int) -> Iterator[Row]:
    for name, work in FUNCTIONS.items():
        arrays, start = work.arrays(keys >> work.fewer), time.perf_counter()
        wanted = work.numpy(*arrays)
        others = {"NumPy": [time.perf_counter() - start]}
        if work.polars and find_spec("polars"):
            others["Polars"] = seconds(by_polars(arrays, work.polars), wanted, repeat)
        chunks, title = [resident(array) for array in arrays], f"{name}, 2^{wanted.size.bit_length() - 1}"
        for threads in THREADS:
            few = threads <= FEW_THREADS
            with dask.config.set(scheduler="threads", num_workers=threads):
                call = partial(lambda work, chunks: dask.persist(work.ours(*chunks))[0], work, chunks)
                samples = {"ours": seconds(call, wanted, 1 if few else repeat, 0 if few else 1), **others}
            row = timed_row(
                slug(name, threads), f"{title}, {threads} thread{'s' * (threads > 1)}", samples, "s", keys=wanted.size
            )
            row.details = {"figure": f"threads {name}", "x": threads}
            yield row


if __name__ == "__main__":
    more = {"--keys-log2": {"type": int, "default": 28, "help": "keys of the longest work (default: %(default)s)"}}
    options = arguments("cpu.cores", __doc__, more=more)
    keys = 1 << options.effort.size(options.keys_log2, 18)
    measure(options, "cores_cpu", {"all": rows}, keys, options.effort.repeat, packages=["polars"], keys=keys)
