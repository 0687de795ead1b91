"""Arrays, and the tasks of their chunks, have the name of the function that a user called."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.utils import key_split
from test_benchmarks import load
from tlz import merge

import dask_gpusort
from dask_gpusort.arguments import packages

calls = load("asv.calls")
#: Calls whose last tasks are those of Dask's own functions: rechunks, and a transposed array.
BY_DASK = {
    "sort/short-lanes-in-several-chunks": (partial(dask_gpusort.sort, axis=1), lambda source: [source.rows(4)]),
    "sort/chunks": (partial(dask_gpusort.sort, axis=1, chunks={0: (1, 1, 4)}), lambda source: [source.rows(1)]),
    "sort_by_key/short-lanes": (lambda x: dask_gpusort.sort_by_key(x, -x, axis=0), lambda source: [source.rows(4)]),
    "unique/subarrays": (
        partial(dask_gpusort.unique, return_inverse=True, return_counts=True, axis=1),
        lambda source: [source.rows(4)],
    ),
}
CALLS = {**calls.CALLS, **calls.ALIKE, **BY_DASK}


class Source:
    """Inputs of the calls, which have some number of chunks."""

    def __init__(self, parts: int):
        values = np.random.default_rng(0).integers(0, 99, 6 * calls.LANE).astype(float)
        self.x = da.from_array(values, chunks=len(values) // parts)

    def keys(self, number: int = 0) -> da.Array:
        return self.x[::-1] if number else self.x

    def rows(self, parts: int) -> da.Array:
        return self.x.reshape(-1, calls.LANE).rechunk({1: calls.LANE // parts})

    def in_order(self, number: int = 0) -> da.Array:
        return dask_gpusort.sort(self.keys(number))

    def positions(self) -> da.Array:
        return dask_gpusort.argsort(self.x)


def arrays(found: Any) -> list[da.Array]:
    return list(found) if isinstance(found, tuple) else [found]


def numbers_of_tasks(found: list[da.Array]) -> list[int]:
    """Of arrays that are computed together, before Dask optimizes their graph and after it."""
    return [len(merge(dict(one.__dask_graph__()) for one in some)) for some in (found, dask.optimize(*found))]


@pytest.mark.parametrize("parts", [1, 6])
@pytest.mark.parametrize("call", CALLS)
def test_arrays_have_the_name_of_their_function(call: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs = CALLS[call]
    given = inputs(Source(parts))
    found, again = arrays(function(*given)), arrays(function(*given))
    assert {key_split(one.name) for one in found} == {call.partition("/")[0]}
    assert len({one.name for one in found}) == len(found)
    # Each call of `to_zarr` writes.
    assert ([one.name for one in found] == [one.name for one in again]) == (call != "to_zarr")
    assert all(key == getattr(task, "key", key) for one in found for key, task in dict(one.__dask_graph__()).items())
    monkeypatch.setattr(packages, "named", lambda array, _: array)
    others = arrays(function(*given))
    # A name takes no task, and hides no chunk that arrays share.
    assert numbers_of_tasks(found) == numbers_of_tasks(others)
    for own, other in zip(*dask.compute(found, others, scheduler="synchronous"), strict=True):
        np.testing.assert_array_equal(own, other, strict=True)


def test_functions_of_the_same_work_have_different_names() -> None:
    x = Source(6).x
    names = [dask_gpusort.median(x).name, dask_gpusort.quantile(x, 0.5).name, dask_gpusort.percentile(x, 50).name]
    assert len({*names, dask_gpusort.median(x[1:]).name}) == 4


def test_an_array_that_is_given_back_keeps_its_name() -> None:
    x = da.zeros(0)
    found = dask_gpusort.put_along_axis(x, da.zeros(0, dtype=int), 1, 0)
    assert found.name == x.name
