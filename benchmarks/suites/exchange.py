"""The exchange of keys between chunks: many chunks, few keys in each."""

from __future__ import annotations

import dask
from distributed import Client, LocalCluster, wait

import dask_gpusort

from .data import dask_keys

CHUNK_KEYS = 20_000


class Threads:
    params = ([64, 512], ["gather", "tasks"], ["uniform", "equal"])
    param_names = ("chunks", "exchange", "distribution")
    small = 8

    def setup(self, chunks: int, exchange: str, distribution: str) -> None:
        self.x = dask_keys(distribution, chunks * CHUNK_KEYS, chunks).persist(scheduler="threads")

    def time_sort(self, chunks: int, exchange: str, distribution: str) -> None:
        dask_gpusort.sort(self.x, exchange=exchange).compute(scheduler="threads")


class Cluster:
    params = ([64, 256], ["p2p", "tasks"])
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

    def time_sort(self, chunks: int, exchange: str) -> None:
        # Left on the workers: bringing the keys here is no part of the exchange.
        wait(dask.persist(dask_gpusort.sort(self.x, exchange=exchange)))
