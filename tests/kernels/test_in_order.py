"""Keys in order already, on the host, with random thread orders, and on a GPU: they are stored, not partitioned."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_checks import assert_bits, expected_codes, expected_positions, expected_sorted
from support.host_kernels import TWO_LEVELS, use_small_blocks

from dask_gpusort import kernels
from dask_gpusort.kernels.keys.transform import store_in_order
from dask_gpusort.kernels.msd import early_values, msd
from dask_gpusort.kernels.policy import tuning

LARGE = (1 << 22) + 3


def use_partitions(patch, is_small):
    """Partitions of keys of any width and number, and of their values."""
    if is_small:
        use_small_blocks(patch)
    patch.setattr(tuning, "PARTITIONED_KEYS", {})
    patch.setattr(tuning, "EARLY_VALUES_PAIRS", {4: 1, 8: 1})


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""
    with pytest.MonkeyPatch.context() as patch:
        use_partitions(patch, True)
        for dtype, descending in SORTS:
            keys, options = recorder.empty(TWO_LEVELS, dtype), {"descending": descending}
            for function in (kernels.sort_keys, kernels.sorted_codes, kernels.argsort, kernels.sort_with_positions):
                recorder.record(function, keys, **options)
            recorder.record(kernels.sort_pairs, keys, recorder.empty(TWO_LEVELS, "i8"), **options)


#: Keys in order, and whether keys alone, or with positions or values, are stored as they are or turned.
KINDS = {
    "random": (lambda n: np.random.default_rng(22).integers(0, n, n), False, False),
    "ascending": (lambda n: np.arange(n) // 3, True, True),
    "descending": (lambda n: -np.arange(n), True, True),
    "descending, with ties": (lambda n: -(np.arange(n) // 3), True, False),
    "two swapped": (lambda n: np.roll(np.arange(n) // 2, 1), False, False),
    "two swapped, descending": (lambda n: -np.roll(np.arange(n) // 2, 1), False, False),
    "zeros that ascend as codes": (lambda n: np.where(np.arange(n) < n // 2, -0.0, 0.0), True, True),
    "zeros that descend as codes": (lambda n: np.where(np.arange(n) < n // 2, 0.0, -0.0), True, True),
}
SORTS = [("i4", True), ("f8", False)]


@pytest.mark.parametrize(("dtype", "descending"), SORTS)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_in_order_are_stored(device, monkeypatch, dtype, descending, kind):
    use_partitions(monkeypatch, device.is_small)
    outcomes, plain = [], store_in_order
    for module in (msd, early_values):
        monkeypatch.setattr(module, "store_in_order", lambda *of: outcomes.append(plain(*of)) or outcomes[-1])
    make, alone, indexed = KINDS[kind]
    keys = make(TWO_LEVELS if device.is_small else LARGE).astype(dtype)
    keys = np.ascontiguousarray(keys[::-1]) if descending else keys
    source, order = device.array(keys), expected_positions(keys, descending)
    ordered, values = expected_sorted(keys, descending), np.arange(keys.size) * 7
    assert_bits(kernels.sort_keys(source, descending=descending), ordered)
    assert_bits(kernels.sorted_codes(source, descending=descending), np.sort(expected_codes(keys, descending)))
    array = device.array(keys)
    assert_bits(kernels.sort_keys(array, descending=descending, out=array), ordered)
    assert (outcomes == [True] * 3) if alone else not any(outcomes)
    outcomes.clear()
    positions = device.array(np.zeros(keys.size, np.int64))
    begin = positions.view(dtype)[: keys.size]
    begin[...] = source
    assert_bits(kernels.argsort(begin, descending=descending, out=positions), order)
    found = kernels.sort_with_positions(source, descending=descending)
    pairs = kernels.sort_pairs(source, device.array(values), descending=descending)
    assert (outcomes == [True] * 3) if indexed else not any(outcomes)
    assert not outcomes or kind != "random"  # which are read no more than they were
    assert_bits(found[1], order.astype(np.uint32))
    assert_bits(pairs[1], values[order])
    for array in (found[0], pairs[0]):
        assert_bits(array, keys[order])
