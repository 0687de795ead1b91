"""LSD sorts on the CPU, with random thread orders, against NumPy: one launch for each digit, or one in total."""

from __future__ import annotations

import numpy as np
import pytest
from support import host_cuda
from support.host_kernels import (
    LSD_TILE,
    POSITIONS,
    SORTED,
    bits_of_keys,
    use_small_blocks,
)

from dask_gpusort import kernels

pytestmark = pytest.mark.skipif(host_cuda.compiler() is None, reason="no g++: kernels cannot be built for the host")


def calls():
    """Kernel calls of the tests, so that their kernels are compiled together."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_blocks(patch)
        for dtype in ("u1", "i2", "i4", "u4", "f8"):
            yield lambda empty, dtype=dtype: kernels.sort_keys(empty(5003, dtype), algorithm="lsd")
        yield lambda empty: kernels.argsort(empty(5003, "u4"), algorithm="lsd")


#: Function, the NumPy function with the same result, dtype, shapes.
SORTS = {
    "keys": (*SORTED, "i4", [1, LSD_TILE - 1, LSD_TILE, LSD_TILE + 1, 5003]),
    "positions": (*POSITIONS, "u4", [1, LSD_TILE + 1, 5003]),
}


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "clustered"])
@pytest.mark.parametrize("case", SORTS)
def test_sizes_around_the_tile(device, monkeypatch, case, kind):
    function, twin, dtype, shapes = SORTS[case]
    use_small_blocks(monkeypatch)
    rng = np.random.default_rng(8)
    for shape in shapes:
        keys = bits_of_keys(rng, dtype, shape, kind)
        np.testing.assert_array_equal(getattr(kernels, function)(device.array(keys), algorithm="lsd"), twin(keys))


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "f8"])
@pytest.mark.parametrize("shared", range(3))
def test_lsd_in_place(device, monkeypatch, dtype, shared):
    use_small_blocks(monkeypatch)
    for n in (LSD_TILE + 3, 3 * LSD_TILE):
        keys = bits_of_keys(np.random.default_rng(n), dtype, n, "random")
        keys.view("u1").reshape(n, -1)[:, :shared] = 3
        array = device.array(keys)
        np.testing.assert_array_equal(kernels.sort_keys(array, out=array, algorithm="lsd"), np.sort(keys))
