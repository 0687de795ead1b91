"""Sorts of Dask arrays with CuPy chunks: the results equal those of NumPy chunks, and are CuPy chunks."""

import dask
import dask.array as da
import numpy as np
import pytest
from support.dask_gpu import on_device, sample

import dask_gpusort
from dask_gpusort import gpu_cluster
from dask_gpusort.kernels.launch import loader

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


def bits(array):
    return np.ascontiguousarray(array).tobytes()


@pytest.fixture(autouse=True, scope="module")
def several_groups():
    with dask.config.set({"gpusort.groups": 5, "scheduler": "sync"}):
        yield


def test_many_zeros_of_both_signs():
    host = np.zeros(3_000_000, "f4")
    host[::2] = -0.0
    result = dask_gpusort.sort(on_device(host, 1_000_000), stable=True).compute()
    assert bits(cupy.asnumpy(result)) == bits(host)


def test_keys_and_values_of_different_libraries():
    with pytest.raises(TypeError, match=r"cupy\.asarray"):
        dask_gpusort.sort_by_key(on_device(np.arange(4), 2), da.arange(4, chunks=2))


@pytest.mark.parametrize("dtypes", [("i4", "f4"), ("f8", "i8", "f4"), ("c16", "?"), ("u1", "i2", "u1")], ids=str)
def test_lexsort(dtypes):
    hosts = [sample(dtype, 30_000, seed) for seed, dtype in enumerate(dtypes)]
    for descending in (False, [seed % 2 == 0 for seed in range(len(dtypes))]):
        found = dask_gpusort.lexsort([on_device(host, 4_001) for host in hosts], descending=descending).compute()
        expected = dask_gpusort.lexsort([da.from_array(host, chunks=7_000) for host in hosts], descending=descending)
        np.testing.assert_array_equal(cupy.asnumpy(found), expected.compute())


def test_less():
    host = sample("i8", 30_000) % 1000
    device = on_device(host, 4_001)
    wanted = np.argsort(host % 10, kind="stable")
    keys = dask_gpusort.sort(device, less="a % 10 < b % 10").compute()
    positions = dask_gpusort.argsort(device, less="a % 10 < b % 10").compute()
    assert isinstance(keys, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(keys), host[wanted])
    np.testing.assert_array_equal(cupy.asnumpy(positions), wanted)


@pytest.mark.parametrize("less", ["a <= b", "a != b"])
def test_less_that_is_no_order_is_reported(less):
    with pytest.raises(ValueError, match="no strict weak order"):
        dask_gpusort.sort(on_device(sample("i8", 30_000), 4_001), less=less).compute()


def test_less_that_does_not_compile():
    with pytest.raises(ValueError, match="does not compile"):
        dask_gpusort.sort(on_device(sample("i8", 3_000), 1_000), less="a <").compute()


@pytest.mark.parametrize("dtype", ["f4", "i8", "c16"])
def test_merge_sorted_and_is_sorted(dtype):
    hosts = [np.sort(sample(dtype, n, n)) for n in (20_000, 0, 7_001)]
    devices = [on_device(host, 3_001) for host in hosts]
    found = dask_gpusort.merge_sorted(*devices).compute()
    expected = dask_gpusort.merge_sorted(*(da.from_array(host, chunks=3_001) for host in hosts)).compute()
    assert bits(cupy.asnumpy(found)) == bits(expected)
    assert all(bool(dask_gpusort.is_sorted(device).compute()) for device in devices)
    shuffled = on_device(np.concatenate(hosts[::-1]), 3_001)
    assert not bool(dask_gpusort.is_sorted(shuffled).compute())
    with pytest.raises(ValueError, match="not sorted"):
        dask_gpusort.merge_sorted(shuffled).compute()


def test_after_warm_up_a_sort_compiles_nothing(monkeypatch):
    def refuse(wanted):
        raise AssertionError(f"{wanted} is compiled after the warm-up")

    chunks, rng = ((1 << 16,), (1 << 13, 1 << 13)), np.random.default_rng(0)
    monkeypatch.setattr(gpu_cluster, "WARM_CHUNKS", chunks)
    assert dask_gpusort.warm_up(dtypes=["u4", "f8"]) > 0
    monkeypatch.setattr(loader._kernels, "_compile", refuse)
    for dtype in ("u4", "f8"):
        for sizes in chunks:
            host = rng.permutation(sum(sizes)).astype(dtype)
            keys = on_device(host, (sizes,))
            np.testing.assert_array_equal(dask_gpusort.sort(keys).compute().get(), np.sort(host))
            np.testing.assert_array_equal(dask_gpusort.argsort(keys).compute().get(), np.argsort(host))
