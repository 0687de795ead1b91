"""Counts and numbers of the values of keys that have few, on the host and on a GPU, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_data import make_keys
from support.host_cuda.launches import record_few

from dask_gpusort import kernels
from dask_gpusort import keys as codes_of
from dask_gpusort.kernels import few_values as few

DTYPES = ["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8", "M8[s]"]


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""
    record_few(recorder, DTYPES)


def check(device, keys, dtype="u4"):
    """The codes, how often each occurs, and the number of each key's code."""
    found = kernels.count_few(device.array(keys))
    codes, numbers, counts = np.unique(codes_of.encode(keys), return_inverse=True, return_counts=True)
    assert (found.codes.dtype, found.counts.dtype) == (codes.dtype, np.int64)
    np.testing.assert_array_equal(found.codes, codes)
    np.testing.assert_array_equal(found.counts, counts)
    got = found.numbers(dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.get(), numbers)
    device.check()


@pytest.mark.parametrize("distribution", ["few", "equal", "special"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(device, dtype, distribution):
    for n in (1, 31, 1000, 9_001):
        keys = make_keys("i8" if dtype == "M8[s]" else dtype, n, distribution).view(dtype)
        check(device, keys, "i8" if n == 1000 else "u4")


@pytest.mark.parametrize("skip", [1, 3])
def test_unaligned_keys(device, skip):
    for dtype in ("u1", "f4"):
        keys = make_keys(dtype, 5_000, "few")
        found = kernels.count_few(device.array(keys)[skip:])
        np.testing.assert_array_equal(found.counts, np.unique(keys[skip:], return_counts=True)[1])


@pytest.mark.parametrize("stride", [1, 10_946, 1 << 40], ids=["dense", "fibonacci", "high"])
def test_as_many_values_as_a_table_takes(device, stride):
    """The greatest code has a slot of its own; one value more is too many."""
    for values in (few.MOST_FEW - 1, few.MOST_FEW):
        keys = np.random.default_rng(values).permutation(np.arange(3 * values) % values) * stride
        check(device, keys)
        check(device, np.append(keys, np.iinfo("i8").max))
        assert kernels.count_few(device.array(np.append(keys, [-1, -2]))) is None


@pytest.mark.parametrize("dtype", ["i2", "u4", "i8"])
@pytest.mark.parametrize("values", [5, few.MOST_FEW])
def test_values_that_samples_miss(device, monkeypatch, dtype, values):
    """Most keys have one value, which alone is sampled."""
    monkeypatch.setattr(few, "SAMPLES", 3)
    rng = np.random.default_rng(values)
    keys = np.where(rng.random(20_000) < 0.8, 7, rng.integers(0, values, 20_000)).astype(dtype)
    check(device, keys)
    assert kernels.count_few(device.array(np.append(keys, rng.permutation(2_100)).astype(dtype))) is None


@pytest.mark.parametrize("dtype", ["u4", "f8"])
@pytest.mark.parametrize("distribution", ["random", "sorted"])
def test_many_values(device, monkeypatch, dtype, distribution):
    """Of the sample, and of the keys behind a sample of few."""
    keys = device.array(make_keys(dtype, 30_000, distribution))
    for samples in (few.SAMPLES, 100):
        monkeypatch.setattr(few, "SAMPLES", samples)
        assert kernels.count_few(keys) is None
    device.check()


def test_values_that_share_a_home(device):
    """Values that find no slot, though there are few, are not lost."""
    words = np.arange(1, 400_000, dtype="u4")
    hashed = words ^ words >> np.uint32(16)
    hashed *= np.uint32(0x85EBCA6B)
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(0xC2B2AE35)
    keys = ~words[(hashed ^ hashed >> np.uint32(16)) % few.SLOTS == 0]
    check(device, np.repeat(keys[:50], 20))
    assert len(keys) > 80
    assert kernels.count_few(device.array(np.repeat(keys, 20))) is None
