"""The suites that asv measures at each commit. Names that start with an underscore are not benchmarks."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
from distributed import Client, LocalCluster, wait

import dask_gpusort

from .calls import ALIKE, CALLS, LANE
from .data import BACKENDS, DISTRIBUTIONS, dask_keys, held

N, FEWER = 4_000_000, 2_000_000
CHUNK_KEYS = 20_000


class _Sorting:
    """A benchmark of a sort. Its first parameter is the number of keys, and its last one is the backend."""

    param_names: tuple[str, ...] = ("n", "dtype", "chunks", "backend")
    #: Keys, unless they are parameters.
    given: dict[str, Any] = {"distribution": "uniform", "dtype": "i8", "chunks": 16}  # noqa: RUF012

    def setup(self, *parameters: Any) -> None:
        found = {**self.given, **dict(zip(self.param_names, parameters, strict=True))}
        self.x = held(dask_keys(**{name: found[name] for name in dask_keys.__annotations__ if name in found}))
        self.call = partial(dask_gpusort.sort, self.x)

    def time_work(self, *_: Any) -> None:
        found = self.call()
        held(*(found if isinstance(found, tuple) else (found,)))

    def peakmem_work(self, *parameters: Any) -> None:
        self.time_work(*parameters)


class Dtypes(_Sorting):
    params = ([N], ["u1", "i2", "i4", "i8", "f4", "f8", "M8[ns]", "c16", "S16"], [1, 16], BACKENDS)


class Sizes(_Sorting):
    params = ([10_000, 1_000_000, 32_000_000], ["i4", "i8"], [1, 16], BACKENDS)


class Distributions(_Sorting):
    params = ([N], ["i8", "f8"], list(DISTRIBUTIONS), BACKENDS)
    param_names = ("n", "dtype", "distribution", "backend")


class Calls(_Sorting):
    """Each public function. What its inputs are made of is not timed."""

    params = ([FEWER], [*CALLS, *ALIKE], ["uniform", "zipf"], [1, 16], BACKENDS)
    param_names = ("n", "call", "distribution", "chunks", "backend")
    given = {"dtype": "f8"}  # noqa: RUF012

    def setup(self, n: int, call: str, *parameters: Any) -> None:
        super().setup(n, call, *parameters)
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
        self.given = {**self.given, "chunks": n // CHUNK_KEYS}
        super().setup(n, exchange, *parameters)
        self.call = partial(dask_gpusort.sort, self.x, exchange=exchange)


class Cluster:
    """The same on two processes of one thread each, for NumPy chunks."""

    params = ([64, 256], ["runs", "tasks"])
    param_names = ("chunks", "exchange")
    small = 8
    timeout = 300

    def setup(self, chunks: int, exchange: str) -> None:
        self.cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        self.client = Client(self.cluster)
        self.x = dask_keys("uniform", chunks * CHUNK_KEYS, chunks).persist()
        wait(self.x)

    def teardown(self, chunks: int, exchange: str) -> None:
        del self.x
        self.client.close()
        self.cluster.close()

    def time_sort(self, chunks: int, exchange: str) -> Any:
        # The result stays on the workers: gathering the keys is not part of the exchange.
        wait(dask_gpusort.sort(self.x, exchange=exchange).persist())


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
