"""Selects the cases of a parameter grid that the default run takes, and those of a device; makes one test of many."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
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


def slow_but_first(*cases: Any) -> list[Any]:
    """Give cases as parameters of a test, of which the default run takes the first one."""
    first, *others = cases
    return [
        first,
        *(pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.slow) for case in others),
    ]


def for_each(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of a check: it runs for all cases, of which a tuple has several arguments, and names what fails."""
    cases = list(cases)

    def one_test(check: Callable[..., None]) -> Callable[[], None]:
        @functools.wraps(check)
        def test() -> None:
            assert cases
            failed, skipped = [], None
            for case in cases:
                try:
                    check(*case if isinstance(case, tuple) else (case,))
                except pytest.skip.Exception as reason:
                    skipped = reason
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{case}: {type(error).__name__}: {error}")
            assert not failed, "\n".join(failed)
            if skipped:
                raise skipped

        test.__signature__ = inspect.Signature()
        return test

    return one_test


def by_device(name: str, host: Iterable[Any] = (), gpu: Iterable[Any] = ()) -> Any:
    """Give the fixture `device` of kernels, with the cases of each device by the name of a parameter."""
    sides = ("host", host, ()), ("gpu", gpu, pytest.mark.gpu)
    cases = [pytest.param(side, case, marks=marks) for side, given, marks in sides for case in given]
    return pytest.mark.parametrize(("device", name), cases, indirect=["device"])


#: Tests of kernels on the host alone, and those that take a GPU, with the fixture `device`.
only_host = pytest.mark.parametrize("device", ["host"], indirect=True)
only_gpu = pytest.mark.parametrize("device", [pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
