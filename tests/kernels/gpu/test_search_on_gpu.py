"""Searches in CuPy chunks: the results equal NumPy's, and are CuPy arrays."""

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.dask_gpu import check, on_device

import dask_gpusort

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("groups", [None, 4])
@pytest.mark.parametrize("distribution", ["bits", "few", "special", "zipf"])
@pytest.mark.parametrize("dtype", ["?", "f2", "f4", "f8", "i1", "u2", "i8", "u8", "c8", "c16"])
def test_every_dtype(dtype, distribution, groups):
    keys = oracle.sort(ours.make(dtype, 50_000, distribution))
    needles = ours.make(dtype, 30_000, distribution, seed=1).reshape(100, 300)
    x, v = on_device(keys, 7_000), on_device(needles, (30, 200))
    with dask.config.set({"gpusort.groups": groups}):
        for side in ("left", "right"):
            check(dask_gpusort.searchsorted(x, v, side), np.searchsorted(keys, needles, side))
        for invert in (False, True):
            check(dask_gpusort.isin(v, x, invert=invert), np.isin(needles, keys, invert=invert))


def test_sorter():
    keys, needles = ours.make("f8", 5000, "few"), ours.make("f8", 300, "few", seed=1)
    x = on_device(keys, 900)
    check(
        dask_gpusort.searchsorted(x, on_device(needles, 100), "right", dask_gpusort.argsort(x)),
        np.searchsorted(keys, needles, "right", np.argsort(keys, kind="stable")),
    )


@pytest.mark.parametrize("groups", [None, 4])
@pytest.mark.parametrize("options", [{}, {"left": -1, "right": 2}, {"period": 0.3}])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_interpolation(dtype, options, groups):
    rng = np.random.default_rng(0)
    points, values = np.sort(rng.uniform(0, 1, 20_000)), rng.standard_normal(20_000).astype(dtype)
    needles = np.r_[rng.uniform(-0.5, 1.5, 29_990), [np.nan, np.inf, -np.inf], points[:7]].reshape(100, 300)
    with dask.config.set({"gpusort.groups": groups}):
        found = dask_gpusort.interp(*map(on_device, (needles, points, values), ((30, 200), 7000, 6000)), **options)
    assert isinstance(found._meta, cupy.ndarray)
    # CuPy may multiply and add in one step.
    np.testing.assert_allclose(
        cupy.asnumpy(found.compute()), np.interp(needles, points, values, **options), 1e-12, 1e-9
    )


def test_large_test_elements_are_sorted_first():
    rng = np.random.default_rng(0)
    elements, test = rng.integers(0, 1 << 40, 100_000), rng.integers(0, 1 << 40, 2_000_000)
    test[::4] = elements[rng.integers(0, 100_000, 500_000)]
    check(dask_gpusort.isin(on_device(elements, 30_000), on_device(test, 500_000)), np.isin(elements, test))


def test_numpy_and_cupy_chunks_do_not_mix():
    x = on_device(np.arange(9), 4)
    for call in (lambda: dask_gpusort.searchsorted(x, [1, 2]), lambda: dask_gpusort.isin(da.arange(4), x)):
        with pytest.raises(TypeError, match=r"map_blocks\(cupy.asarray\)"):
            call()
