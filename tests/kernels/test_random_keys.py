"""Random keys on the host and on a GPU, against NumPy's own generator."""

from __future__ import annotations

import numpy as np
import pytest

from dask_gpusort import kernels

#: The last ones end within a block of threads, with one, and behind it.
COUNTS = [0, 1, 3, 4, 5, 1021, 1024, 1025]


@pytest.mark.parametrize("start", [0, 1, 2, 3, 4, 4095, (1 << 33) + 2, (1 << 63) - 1])
def test_outputs_of_philox(device, start):
    for count in COUNTS:
        seed = (start << 70) + count
        generator = np.random.Philox(np.random.SeedSequence(seed)).advance(start // 4)
        found = kernels.random_keys(start, count, seed)
        assert found.dtype == np.uint64
        np.testing.assert_array_equal(found.get(), generator.random_raw(start % 4 + count)[start % 4 :])
