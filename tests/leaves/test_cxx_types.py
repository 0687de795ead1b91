"""Names of the C++ types of keys."""

from __future__ import annotations

import numpy as np
import pytest

from dask_gpusort.kernels.launch.arrays import number_type

#: Bytes of the integers of C++ wherever CUDA runs; a long has 4 or 8.
SIZES = {"char": 1, "short": 2, "int": 4, "long long": 8}


@pytest.mark.parametrize("character", np.typecodes["AllInteger"])
def test_an_integer_has_the_name_of_its_size_and_sign(character: str) -> None:
    dtype = np.dtype(character)
    name = number_type(dtype)
    assert name is not None
    assert SIZES[name.removeprefix("unsigned ").removeprefix("signed ")] == dtype.itemsize
    assert name.startswith("unsigned") == (dtype.kind == "u")


@pytest.mark.parametrize("name", ["f2", ">i4", "S3", "U2", "O", "g"])
def test_other_dtypes_have_no_name(name: str) -> None:
    assert number_type(name) is None
