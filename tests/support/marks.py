"""Selects the cases of a parameter grid that the default run takes, and those of a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def grid(*axes: Sequence[Any]) -> list[Any]:
    """All combinations of the axes' values, as parameters of a test.

    The default run takes the diagonal, so each value of each axis occurs at least once. All other combinations are
    marked ``thorough``.
    """
    diagonal = {tuple(step % len(axis) for axis in axes) for step in range(max(map(len, axes)))}
    return [
        pytest.param(
            *(axis[position] for axis, position in zip(axes, positions, strict=True)),
            marks=() if positions in diagonal else pytest.mark.thorough,
        )
        for positions in product(*(range(len(axis)) for axis in axes))
    ]


def by_device(name: str, host: Iterable[Any] = (), gpu: Iterable[Any] = ()) -> Any:
    """Give the fixture `device` of kernels, with the cases of each device by the name of a parameter."""
    sides = ("host", host, ()), ("gpu", gpu, pytest.mark.gpu)
    cases = [pytest.param(side, case, marks=marks) for side, given, marks in sides for case in given]
    return pytest.mark.parametrize(("device", name), cases, indirect=["device"])


#: Tests of kernels on the host alone, and those that take a GPU, with the fixture `device`.
only_host = pytest.mark.parametrize("device", ["host"], indirect=True)
only_gpu = pytest.mark.parametrize("device", [pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
