"""Order statistics of lanes of CuPy chunks: the results equal those of NumPy chunks, and are CuPy chunks."""

import dask
import dask.array as da
import numpy as np
import pytest

from dask_gpusort.builders.statistics import reduce_blocks
from dask_gpusort.table import METHODS, Statistic

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.mark.filterwarnings("ignore:.*slice:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8"])
@pytest.mark.parametrize("axes", [(0,), (1, 2)])
@pytest.mark.parametrize("skip_nan", [False, True])
def test_same_results_as_numpy_chunks(dtype, axes, skip_nan):
    rng = np.random.default_rng(0)
    host = rng.integers(-100, 100, (40, 30, 20)).astype(dtype)
    if dtype.startswith("f"):
        host[rng.random(host.shape) < 0.1] = np.nan
    quantiles = [Statistic.quantiles(q, "linear", skip_nan=skip_nan) for q in (0.3, 1, np.float32(0.7), [[0.2], [0.9]])]
    methods = [Statistic.quantiles([0, 0.37, 0.5, 1], method, skip_nan=skip_nan) for method in METHODS]
    for statistic in (Statistic.median(skip_nan=skip_nan), *quantiles, *methods):
        ours = reduce_blocks(
            da.from_array(cupy.asarray(host), chunks=(20, 30, 7), asarray=False), statistic, axes, True
        )
        theirs = reduce_blocks(da.from_array(host, chunks=(20, 30, 7)), statistic, axes, True)
        assert isinstance(ours._meta, cupy.ndarray)
        with dask.config.set(scheduler="sync"):
            found, expected = ours.compute(), theirs.compute()
        assert isinstance(found, cupy.ndarray)
        assert found.dtype == expected.dtype == ours.dtype
        np.testing.assert_array_equal(cupy.asnumpy(found), expected)


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
def test_empty_chunks():
    for shape, axis in (((0, 3), 0), ((3, 0), 0), ((0, 3), 1)):
        x = da.from_array(cupy.zeros(shape, "f4"), chunks=-1, asarray=False)
        found = reduce_blocks(x, Statistic.median(), (axis,), False).compute(scheduler="sync")
        np.testing.assert_array_equal(cupy.asnumpy(found), np.full(shape[1 - axis], np.nan))
