"""Reads and writes at positions of CuPy chunks, by every strategy: the results equal NumPy's, and are CuPy arrays."""

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from support import positions as ours_at
from support import strategies as ours
from support.dask_gpu import check, on_device

import dask_gpusort
from dask_gpusort.chunk import numpy_ops

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

EXCHANGES = ["auto", "gather", "tasks"]


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("dtype", ["f2", "f8", "i1", "i8", "c8"])
@pytest.mark.parametrize("spread", ["random", "equal", "few"])
def test_one_dimension(dtype, spread, exchange):
    array, values = ours.make(dtype, 20_000, "small"), ours.make(dtype, 50_000, "small", 1)
    indices = ours_at.indices_below(20_000, (50_000,), "i8", 0, spread)
    x, at, some = on_device(array, 3000), on_device(indices, 7000), on_device(values, 9000)
    check(ours_at.built(dask_gpusort.take_along_axis, exchange, 4, x, at, 0), array[indices])
    check(ours_at.built(dask_gpusort.take, exchange, 4, x, at), array[indices])
    wanted = array.copy()
    wanted[indices] = values
    check(ours_at.built(dask_gpusort.put_along_axis, exchange, 4, x, at, some, 0), wanted)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_indices_out_of_range_raise(exchange):
    x, at = on_device(np.arange(10), 3), on_device(np.array([0, 10]), 1)
    for function in (dask_gpusort.take, lambda a, b: dask_gpusort.take_along_axis(a, b, 0)):
        with pytest.raises(IndexError, match="index 10 is out of bounds for axis 0 with size 10"):
            ours_at.built(function, exchange, 2, x, at).compute()


def test_indices_in_memory():
    x = on_device(np.arange(200), 30)
    check(dask_gpusort.take(x, [3, -1]), np.array([3, 199]))
    check(dask_gpusort.take(x, np.arange(200)[::-1]), np.arange(200)[::-1])


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_shuffles_are_those_of_the_host(exchange, monkeypatch):
    rows, one = np.arange(60_000.0).reshape(-1, 3), np.arange(20_000)
    order = dask_gpusort.permutation(len(one), seed=7).compute()
    assert sorted(order) == one.tolist()
    shuffle = partial(dask_gpusort.shuffle, seed=7)
    mixed = ours_at.built(shuffle, exchange, 4, on_device(rows, (3000, 2)), da.from_array(one, 7000))
    on_gpu, on_host = dask.compute(*mixed)
    np.testing.assert_array_equal(on_gpu.get(), rows[order])
    np.testing.assert_array_equal(on_host, one[order])
    assert isinstance(on_host, np.ndarray)
    monkeypatch.setattr(numpy_ops, "random_keys", None)  # the device makes those of CuPy chunks
    found = ours_at.built(shuffle, exchange, 4, on_device(rows, (3000, 2)), on_device(one, 7000))
    check(found, (rows[order], one[order]))
