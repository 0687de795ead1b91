"""Sorts take their memory from CuPy's current allocator, here an RMM pool, and stay within their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.gpu_data import make_keys

from dask_gpusort import kernels

pytestmark = pytest.mark.gpu

KEYS = 1 << 24
POOL_BYTES = 2 << 30


@pytest.fixture
def pool(cp: Any) -> Iterator[Any]:
    """An RMM resource that counts allocations, while CuPy allocates from its pool."""
    rmm = pytest.importorskip("rmm")
    cupy_allocator = pytest.importorskip("rmm.allocators.cupy").rmm_cupy_allocator
    earlier = rmm.mr.get_current_device_resource()
    counted = rmm.mr.StatisticsResourceAdaptor(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=POOL_BYTES)
    )
    rmm.mr.set_current_device_resource(counted)
    try:
        with cp.cuda.using_allocator(cupy_allocator):
            yield counted
    finally:
        rmm.mr.set_current_device_resource(earlier)


@pytest.mark.parametrize("distribution", ["random", "low entropy", "few"])
@pytest.mark.parametrize("dtype", ["u4", "f4", "i8", "f8"])
def test_temporary_memory_of_key_sorts(cp: Any, pool: Any, dtype: str, distribution: str) -> None:
    host = make_keys(dtype, KEYS, distribution)
    keys = cp.asarray(host)
    out = cp.empty_like(keys)
    before = pool.allocation_counts
    kernels.sort_keys(keys, out=out)
    after = pool.allocation_counts
    assert after.total_bytes > before.total_bytes, "no memory came from the pool"
    assert after.peak_bytes - before.current_bytes <= 1.1 * keys.nbytes
    assert after.current_bytes == before.current_bytes, "memory was not freed"
    assert bool((kernels.encode(out) == cp.asarray(np.sort(kernels.encode(keys).get()))).all())


def test_positions_and_pairs_from_a_pool(cp: Any, pool: Any) -> None:
    host = make_keys("u4", KEYS, "few")
    keys, values = cp.asarray(host), cp.arange(KEYS, dtype=np.float64)
    wanted = np.argsort(host, kind="stable")
    before = pool.allocation_counts.current_bytes
    assert bool((kernels.argsort(keys) == cp.asarray(wanted)).all())
    keys_out, values_out = kernels.sort_pairs(keys, values)
    assert bool((values_out == cp.asarray(wanted)).all())
    del keys_out, values_out
    assert pool.allocation_counts.current_bytes == before, "memory was not freed"
