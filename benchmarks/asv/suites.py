"""The suites that asv measures at each commit. Names that start with an underscore are not benchmarks."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da

import dask_gpusort

from .calls import ALIKE, CALLS, LANE
from .data import BACKENDS, DISTRIBUTIONS, dask_keys, held

N, FEWER, CHUNK_KEYS = 4_000_000, 2_000_000, 20_000


class _Sorting:
    """A benchmark of a call on held keys. Its first parameter is their number, and its last one is the backend."""

    param_names: tuple[str, ...] = ("n", "dtype", "distribution", "chunks", "backend")

    def setup(self, *parameters: Any) -> None:
        found = {"distribution": "uniform", "dtype": "i8", **dict(zip(self.param_names, parameters, strict=True))}
        found.setdefault("chunks", found["n"] // CHUNK_KEYS)
        self.x = held(dask_keys(**{name: found[name] for name in dask_keys.__annotations__ if name in found}))
        self.call = partial(dask_gpusort.sort, self.x)

    def time_work(self, *_: Any) -> None:
        found = self.call()
        held(*(found if isinstance(found, tuple) else (found,)))

    def peakmem_work(self, *parameters: Any) -> None:
        self.time_work(*parameters)


class Sorts(_Sorting):
    params = ([N], ["u1", "i2", "i4", "i8", "f4", "f8", "M8[ns]", "c16", "S16"], [*DISTRIBUTIONS], [1, 16], BACKENDS)


class Calls(_Sorting):
    """Each public function. What its inputs are made of is not timed."""

    params = ([FEWER], [*CALLS, *ALIKE], ["uniform", "zipf"], [1, 16], BACKENDS)
    param_names = ("n", "call", "distribution", "chunks", "backend")

    def setup(self, n: int, call: str, *parameters: Any) -> None:
        super().setup(n, call, *parameters)
        self.x = held(self.x.astype("f8"))
        function, inputs = {**CALLS, **ALIKE}[call]
        self.call = partial(function, *inputs(self))

    def keys(self, number: int = 0) -> da.Array:
        return held(self.x[::-1]) if number else self.x

    def rows(self, parts: int) -> da.Array:
        return held(self.x.reshape(-1, LANE).rechunk({1: LANE // parts}))

    def in_order(self, number: int = 0) -> da.Array:
        return held(dask_gpusort.sort(self.x))

    def positions(self) -> da.Array:
        return held(dask_gpusort.argsort(self.x))


class Exchange(_Sorting):
    """The exchange of keys between many small chunks."""

    params = ([64 * CHUNK_KEYS, 512 * CHUNK_KEYS], ["gather", "tasks", "device"], ["uniform", "equal"], BACKENDS)
    param_names = ("n", "exchange", "distribution", "backend")
    small = 8 * CHUNK_KEYS

    def setup(self, n: int, exchange: str, *parameters: Any) -> None:
        super().setup(n, exchange, *parameters)
        self.call = partial(dask_gpusort.sort, self.x, exchange=exchange)


class Build:
    """Construction of the graph, before anything is computed."""

    params = ([64, 1_024, 10_000], ["gather", "tasks"])
    param_names = ("chunks", "exchange")
    small = 16

    def setup(self, chunks: int, exchange: str) -> None:
        self.x = da.zeros(chunks * 1_000_000, chunks=1_000_000, dtype="i8")
        self.track_tasks(chunks, exchange)  # imports modules, which is not part of building

    def time_graph(self, chunks: int, exchange: str) -> None:
        self.track_tasks(chunks, exchange)

    def track_tasks(self, chunks: int, exchange: str) -> int:
        return len(dict(dask_gpusort.sort(self.x, exchange=exchange).__dask_graph__())) - chunks

    track_tasks.unit = "tasks"  # type: ignore[attr-defined]
