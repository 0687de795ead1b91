"""Sorts on a cluster whose client, scheduler and workers talk over TLS."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.marks import slow_but_first
from support.sorting import groups

import dask_gpusort

distributed = pytest.importorskip("distributed")
pytest.importorskip("cryptography")

ARRAY = ours.make("f8", 20_000, "zipf")


@pytest.fixture(scope="module")
def client():
    security = distributed.Security.temporary()
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(security=security, **options) as cluster,
        distributed.Client(cluster, security=security, set_as_default=False) as client,
    ):
        assert cluster.scheduler_address.startswith("tls://")
        yield client


@pytest.mark.parametrize("exchange", slow_but_first("auto", "runs", "tasks", "gather", "gang", "join", "device"))
def test_every_exchange_over_tls(client, exchange):
    with client.as_current(), dask.config.set(scheduler="distributed"), groups(4):
        x = da.from_array(ARRAY, chunks=1000)
        found = dask_gpusort.sort(x, exchange=exchange, stable=True), dask_gpusort.argsort(x, exchange=exchange)
        got, positions = dask.compute(*found)
    oracle.assert_same_bits(got, oracle.sort(ARRAY))
    np.testing.assert_array_equal(positions, oracle.argsort(ARRAY))


def test_reads_at_positions_over_tls(client):
    at = np.random.default_rng(0).permutation(len(ARRAY))
    with client.as_current(), dask.config.set({"scheduler": "distributed", "gpusort.exchange": "runs"}), groups(4):
        found = dask_gpusort.take(da.from_array(ARRAY, chunks=1000), da.from_array(at, chunks=1000), axis=0)
        oracle.assert_same_bits(found.compute(), ARRAY[at])
