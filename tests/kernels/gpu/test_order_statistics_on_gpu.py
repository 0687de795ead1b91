"""Order statistics of CuPy chunks by every strategy: the results equal NumPy's, and are CuPy arrays."""

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.dask_gpu import check, on_device

import dask_gpusort
from dask_gpusort.plan import select

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

Q = [0, 0.01, 0.25, 0.5, 0.999, 1]
#: Groups of some labels, of which one is missing.
OF_LABELS = {"groups": [7, -2, 200]}
#: So many that joined lanes are sorted.
MANY = np.linspace(0, 1, 40).tolist()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
@pytest.mark.parametrize("distribution", ["bits", "few", "special", "zipf", "sorted"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8"])
def test_by_samples(dtype, distribution, scheduler):
    host = ours.make(dtype, 200_000, distribution)
    x = on_device(host, 30_000)
    with np.errstate(all="ignore"), dask.config.set(scheduler=scheduler):
        check(dask_gpusort.nanquantile(x, Q, strategy="samples"), np.nanquantile(host, Q))
        check(dask_gpusort.quantile(x, Q, strategy="samples"), np.quantile(host, Q))
        check(dask_gpusort.nanmedian(x, strategy="samples"), np.asarray(np.nanmedian(host)))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("chunks", [3_000_000, 700_001])
@pytest.mark.parametrize("distribution", ["bits", "few", "special", "zipf", "sorted"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8"])
def test_joined(dtype, distribution, chunks):
    host = ours.make(dtype, 3_000_000, distribution)
    x = on_device(host, chunks).persist(scheduler="threads")
    assert "join: one task" in dask_gpusort.explain_quantile(x, Q).detail
    with np.errstate(all="ignore"):
        for q in (Q, MANY):
            check(dask_gpusort.nanquantile(x, q), np.nanquantile(host, q))
            check(dask_gpusort.quantile(x, q), np.quantile(host, q))
        check(dask_gpusort.median(x), np.asarray(np.median(host)))


def test_lanes_of_a_matrix():
    host = np.random.default_rng(0).random((3, 100_000)).astype("f4")
    host[1, 5] = np.nan
    x = on_device(host, (2, 30_000))
    for strategy in ("samples", "rechunk", "join"):
        check(dask_gpusort.median(x, 1, keepdims=True, strategy=strategy), np.median(host, 1, keepdims=True))
        check(dask_gpusort.nanquantile(x, Q, 1, strategy=strategy), np.nanquantile(host, Q, 1))


def test_many_quantiles():
    host = np.random.default_rng(0).random(300_000)
    many = np.linspace(0, 1, 2001)
    x = on_device(host, 50_000)
    check(dask_gpusort.quantile(x, many, strategy="samples"), np.quantile(host, many))


def test_further_rounds(monkeypatch):
    monkeypatch.setattr(select, "FETCHED_BYTES", 0)
    host = ours.make("i8", 300_000, "bits")
    x = on_device(host, 50_000)
    check(dask_gpusort.quantile(x, Q, strategy="samples"), np.quantile(host, Q))


@pytest.mark.parametrize("mode", ["largest", "smallest"])
@pytest.mark.parametrize("dtype", ["u1", "u4", "i8", "f4", "f8"])
def test_top_k_of_long_rows(dtype, mode):
    host = np.random.default_rng(0).standard_normal(3 << 20) * 1e6
    host = host.astype(np.int64).astype(dtype)
    if host.dtype.kind == "f":
        host[::7] = np.nan
    for k in (1, 1000, 100_000):
        found = dask_gpusort.top_k(da.from_array(cupy.asarray(host), chunks=(1 << 20) + 5, asarray=False), k, mode=mode)
        order = oracle.argsort(host, descending=mode == "largest")[:k]
        np.testing.assert_array_equal(found.indices.compute().get(), order)
        np.testing.assert_array_equal(found.values.compute().get(), host[order])


@pytest.mark.filterwarnings("ignore:All-NaN slice:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8", "c16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_groups(dtype, axis):
    """As of NumPy chunks."""
    host = ours.make(dtype, 2400, "few").reshape(800, 3)
    if host.dtype.kind == "f":
        host[np.random.default_rng(0).random(host.shape) < 0.1] = np.nan
    host = host if axis == 0 else host.T.copy()
    names = np.random.default_rng(1).integers(-3, 99, 800)
    calls = [
        *(lambda x, by, k=k: dask_gpusort.topk(x, k, axis, by=by, groups=[7, -2, 200]) for k in (3, -30)),
        lambda x, by: dask_gpusort.argtopk(x, 3, axis, by=by),
        lambda x, by: dask_gpusort.nunique(x, axis, by=by, window=3),
        lambda x, by: dask_gpusort.nunique(x, axis),
        lambda x, by: dask_gpusort.mode(x, axis, by=by),
        lambda x, by: dask_gpusort.mode(x, axis, nan_policy="omit"),
        lambda x, by: dask_gpusort.mode(x, None),
        lambda x, by: dask_gpusort.rank(x, axis, by=by, nan_policy="omit"),
    ]
    if dtype != "c16":
        ways = [{"strategy": strategy, "window": window} for strategy in ("rechunk", "sort") for window in (1, 5)]
        functions = dask_gpusort.quantile, dask_gpusort.nanquantile
        calls += [
            lambda x, by, of=of, how=how: of(x, Q, axis, by=by, **how) for of in functions for how in (*ways, OF_LABELS)
        ]
    chunks = (300, 2) if axis == 0 else (2, 300)
    for call in calls:
        for by in (names, da.from_array(names, chunks=300), on_device(names, 211)):
            results = [
                dask.compute(*(found if isinstance(found, tuple) else (found,)))
                for found in (call(on_device(host, chunks), by), call(da.from_array(host, chunks=chunks), by))
            ]
            for got, wanted in zip(*results, strict=True):
                assert isinstance(got, cupy.ndarray)
                assert got.dtype == wanted.dtype
                np.testing.assert_array_equal(got.get(), wanted)
