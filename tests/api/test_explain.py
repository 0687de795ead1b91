"""Plans as text: strategies and numbers of tasks are those of the graphs, and nothing is computed."""

from __future__ import annotations

import math

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import strategies as ours
from support.sorting import groups

import dask_gpusort

#: Settings under which graphs have other strategies.
exchanges = st.sampled_from(("auto", "join", "gather", "tasks"))
counts = st.none() | st.integers(1, 5)


@pytest.fixture(autouse=True)
def building_computes_nothing(raise_if_computes):
    """Neither a plan nor a graph computes anything."""
    with raise_if_computes():
        yield


def lines_of(text):
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def strategy_of(text):
    """The strategy of the first plan."""
    return next(line.split()[1] for line in text.splitlines() if line.startswith("strategy")).strip(":")


def stages_of(found, inputs):
    """Names of the tasks that make arrays from others, and how many tasks each name has."""
    given = {key for array in inputs for key in array.__dask_graph__()}
    made = {key for array in found for key in array.__dask_graph__()} - given
    stages = {}
    for key in made:
        name = (key if isinstance(key, str) else key[0]).rsplit("-", 1)[0]
        stages[name] = stages.get(name, 0) + 1
    return stages


def check(explain, function, *arguments, inputs, **options):
    """Compare the text's number of tasks with the graph; gives the strategy and the stages."""
    said, found = explain(*arguments, **options), function(*arguments, **options)
    stages = stages_of(found if isinstance(found, tuple) else (found,), inputs)
    assert said.tasks == sum(stages.values())
    return strategy_of(said.detail), stages


@st.composite
def arrays(draw):
    shape = draw(st.sampled_from([(40,), (1,), (6, 8), (5, 1), (3, 4, 5)]))
    x = da.zeros(shape, chunks=draw(ours.chunkings(shape)), dtype=draw(st.sampled_from(["i8", "f4", "u1"])))
    return x, draw(st.none() | st.integers(0, len(shape) - 1))


@given(arrays(), exchanges, counts, st.sampled_from(["average", "ordinal"]), st.booleans())
def test_rank(drawn, exchange, count, method, pct):
    x, axis = drawn
    options = {"method": method, "pct": pct}
    with groups(count), dask.config.set({"gpusort.exchange": exchange}):
        args = dask_gpusort.explain_rank, dask_gpusort.rank, x, axis
        strategy, stages = check(*args, inputs=[x], **options)
    assert (strategy == "exchange") == ("unique-replies" in stages)
    assert (strategy == "blocks") >= (math.prod(x.numblocks) == 1)


@given(arrays(), exchanges, counts, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_unique(drawn, exchange, count, wanted):
    x, _ = drawn
    with groups(count), dask.config.set({"gpusort.exchange": exchange}):
        strategy, stages = check(dask_gpusort.explain_unique, dask_gpusort.unique, x, *wanted, inputs=[x])
        counted = stages_of([dask_gpusort.nunique(x)], [x])
    assert (strategy == "exchange") == ("unique-scan" in stages)
    # The number of distinct values of one chunk needs no numbers either.
    if strategy != "exchange" and not wanted[0]:
        assert "unique-scan" not in counted
    assert strategy == "join" or exchange != "join" or math.prod(x.numblocks) == 1 or wanted[0]


def test_unique_subarrays():
    x = da.zeros((20, 6), chunks=(5, 2))
    strategy, _ = check(dask_gpusort.explain_unique, dask_gpusort.unique, x, False, True, True, 0, inputs=[x])
    assert strategy == "exchange"
    assert "48 bytes" not in dask_gpusort.explain_unique(x).detail
    assert "48 bytes each" in dask_gpusort.explain_unique(x, axis=0).detail


@given(arrays(), st.integers(1, 9), counts, st.sampled_from(["left", "right"]), st.booleans())
def test_searchsorted(drawn, chunks, count, side, with_sorter):
    v, _ = drawn
    a = da.arange(50, chunks=chunks)
    inputs = [*([a + 1] if with_sorter else []), a, v]
    sorter = {"sorter": inputs[0]} if with_sorter else {}
    with groups(count):
        args = dask_gpusort.explain_searchsorted, dask_gpusort.searchsorted, a, v, side
        strategy, stages = check(*args, inputs=inputs, **sorter)
    assert (strategy == "join") == (stages["search-join"] == 1)
    assert (strategy == "groups") == ("search-scan" in stages)


@pytest.mark.parametrize(
    ("dtype", "size", "count", "strategy", "reason"),
    [
        ("i8", 100, None, "join", "few"),
        ("i8", 2_000_000, None, "join", "fit"),
        ("i8", 2_000_000, 4, "groups", "is set"),
        ("O", 2_000_000, None, "join", "objects"),
        ("S3", 100, None, "none", "never equal"),
    ],
)
def test_isin(dtype, size, count, strategy, reason):
    v, test = da.zeros((10, 10), chunks=5), da.zeros(size, chunks=size // 4, dtype=dtype)
    with groups(count):
        said = dask_gpusort.explain_isin(v, test)
        tasks = sum(stages_of([dask_gpusort.isin(v, test)], [v, test]).values())
    assert strategy_of(said.detail) == strategy
    assert reason in lines_of(said.detail)["strategy"]
    assert said.tasks == tasks
    assert ("sorted first" in said.detail) == (size > 100 and dtype != "O")


@given(arrays(), st.data(), exchanges, counts, st.booleans())
def test_take(drawn, data, exchange, count, known):
    x, axis = drawn
    shape = data.draw(st.sampled_from([(1,), (30,), (3, 5)]))
    indices = np.zeros(shape, int) if known else da.zeros(shape, dtype=int, chunks=data.draw(ours.chunkings(shape)))
    inputs = [x] if known else [x, indices]
    with groups(count), dask.config.set({"gpusort.exchange": exchange}):
        strategy, stages = check(dask_gpusort.explain_take, dask_gpusort.take, x, indices, axis, inputs=inputs)
    assert (strategy == "exchange") == ("take-requests" in stages)
    assert strategy != "slices" or known


@given(arrays(), exchanges, counts)
def test_take_along_axis(drawn, exchange, count):
    x, axis = drawn
    indices = da.zeros_like(x, dtype=int)
    args = dask_gpusort.explain_take_along_axis, dask_gpusort.take_along_axis, x, indices, axis or 0
    with groups(count), dask.config.set({"gpusort.exchange": exchange}):
        strategy, stages = check(*args, inputs=[x, indices])
    assert (strategy == "exchange") == ("take-requests" in stages)


def test_tasks_of_whole_chunks():
    """A number that does not come from the graph."""
    x = da.zeros((8, 100), chunks=(1, 100))
    assert dask_gpusort.explain_rank(x, 1).tasks == 8
    indices = da.zeros((8, 100), dtype=int, chunks=(1, 100))
    assert dask_gpusort.explain_take_along_axis(x, indices).tasks == 8
    joined = dask_gpusort.explain_searchsorted(da.arange(10, chunks=5), da.zeros(40_000_000, chunks=4_000_000))
    assert joined.tasks == 11


def test_what_is_unknown_is_said():
    x = da.zeros(1000, chunks=100)
    unknown = x[x > 0]
    for said in (dask_gpusort.explain_rank(x), dask_gpusort.explain_unique(x)):
        assert "if all elements are distinct" in said.notes[-1]
    for text in (
        dask_gpusort.explain_rank(unknown).detail,
        dask_gpusort.explain_unique(unknown).detail,
        dask_gpusort.explain_searchsorted(unknown, x).detail,
        dask_gpusort.explain_searchsorted(x, unknown).detail,
        dask_gpusort.explain_take(x, unknown.astype(int)).detail,
    ):
        assert "an unknown" in text
    assert "unknown" not in str(dask_gpusort.explain_rank(x.rechunk(-1), detail=True))


def test_searches_count_the_bytes_of_the_common_dtype():
    text = dask_gpusort.explain_searchsorted(da.zeros(1000, chunks=100), da.ones(1024, chunks=128, dtype="i1")).detail
    assert "needles   8.00 kiB in 8 chunks" in text
    text = dask_gpusort.explain_isin(da.ones(1024, chunks=128, dtype="i1"), da.zeros(2048, chunks=512)).detail
    assert "needles   8.00 kiB in 8 chunks" in text
    assert "keys      16.00 kiB in 4 chunks" in text
