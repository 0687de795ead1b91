"""The suites that asv measures at each commit. Names that start with an underscore are not benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array as da
from distributed import Client, LocalCluster, wait

import dask_gpusort

from .data import BACKENDS, DISTRIBUTIONS, copy_bandwidth, dask_keys, held, module_of, seconds, seconds_of

N, FEWER = 4_000_000, 2_000_000
CHUNK_KEYS = 20_000


class _Sorting:
    """A benchmark of `work`. Its first parameter is the number of keys, and its last one is the backend."""

    timer = staticmethod(seconds)
    param_names: tuple[str, ...] = ("n", "dtype", "chunks", "backend")
    #: Keys, unless they are parameters.
    given: dict[str, Any] = {"distribution": "uniform", "dtype": "i8", "chunks": 16}  # noqa: RUF012
    #: The function that `work` calls with the keys, and with the parameters that are its options.
    function: Callable[..., Any] = staticmethod(dask_gpusort.sort)
    options: tuple[str, ...] = ()
    #: The computed input. Its dtype is that of the keys.
    x: Any

    def setup(self, *parameters: Any) -> None:
        found = {**self.given, **dict(zip(self.param_names, parameters, strict=True))}
        self.x = held(dask_keys(**{name: found[name] for name in dask_keys.__annotations__ if name in found}))
        self.chosen = {name: found[name] for name in self.options}

    def work(self, *_: Any) -> None:
        found = self.function(self.x, **self.chosen)
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


class Options(_Sorting):
    params = ([N], [False, True], [False, True], ["radix", "merge"], BACKENDS)
    param_names = ("n", "descending", "stable", "method", "backend")
    options = ("descending", "stable", "method")


class Argsort(_WithMemory):
    params = ([FEWER], ["i4", "i8", "f8"], ["uniform", "zipf", "sorted"], [1, 16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "chunks", "backend")
    function = staticmethod(dask_gpusort.argsort)


class Companions(_Sorting):
    params = ([FEWER], ["i4", "i8"], [0, 4], BACKENDS)
    param_names = ("n", "dtype", "columns", "backend")

    def setup(self, n: int, dtype: str, columns: int, backend: str) -> None:
        super().setup(n, dtype, columns, backend)
        shape = (self.x.size, columns) if columns else self.x.shape
        like = module_of(backend).empty(0, "f4")
        values = held(da.ones_like(like, shape=shape, chunks=(self.x.chunks[0], *shape[1:])))
        self.function = lambda x: dask_gpusort.sort_by_key(x, values)


class Several(_Sorting):
    params = ([FEWER], ["i4", "i8"], [16], BACKENDS)
    function = staticmethod(lambda x: dask_gpusort.lexsort((x, x % 16)))


class Rank(_WithMemory):
    params = ([FEWER], ["i4", "f8"], ["uniform", "zipf"], ["average", "ordinal"], [1, 16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "method", "chunks", "backend")
    function = staticmethod(dask_gpusort.rank)
    options = ("method",)


class Unique(_WithMemory):
    params = ([FEWER], ["i4", "f8"], ["uniform", "zipf"], [False, True], [1, 16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "return_inverse", "chunks", "backend")
    function = staticmethod(dask_gpusort.unique)
    options = ("return_inverse",)


class Searchsorted(_Sorting):
    """As many needles as keys, in all keys at once, or group by group."""

    params = ([FEWER], ["i8", "f8"], [None, 4], BACKENDS)
    param_names = ("n", "dtype", "groups", "backend")

    def setup(self, n: int, dtype: str, groups: int | None, backend: str) -> None:
        super().setup(n, dtype, groups, backend)
        self.function = partial(dask_gpusort.searchsorted, held(dask_gpusort.sort(self.x)))

    def work(self, n: int, dtype: str, groups: int | None, *_: Any) -> None:
        with dask.config.set({"gpusort.groups": groups}):
            super().work()


class TakeAlongAxis(_Sorting):
    """A permutation: all chunks joined, or exchanged."""

    params = ([FEWER], ["gather", "tasks"], BACKENDS)
    param_names = ("n", "exchange", "backend")

    def setup(self, *parameters: Any) -> None:
        super().setup(*parameters)
        self.function = partial(dask_gpusort.take_along_axis, indices=held(dask_gpusort.argsort(self.x)))

    def work(self, n: int, exchange: str, *_: Any) -> None:
        with dask.config.set({"gpusort.exchange": exchange}):
            super().work()


class Quantile(_WithMemory):
    """Quantiles of one long lane."""

    params = ([FEWER], ["i4", "f8"], ["uniform", "mostly equal"], [(0.5,), (0.05, 0.25, 0.5, 0.75, 0.95)], BACKENDS)
    param_names = ("n", "dtype", "distribution", "q", "backend")
    function = staticmethod(dask_gpusort.quantile)
    options = ("q",)


class Median(_Sorting):
    """Medians of many lanes, whole in a chunk or in several ones."""

    params = ([FEWER], ["f4", "f8"], [0, 1], BACKENDS)
    param_names = ("n", "dtype", "axis", "backend")
    function = staticmethod(dask_gpusort.median)
    options = ("axis",)

    def setup(self, *parameters: Any) -> None:
        super().setup(*parameters)
        self.x = held(self.x.reshape(-1, 64))


class Rows(_Sorting):
    """Sorts along one axis of two-dimensional arrays: elements of a row, and number of chunks that a row spans."""

    params = ([1 << 22], ["f4", "i8"], [(1 << 6, 1), (1 << 10, 1), (1 << 10, 4)], [-1, 0], BACKENDS)
    param_names = ("n", "dtype", "row", "axis", "backend")
    options = ("axis",)
    small = 1 << 14

    def setup(self, n: int, dtype: str, row: tuple[int, int], axis: int, backend: str) -> None:
        super().setup(n, dtype, row, axis, backend)
        x, (length, parts) = self.x.reshape(n // row[0], row[0]), row
        x = x.rechunk((-(-n // length * parts // 16), length // parts))
        self.x = held(x if axis == -1 else x.T)


class Exchange(_Sorting):
    """The exchange of keys between many small chunks."""

    params = ([64 * CHUNK_KEYS, 512 * CHUNK_KEYS], ["gather", "tasks", "device"], ["uniform", "equal"], BACKENDS)
    param_names = ("n", "exchange", "distribution", "backend")
    options = ("exchange",)
    small = 8 * CHUNK_KEYS

    def setup(self, n: int, *parameters: Any) -> None:
        self.given = {**self.given, "chunks": n // CHUNK_KEYS}
        super().setup(n, *parameters)


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
