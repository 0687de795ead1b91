"""Expected results of kernels on a GPU, compared bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from dask_gpusort import keys as codes_of


def bits(array: Any) -> np.ndarray[Any, Any]:
    """Bit patterns, so that NaN equals itself and -0.0 differs from +0.0."""
    return np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}")


def expected_codes(keys: np.ndarray[Any, Any], descending: bool) -> np.ndarray[Any, Any]:
    return codes_of.encode(keys, descending=descending)


def expected_positions(keys: np.ndarray[Any, Any], descending: bool) -> np.ndarray[Any, Any]:
    floors = codes_of.tie_floor(expected_codes(keys, descending), keys.dtype, descending=descending)
    return np.argsort(floors, kind="stable")


def expected_sorted(keys: np.ndarray[Any, Any], descending: bool) -> np.ndarray[Any, Any]:
    return codes_of.decode(np.sort(expected_codes(keys, descending)), keys.dtype, descending=descending)


def assert_bits(got: Any, wanted: np.ndarray[Any, Any]) -> None:
    got = got.get()
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    wrong = np.flatnonzero(bits(got).ravel() != bits(wanted).ravel())
    assert wrong.size == 0, (
        f"{wrong.size} of {got.size} elements differ; "
        f"element {wrong[0]} is {got.ravel()[wrong[0]]}, expected {wanted.ravel()[wrong[0]]}"
    )


def assert_values(got: Any, wanted: Any) -> None:
    """Compare an array of a device as `numpy.testing.assert_array_equal`, of any dtype."""
    np.testing.assert_array_equal(got.get(), wanted)
