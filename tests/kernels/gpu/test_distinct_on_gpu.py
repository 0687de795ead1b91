"""Distinct values, sets and ranks of CuPy chunks: the results equal NumPy's, and are CuPy arrays."""

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.dask_gpu import check, on_device

import dask_gpusort

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

DTYPES = ["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16"]
DISTRIBUTIONS = ["bits", "few", "special", "zipf", "constant"]


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(dtype, distribution, scheduler):
    host = ours.make(dtype, 20_000, distribution)
    x = on_device(host, 3_000)
    with dask.config.set(scheduler=scheduler):
        check(dask_gpusort.unique(x, True, True, True), np.unique(host, True, True, True))
        check(dask_gpusort.unique(x), np.unique(host))


@pytest.mark.parametrize("values", [1, 1_000, 2_048, 2_049])
@pytest.mark.parametrize("dtype", ["i2", "u4", "i8", "f8"])
def test_unique_of_few_values(dtype, values):
    rng = np.random.default_rng(values)
    host = np.where(rng.random(3 << 20) < 0.3, 7, rng.integers(0, values, 3 << 20)).astype(dtype).reshape(3, -1)
    for chunks in (host.shape, (1, 1 << 19)):
        x = on_device(host, chunks)
        check(dask_gpusort.unique(x, False, True, True), np.unique(host, False, True, True))
        assert int(dask_gpusort.nunique(x).compute()) == len(np.unique(host))


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("nan_policy", ["omit", "propagate"])
@pytest.mark.parametrize("descending", [False, True])
def test_ranks_equal_those_of_numpy_chunks(method, nan_policy, descending):
    host = ours.make("f4", 24_000, "small")
    host[::1000] = np.nan
    for shape, chunks, axis in [((24_000,), 5_000, None), ((120, 200), (50, 80), 0), ((120, 200), (50, 80), 1)]:
        array = host.reshape(shape)
        options = {"method": method, "nan_policy": nan_policy, "pct": True, "descending": descending}
        expected = dask_gpusort.rank(da.from_array(array, chunks=chunks), axis, **options).compute()
        check(dask_gpusort.rank(on_device(array, chunks), axis, **options), expected)


def test_records_are_refused():
    x = on_device(np.zeros((4, 2)), 2)
    with pytest.raises(TypeError, match="use axis=None"):
        dask_gpusort.unique(x, axis=0)
