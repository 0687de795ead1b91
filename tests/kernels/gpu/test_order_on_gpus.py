"""What a sorted order gives, on several GPUs of one host by every exchange; the results equal NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import numpy as np
import pytest
from support.dask_gpu import sample
from support.gpu_clusters import client_of, fetched, on_gpus, protocols

import dask_gpusort

cupy = pytest.importorskip("cupy")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.multi_gpu
SIZE, CHUNK = 200_003, 17_001


@pytest.fixture(scope="module", params=protocols())
def gpus(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of a cluster of all GPUs."""
    with client_of(None, request.param) as client:
        dask_gpusort.warm_up(client, dtypes=["f4", "i8"])
        yield client


@pytest.fixture(params=["auto", "gang", "tasks"])
def exchange(client: Any, request: pytest.FixtureRequest) -> str:
    """An exchange of the sorts, and of reads and writes at positions, which have no gang."""
    return request.param


def check(found: Any, wanted: Any) -> None:
    found, wanted = (one if isinstance(one, tuple) else (one,) for one in (found, wanted))
    assert all(isinstance(array._meta, cupy.ndarray) for array in found)
    for got, expected in zip(fetched(*found), wanted, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["i8", "f4", "c8"])
def test_unique(exchange: str, dtype: str) -> None:
    host = sample(dtype, SIZE)
    x = on_gpus(host, CHUNK)
    with dask.config.set({"gpusort.exchange": exchange}):
        check(dask_gpusort.unique(x, True, True, True), np.unique(host, True, True, True))
        check(dask_gpusort.nunique(x), np.array(len(np.unique(host))))


@pytest.mark.parametrize("method", ["average", "dense", "ordinal"])
def test_rank(exchange: str, method: str) -> None:
    host = sample("f4", SIZE)
    options = {"method": method, "nan_policy": "omit", "pct": True}
    with dask.config.set(scheduler="synchronous"):
        wanted = dask_gpusort.rank(dask.array.from_array(host, chunks=-1), **options).compute()
    with dask.config.set({"gpusort.exchange": exchange}):
        check(dask_gpusort.rank(on_gpus(host, CHUNK), **options), wanted)


def test_sets(exchange: str) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 90_000, SIZE), rng.integers(40_000, 120_000, SIZE // 2)
    x, y = on_gpus(first, CHUNK), on_gpus(second, CHUNK)
    with dask.config.set({"gpusort.exchange": exchange}):
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
            check(getattr(dask_gpusort, name)(x, y), getattr(np, name)(first, second))


@pytest.mark.parametrize("groups", [None, 5])
def test_searches(exchange: str, groups: int | None) -> None:
    keys, needles = np.sort(sample("f4", SIZE)), sample("f4", SIZE // 2, seed=1)
    x, v = on_gpus(keys, CHUNK), on_gpus(needles, CHUNK)
    with dask.config.set({"gpusort.exchange": exchange, "gpusort.groups": groups}):
        for side in ("left", "right"):
            check(dask_gpusort.searchsorted(x, v, side), np.searchsorted(keys, needles, side))
        check(dask_gpusort.isin(v, x), np.isin(needles, keys))


def test_positions(exchange: str) -> None:
    if exchange == "gang":
        exchange = "join"
    rng = np.random.default_rng(0)
    host, order = sample("i8", SIZE), rng.permutation(SIZE)
    x, at = on_gpus(host, CHUNK), on_gpus(order, 2 * CHUNK)
    with dask.config.set({"gpusort.exchange": exchange}):
        check(dask_gpusort.take(x, at), host[order])
        check(dask_gpusort.take_along_axis(x, at), host[order])
        written = host.copy()
        written[order] = host
        check(dask_gpusort.put_along_axis(x, at, on_gpus(host, 2 * CHUNK), 0), written)
