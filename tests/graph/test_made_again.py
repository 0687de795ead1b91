"""What a part or a group makes again must be what it was when it was listed: after a worker was lost, or in a gang."""

from __future__ import annotations

import numpy as np
import pytest
from support import strategies as ours

from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.chunk.distinct import Columns
from dask_gpusort.drivers.turns import Blocks, Listed, Store, check_same, list_turns, take_turn
from dask_gpusort.functions.distinct import Distinct
from dask_gpusort.functions.lookup import Keys, Needles, Question
from dask_gpusort.functions.positions import Requests
from dask_gpusort.functions.selection import selection_steps
from dask_gpusort.functions.sort import Count, DrawKeys, Groups, LocalSort, SortRuns
from dask_gpusort.functions.whole import Whole
from dask_gpusort.order import Order
from dask_gpusort.table import Statistic


def question(dtype="i8"):
    return Question(Order(np.dtype(dtype), stable=True), "left", joined=False)


def distinct(dtype):
    return Distinct(Order(np.dtype(dtype), stable=True), Columns(inverse=True), True, 2, 8, np.dtype("u4"))


def draw(dtype):
    statistic = Statistic.quantiles([0.05, 0.5])
    return selection_steps(statistic, (0,), np.dtype(dtype), False, (10.0, 4.0, 3.0), (False, False))[0]


def keys(dtype, seed=0):
    return ours.make(dtype, 6000, "bits", seed)


#: By name: a superstep, its chunk, and others.
CASES = {
    "sorted runs": (SortRuns(LocalSort(Order(np.dtype("i8")), False), 8, 0, None), keys("i8"), [keys("i8", 1)]),
    "needles": (Needles(question()), np.arange(5), [np.arange(1, 6)]),
    "sorted keys": (Keys(question()), np.arange(5), [np.arange(6)]),
    "samples": (draw("f8"), keys("f8"), [keys("f8", 1), keys("f8")[1:]]),
    **{f"distinct {one}": (distinct(one), keys(one), [keys(one, 1), keys(one)[1:]]) for one in ("i8", "U4")},
    "distinct strings": (distinct(ours.LONG_STRINGS[0]), keys(ours.LONG_STRINGS[0]), [keys(ours.LONG_STRINGS[0], 1)]),
    **{
        f"whole {one}": (
            Whole((True,)),
            keys(one).reshape(3, 2000),
            [keys(one).reshape(2, 3000), *(keys(one, 1).reshape(3, 2000) for _ in range(one != "O"))],
        )
        for one in ("i8", "f4", "M8[s]", "U3", "O")
    },
}


def made(step, chunk, store=None):
    blocks = Blocks([chunk], declared_chunks("x", chunk.dtype, [(np.nan,)] * chunk.ndim))
    return take_turn(step, 0, store or Store(), blocks, None, None)


def check(step, chunk, others, store=None):
    own = made(step, chunk, store)
    listed = Listed(None, {step.side: [own.mark]}, [], None, None)
    check_same(step, 0, made(step, chunk.copy(), store), listed)
    for other in others:
        again = made(step, other, store)
        check_same(step, 0, again, Listed(None, {}, [], None, None))
        with pytest.raises(RuntimeError, match=r"chunk \(?0.* of x is not what it was .*persist"):
            check_same(step, 0, again, listed)


@pytest.mark.parametrize("name", CASES)
def test_what_changed_is_refused(name):
    check(*CASES[name])


def test_indices_that_changed_are_refused():
    """A worker notices even those that name the same elements in another order."""
    cluster = pytest.importorskip("support.without_cluster")
    with cluster.runs_of_threads():
        check(Requests((0, 2, 4), 0), np.array([0, 2]), [np.array([2, 0])], cluster.on_workers.OnWorkers())


@pytest.mark.parametrize("changed", [[0, 1, 2], [5, 6, 7, 8], [0, 0, 1, 1]])
def test_a_superstep_refuses_a_run_that_changed(changed):
    local, groups = LocalSort(Order(np.dtype("u8")), False), Groups((2, 2), ((0, 1, 0, 1), (1, 2, 0, 1)))
    first, count = DrawKeys(local, 9, 4, 1).lean, Count(local.order, groups, 2).lean
    own, other = (made(first, np.array(chunk, "u8")) for chunk in ([0, 1, 2, 3], changed))
    listed = list_turns(first, [own], [], Store(), None)
    assert len(take_turn(count, 0, Store(), None, own, listed).note) == 4
    with pytest.raises(RuntimeError, match=r"chunk 0 .*persist"):
        take_turn(count, 0, Store(), None, other, listed)
