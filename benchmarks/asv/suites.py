"""The suites that asv measures at each commit. Names that start with an underscore are not benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
from distributed import Client, LocalCluster, wait

import dask_gpusort

from .data import BACKENDS, DISTRIBUTIONS, copy_bandwidth, dask_keys, held, seconds, seconds_of

N, FEWER = 4_000_000, 2_000_000
CHUNK_KEYS = 20_000


class _Sorting:
    """A benchmark of `work`. Its first parameter is the number of keys, and its last one is the backend."""

    timer = staticmethod(seconds)
    param_names: tuple[str, ...] = ("n", "dtype", "chunks", "backend")
    #: Keys, unless they are parameters.
    given: dict[str, Any] = {"distribution": "uniform", "dtype": "i8", "chunks": 16}  # noqa: RUF012
    #: The function that `work` calls with the keys.
    function: Callable[..., Any] = staticmethod(dask_gpusort.sort)
    #: The computed input. Its dtype is that of the keys.
    x: Any

    def setup(self, *parameters: Any) -> None:
        found = {**self.given, **dict(zip(self.param_names, parameters, strict=True))}
        self.x = held(dask_keys(**{name: found[name] for name in dask_keys.__annotations__ if name in found}))

    def work(self, *_: Any) -> None:
        found = self.function(self.x)
        held(*(found if isinstance(found, tuple) else (found,)))

    def time_work(self, *parameters: Any) -> None:
        self.work(*parameters)

    def track_rate(self, *parameters: Any) -> float:
        return parameters[0] / seconds_of(lambda: self.work(*parameters))

    track_rate.unit = "keys/s"  # type: ignore[attr-defined]


class _WithMemory(_Sorting):
    """Also measures the peak memory of the process."""

    def peakmem_work(self, *parameters: Any) -> None:
        self.work(*parameters)


class Dtypes(_Sorting):
    """Also measures the bandwidth of one read and one write of every key, as a share of the copy bandwidth."""

    params = ([N], ["u1", "i2", "i4", "i8", "f4", "f8", "M8[ns]", "c16", "S16"], [1, 16], BACKENDS)

    def track_share_of_copy(self, *parameters: Any) -> float:
        took = seconds_of(lambda: self.work(*parameters))
        return 2 * parameters[0] * self.x.dtype.itemsize / took / copy_bandwidth(parameters[-1])

    track_share_of_copy.unit = "share of copy bandwidth"  # type: ignore[attr-defined]


class Sizes(_Sorting):
    params = ([10_000, 1_000_000, 32_000_000], ["i4", "i8"], [1, 16], BACKENDS)


class Distributions(_WithMemory):
    params = ([N], ["i8", "f8"], list(DISTRIBUTIONS), BACKENDS)
    param_names = ("n", "dtype", "distribution", "backend")


def _call(function: Callable[..., Any], **options: Any) -> Callable[[da.Array], Callable[[], Any]]:
    """A call of a function with the keys."""
    return lambda x: partial(function, x, **options)


def _of_rows(function: Callable[..., Any], parts: int = 1, **options: Any) -> Callable[[da.Array], Callable[[], Any]]:
    """A call of a function with rows of 64 keys, each in some chunks."""
    return lambda x: partial(function, held(x.reshape(-1, 64).rechunk({1: 64 // parts})), **options)


#: Makes each call from the keys; what it computes of them is not timed.
CALLS: dict[str, Callable[[da.Array], Callable[[], Any]]] = {
    "sort, descending": _call(dask_gpusort.sort, descending=True),
    "sort, stable": _call(dask_gpusort.sort, stable=True),
    "sort by merges": _call(dask_gpusort.sort, method="merge"),
    "sort of rows": _of_rows(dask_gpusort.sort),
    "sort of rows in four chunks": _of_rows(dask_gpusort.sort, 4),
    "sort of columns": _of_rows(dask_gpusort.sort, axis=0),
    "argsort": _call(dask_gpusort.argsort),
    "sort_by_key": lambda x: partial(dask_gpusort.sort_by_key, x, held(x.astype("f4"))),
    "sort_by_key, four columns": lambda x: partial(
        dask_gpusort.sort_by_key, x, held(da.stack(4 * [x], axis=1).rechunk({1: 4}))
    ),
    "lexsort": lambda x: partial(dask_gpusort.lexsort, (x, x % 16)),
    "rank": _call(dask_gpusort.rank),
    "rank, ordinal": _call(dask_gpusort.rank, method="ordinal"),
    "unique": _call(dask_gpusort.unique),
    "unique, inverse": _call(dask_gpusort.unique, return_inverse=True),
    "searchsorted": lambda x: partial(dask_gpusort.searchsorted, held(dask_gpusort.sort(x)), x),
    "take_along_axis": lambda x: partial(dask_gpusort.take_along_axis, x, held(dask_gpusort.argsort(x))),
    "median": _call(dask_gpusort.median),
    "five quantiles": _call(dask_gpusort.quantile, q=(0.05, 0.25, 0.5, 0.75, 0.95)),
    "medians of rows": _of_rows(dask_gpusort.median, axis=1),
    "medians of columns": _of_rows(dask_gpusort.median, axis=0),
}


class Calls(_WithMemory):
    """Each public function."""

    params = ([FEWER], list(CALLS), ["uniform", "zipf"], [1, 16], BACKENDS)
    param_names = ("n", "call", "distribution", "chunks", "backend")
    given = {**_Sorting.given, "dtype": "f8"}  # noqa: RUF012

    def setup(self, n: int, call: str, *parameters: Any) -> None:
        super().setup(n, call, *parameters)
        made = CALLS[call](self.x)
        self.function = lambda _: made()


class Exchange(_Sorting):
    """The exchange of keys between many small chunks."""

    params = ([64 * CHUNK_KEYS, 512 * CHUNK_KEYS], ["gather", "tasks", "device"], ["uniform", "equal"], BACKENDS)
    param_names = ("n", "exchange", "distribution", "backend")
    small = 8 * CHUNK_KEYS

    def setup(self, n: int, exchange: str, *parameters: Any) -> None:
        self.given = {**self.given, "chunks": n // CHUNK_KEYS}
        super().setup(n, exchange, *parameters)
        self.function = partial(dask_gpusort.sort, exchange=exchange)


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

    def time_call(self, chunks: int, exchange: str) -> None:
        dask_gpusort.sort(self.x, exchange=exchange)

    def time_graph(self, chunks: int, exchange: str) -> None:
        self.track_tasks(chunks, exchange)

    def track_tasks(self, chunks: int, exchange: str) -> int:
        return len(dict(dask_gpusort.sort(self.x, exchange=exchange).__dask_graph__())) - chunks

    track_tasks.unit = "tasks"  # type: ignore[attr-defined]
