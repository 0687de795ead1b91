"""The costs of plans: counts by hand, and counts from the built graph."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.plans import num_tasks

from dask_gpusort.builders.global_sort import _pace, _steps
from dask_gpusort.drivers.one import InOneTask
from dask_gpusort.drivers.recipe import DRIVERS, Input, ProgramRecipe, Result
from dask_gpusort.functions.joined import JoinedSort
from dask_gpusort.functions.sort import Finish, LocalSort
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, make_plan
from dask_gpusort.plan.counting import ENTRY_BYTES

MIB = 1 << 20


def plan(chunks, size, exchange="gather", dtype="i8", companion_bytes=0, **options):
    given = {"method": "auto", "workers": Workers(2), "groups": None}
    sizes = (size,) * chunks
    inputs = InputChunks(sizes, companion_bytes)
    return make_plan(Order(np.dtype(dtype)), inputs, sizes, exchange=exchange, **{**given, **options})


@pytest.mark.parametrize(
    ("exchange", "processes", "crossings", "messages"),
    [("gather", 0, 4, 0), ("runs", 0, 8, 40 * 8), ("runs", 1, 8, 0), ("runs", 3, 8, 2 * 8), ("runs", 99, 8, 40 * 8)],
)
def test_counts_of_an_exchange(exchange, processes, crossings, messages):
    # With so many threads, each chunk is a run.
    made = plan(40, 1_000, exchange, groups=8, companion_bytes=4, workers=Workers(40, processes=processes))
    assert made.moved_bytes == crossings * 40 * 1_000 * 12
    assert made.messages == messages
    assert made.counted_bytes == 40 * made.samples * (8 + ENTRY_BYTES) > 0


def test_counts_of_candidates():
    made = plan(4000, 1_000_000, "runs", groups=400, workers=Workers(4, 1 << 30, processes=2))
    assert made.candidates == 16 * 400
    runs = len(made.runs)
    sums = math.ceil(runs / 32) + math.ceil(math.ceil(runs / 32) / 32)
    assert made.counted_bytes == runs * made.samples * (8 + ENTRY_BYTES) + (runs + sums) * 8 * made.candidates


def test_a_join_sends_nothing():
    assert plan(10, 1_000, "join", workers=Workers(4)).messages == 0


def test_counts_of_an_exchange_by_tasks():
    made = plan(40, 1_000, "tasks", groups=8, companion_bytes=4, workers=Workers(5))
    assert made.moved_bytes == 6 * 40 * 1_000 * 12
    assert made.messages == 5 * 8
    assert made.counted_bytes == 5 * made.samples * (8 + ENTRY_BYTES)


def test_counts_between_devices():
    made = plan(16, 1_000, "device", workers=Workers(4, devices=True))
    assert made.messages == len(made.sources) * len(made.groups) == 16


@pytest.mark.parametrize("exchange", ["join", "gather", "runs", "tasks", "device"])
@pytest.mark.parametrize("chunks", [1, 7, 64, 1_000])
def test_number_of_tasks_equals_that_of_the_graph(exchange, chunks):
    if exchange == "runs":
        pytest.importorskip("distributed")
    made = plan(chunks, 1_000_000, exchange, workers=Workers(4, 512 * MIB))
    how = LocalSort(made.order, False), Finish(made.order, True, False)
    recipe = InOneTask(JoinedSort(*how, axis=0), "sort-local", ("x",), (made.sizes,), divided=(True,))
    if exchange != "join":
        steps, driver = _steps(made, *how), DRIVERS.get(exchange, "tasks")
        inputs = (Input("the input", made.order.dtype, (made.sizes,), made.runs),)
        result, groups = (Result(len(steps) - 1, 0),), made.groups
        recipe = ProgramRecipe(steps, result, ("x",), inputs, len(groups), driver, groups, _pace(made))
    assert num_tasks(made) == len({**recipe.stages(), **recipe.output("sorted", 0, (made.chunks,))})


def test_unknown_sizes():
    made = plan(10, math.nan, "tasks")
    assert math.isnan(made.moved_bytes)
    assert made.messages > 0
    assert "an unknown number of bytes read and written" in made.stated.text
