"""The exchange of keys between many small chunks."""

from __future__ import annotations

from typing import Any

from distributed import Client, LocalCluster, wait

import dask_gpusort

from .base import _Sorting
from .data import BACKENDS, dask_keys, held

CHUNK_KEYS = 20_000


class Threads(_Sorting):
    params = ([64 * CHUNK_KEYS, 512 * CHUNK_KEYS], ["gather", "tasks", "device"], ["uniform", "equal"], BACKENDS)
    param_names = ("n", "exchange", "distribution", "backend")
    small = 8 * CHUNK_KEYS

    def setup(self, n: int, exchange: str, distribution: str, backend: str) -> None:
        self.x = held(dask_keys(distribution, n, n // CHUNK_KEYS, "i8", backend))

    def work(self, n: int, exchange: str, distribution: str, backend: str) -> None:
        held(dask_gpusort.sort(self.x, exchange=exchange))


class Cluster:
    """Two processes of one thread each, for NumPy chunks; `benchmarks.gpu.multi` measures clusters of GPUs."""

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
