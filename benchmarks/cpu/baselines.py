"""The same int64 keys by every library that could replace ours, from one array in memory to another.

    python -m benchmarks.cpu.baselines [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/baselines_cpu.json. One series consumes its result chunk by chunk instead. Libraries take turns in
separate processes, on all cores. Each is timed in its second run, and every result is verified. Missing libraries are
left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from dask.system import CPU_COUNT

import dask_gpusort

from ..asv.data import dask_keys
from ..harness.command import arguments, measure
from ..harness.jobs import Effort, in_turns, on_threads
from ..harness.records import Point
from ..harness.verify import parts_of
from .core import sorted_chunks
from .keys import chunked

SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000), (1_000, 10_000)
CHUNK_KEYS = 1 << 20


def by_polars(keys: Any, _: Any) -> Any:
    import polars

    series = polars.Series(keys)
    return lambda: series.sort().to_numpy()


def by_dataframe(_: Any, x: Any) -> Any:
    """Dask DataFrame: quantiles, then a shuffle of partitions."""
    import dask.dataframe as dd

    frame = dd.from_dask_array(x.reshape(-1, 1), columns=["key"])
    return lambda: frame.sort_values("key").compute()["key"].to_numpy()


def by_array_api(_: Any, x: Any) -> Any:
    """array-api-compat on Dask: one chunk of everything."""
    import array_api_compat.dask.array as xp

    return lambda: xp.sort(x).compute()


#: For each library what makes its call from an array and its chunks, and the modules that it needs.
LIBRARIES: dict[str, tuple[Callable[[Any, Any], Callable[[], Any]], list[str]]] = {
    "dask_gpusort": (lambda _, x: lambda: dask_gpusort.sort(x).compute(), []),
    "dask_gpusort, chunk by chunk": (lambda _, x: lambda: parts_of(dask_gpusort.sort(x)).compute(), []),
    "numpy.sort": (lambda keys, _: lambda: np.sort(keys), []),
    "Polars": (by_polars, ["polars"]),
    "array-api-compat": (by_array_api, ["array_api_compat"]),
    "dask.dataframe": (by_dataframe, ["pandas", "pyarrow"]),
}


def sorted_by(name: str, n: int) -> Any:
    """Case: the sort of a library."""
    keys = dask_keys("uniform", n, 1).compute()
    return {name: LIBRARIES[name][0](keys, chunked(keys, -(-n // CHUNK_KEYS)))}, sorted_chunks(n, 1)


def points(effort: Effort) -> Iterator[Point]:
    missing = {name: [one for one in needs if not find_spec(one)] for name, (_, needs) in LIBRARIES.items()}
    for name in filter(missing.get, missing):
        print(f"{name}: left out, needs {', '.join(missing[name])}")
    on_all = partial(on_threads, threads=CPU_COUNT)
    for n in QUICK_SIZES if effort.quick else SIZES:
        jobs = {name: (on_all, sorted_by, name, name, n) for name in LIBRARIES if not missing[name]}
        for name, samples in in_turns(effort, jobs).items():
            yield Point("baselines", name, n, [one.seconds for one in samples])


if __name__ == "__main__":
    options = arguments("cpu.baselines", __doc__)
    packages, settings = ("polars", "pyarrow", "array-api-compat"), {"dtype": "int64", "chunk_keys": CHUNK_KEYS}
    measure(options, "baselines_cpu", {"all": points}, options.effort, packages=packages, **settings)
