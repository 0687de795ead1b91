"""Programs in gangs but sorts: their graphs, when they are planned, and sources that change. The contract has results.

What becomes of them if a worker is lost is in `test_gang_faults.py`.
"""

from __future__ import annotations

import math
import re

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours

import dask_gpusort
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.chunk.distinct import Columns
from dask_gpusort.functions.selection import selection_steps
from dask_gpusort.functions.whole import ReadWhole, Whole
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, select
from dask_gpusort.plan.division import gang_of_gather
from dask_gpusort.plan.sets import gang_of_distinct, parts_of
from dask_gpusort.table import Statistic

gangs = pytest.importorskip("support.gangs")
program = pytest.importorskip("dask_gpusort.drivers.gang")
member = pytest.importorskip("dask_gpusort.graph.gang.member")

Q = [0.05, 0.25, 0.5, 0.75, 0.95]
ONE_EACH = [0, 1, 2]


def quantile(x, axis=None, **options):
    return dask_gpusort.quantile(x, Q, axis, **{"strategy": "samples", **options})


# Graphs.


@pytest.mark.skipif(da.array_expr_enabled(), reason="Dask computes no array of unknown size")
@pytest.mark.parametrize(
    ("function", "holders", "tasks"),
    [
        # Members are the chunks of the only output.
        (dask_gpusort.unique, [ONE_EACH], 3),
        (dask_gpusort.rank, [ONE_EACH], 3),
        (dask_gpusort.searchsorted, [[2, 0, 1], ONE_EACH], 3),
        # A member without a chunk of the output is needed all the same: each chunk needs all members.
        (dask_gpusort.searchsorted, [[2, 0, 1], [0, 0, 1]], 3 + 3 + 3),
        # Members are moved with what they make.
        (quantile, [ONE_EACH], 3 + 1),
        (lambda x: dask_gpusort.median(x, strategy="samples"), [ONE_EACH], 3 + 1),
    ],
)
def test_tasks_and_parts_of_the_output(gang, function, holders, tasks):
    hosts = [np.sort(ours.make("f4", 3000, "small", seed)) for seed in range(len(holders))]
    arrays = [gang.placed(host, ((1000,) * 3,), own) for host, own in zip(hosts, holders, strict=True)]
    found = function(*arrays)
    inputs = {array.name for array in arrays}
    assert len([key for key in dict(dask.optimize(found)[0].dask) if key[0] not in inputs]) == tasks
    parts = [found.blocks[number].compute() for number in range(found.numblocks[0])] if found.ndim else []
    whole = found.compute()
    oracle.assert_same_bits(whole, gangs.of_tasks(function, *map(da.from_array, hosts))[0])
    if function is not quantile and parts:
        oracle.assert_same_bits(np.concatenate(parts), whole)


@pytest.mark.parametrize("keys", ["distinct", "few", "skewed"])
@pytest.mark.skipif(da.array_expr_enabled(), reason="Dask computes no array of unknown size")
def test_distinct_keys_are_spread_evenly(gang, keys):
    rng = np.random.default_rng(0)
    host = {"distinct": rng.permutation(30_000), "few": rng.integers(0, 900, 30_000), "skewed": rng.zipf(1.1, 30_000)}
    values = dask_gpusort.unique(gang.placed(host[keys], ((6000,) * 5,), ONE_EACH))
    values.compute_chunk_sizes()
    assert max(values.chunks[0]) < 1.2 * values.size / 3


# Errors are those of other tasks.

LINE = da.arange(60, chunks=20)
#: What the second chunk is where its array says another thing.
LIES = {"size": lambda block: block[:-1], "dtype": lambda block: block.astype("f4"), "type": lambda block: [block]}


def assert_same_error(function, *arrays):
    with pytest.raises((IndexError, TypeError, ValueError)) as wanted:
        gangs.of_tasks(function, *arrays)
    with pytest.raises(type(wanted.value)) as found:
        gangs.found_by_gangs(function(*arrays))
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("function", [dask_gpusort.take, dask_gpusort.searchsorted])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("which", [0, 1])
def test_a_chunk_that_is_not_what_its_array_says(gang, function, lie, which):
    arrays = [LINE, LINE[::-1]]
    told, options = LIES[lie], {"dtype": LINE.dtype, "chunks": LINE.chunks, "meta": LINE._meta}
    arrays[which] = LINE.map_blocks(lambda block, block_id: told(block) if block_id == (1,) else block, **options)
    assert_same_error(function, *arrays)


@pytest.mark.parametrize("index", [60, -61])
def test_an_index_out_of_range(gang, index):
    wrong = da.from_array(np.array([3, index, 4]), chunks=2)
    for function in (dask_gpusort.take, dask_gpusort.take_along_axis):
        assert_same_error(function, LINE, wrong)
    assert_same_error(lambda x, at: dask_gpusort.take(x, at, axis=1), LINE[None, :], wrong)


# The plan.

PLAIN = pytest.mark.skipif(da.array_expr_enabled(), reason="such arrays have no reshape and no blocks")


@PLAIN
@pytest.mark.parametrize(
    ("explain", "text"),
    [
        (lambda x: dask_gpusort.explain(x), "exchange  gang: 3 members.*9 messages"),
        (lambda x: dask_gpusort.explain_unique(x), "3 members find distinct keys"),
        (lambda x: dask_gpusort.explain_rank(x), "3 members find distinct keys.*4 bytes for each go back"),
        (lambda x: dask_gpusort.explain_take(x, x), "gang: 3 members gather all elements, and read theirs"),
        (lambda x: dask_gpusort.explain_take_along_axis(x, x), "3 members, 2.34 kiB to each"),
        (lambda x: dask_gpusort.explain_searchsorted(x, x), "gang: 3 members gather all keys, and look needles up"),
        (lambda x: dask_gpusort.explain_isin(x, x), "the keys, to each process: 7.03 kiB"),
        (lambda x: dask_gpusort.explain_quantile(x, Q, strategy="samples"), "gang: 3 members draw samples.*rounds"),
    ],
)
def test_explain_says_what_a_gang_does(gang, explain, text):
    x = da.arange(300, chunks=50)
    assert re.search(text, explain(x).detail, re.DOTALL)
    with dask.config.set({"gpusort.exchange": "auto"}):
        assert explain(x).exchange != "gang"


@PLAIN
def test_what_is_no_gang(gang):
    x, table = da.arange(300, chunks=50), da.zeros((4000, 3), chunks=(1000, 2))
    rows, objects = x.reshape(6, 50), x.astype(object)
    for other in (
        dask_gpusort.explain_unique(objects),
        dask_gpusort.explain_unique(x.rechunk(-1)),
        dask_gpusort.explain_take(x.rechunk(-1), x),
        dask_gpusort.explain_take(x, x[:0]),
        dask_gpusort.explain_take(rows.rechunk((2, 10)), x % 6, axis=0),
        dask_gpusort.explain_take(x, x[x > 3]),
        dask_gpusort.explain_take_along_axis(rows, rows % 6, axis=0),
        dask_gpusort.explain_searchsorted(x, x, sorter=np.arange(300)),
        dask_gpusort.explain_searchsorted(objects, objects),
        dask_gpusort.explain_searchsorted(x[x > 3], x),
        dask_gpusort.explain_isin(objects, objects),
        dask_gpusort.explain_isin(x, [1, 2]),
        # Lanes in different chunks, chunks of whole lanes, and another strategy.
        dask_gpusort.explain_quantile(table, Q, 0, strategy="samples"),
        dask_gpusort.explain_quantile(table, Q, 1),
        dask_gpusort.explain_quantile(table, Q, None, strategy="rechunk"),
    ):
        assert other.exchange != "gang"


def distinct(dtype, equal_nan=True, **columns):
    """Chooses a gang of distinct keys."""
    order = Order(np.dtype(dtype), stable=True)
    return lambda *given: gang_of_distinct(order, *given, Columns(**columns), equal_nan)


LONG_LANE = select.Lanes(1, 10**9, 1, 4, 1, 8, 1 << 27, True)
SEARCH = select.make_select_plan(LONG_LANE, 5, Workers(2, devices=True), True, "samples")


@pytest.mark.parametrize(
    ("choose", "share"),
    [
        (distinct("f8"), 4000),
        (distinct("f8", equal_nan=False), 8000),
        (distinct("i8", equal_nan=False), 4000),
        (distinct("f8", inverse=True), 10_000),
        (distinct("f8", counts=True, firsts=True), 12_000),
        # Received and joined, beside the chunks of a member.
        (lambda given, *others: gang_of_gather(given, 2, *others), 2 * 500 + 500),
        (lambda *given: select.gang_of_selection(SEARCH, *given), SEARCH.moved_bytes),
    ],
)
def test_a_gang_needs_memory_for_shares_of_all(choose, share):
    held, members = InputChunks([250] * 4, workers=["a", "b", "b", "a"]), ((0, 3), (1, 2))
    enough = math.ceil(5 * share)
    for memory, fits in ((None, True), (enough, True), (enough - 1, False)):
        assert choose(held, Workers(2, memory, devices=True), "auto") == (members if fits else ())
        assert choose(held, Workers(2, memory), "gang") == members
    gpus = Workers(2, devices=True)
    for other in (InputChunks([250] * 4), InputChunks([250] * 4, workers=["a", "b", "b", None])):
        assert choose(other, gpus, "auto") == ()
    assert choose(held, gpus, "device") == ()


def test_what_no_gang_has():
    gpus, on = Workers(3, devices=True), ["a", "b", "b", "a", "c"]
    assert SEARCH.moved_bytes < LONG_LANE.bytes / 10
    assert distinct("O")(InputChunks([250] * 5, workers=on), gpus, "gang") == ()
    assert gang_of_gather(InputChunks([100] * 5, workers=on), 1, gpus, "gang") == ()
    assert gang_of_gather(InputChunks([100] * 4 + [np.nan], workers=on), 2, gpus, "gang") == ()
    assert gang_of_gather(InputChunks([100] * 5, workers=["a"] * 5), 2, gpus, "gang") == ()
    assert gang_of_gather(InputChunks([9] * 7), 4, gpus, "gang") == ((0, 4), (1, 2, 5), (3, 6))


@given(st.lists(st.integers(0, 200), max_size=60, unique=True), st.none() | st.integers(0, 200), st.booleans())
def test_parts_are_neighbours_of_one_side_where_order_matters(chunks, second, ordered):
    parts = parts_of(sorted(chunks), second, ordered)
    assert [chunk for part in parts for chunk in part] == sorted(chunks)
    for part in parts:
        assert second is None or part[-1] < second or part[0] >= second
        assert not ordered or part[-1] - part[0] == len(part) - 1
    assert ordered or len(parts) <= (1 if second is None else 2)


# Works without a cluster.


def test_keys_that_change_between_two_supersteps_are_found_out():
    keys = np.random.default_rng(0).normal(size=30_000)
    steps = selection_steps(Statistic.quantiles(Q), (0,), keys.dtype, False, (10.0, 4.0, 3.0), (False, False))
    declared = tuple(declared_chunks("the input", keys.dtype, ((len(keys),),)))
    work = program.ProgramJob(steps, ((len(steps) - 1, 0),), declared, *(((0,),),) * 3, ((),))([keys], 0)
    keys[:] = 0
    with pytest.raises(RuntimeError, match="counts of the keys do not fit their samples"):
        gangs.attempt([work])


@pytest.mark.parametrize("dtype", ["i8", "f4", "M8[s]", "U3"])
def test_who_reads_nothing_receives_nothing_and_who_has_nothing_sends_its_dtype(dtype):
    """The first chunk is of the first member; the second one has none, and reads for the third chunk."""
    declared = [*declared_chunks("x", np.dtype(dtype), ((np.nan,),)), *declared_chunks("at", np.dtype(int), ((2,),))]
    steps = Whole((False, True)), ReadWhole(lambda chunks, others: [chunks[0][other] for other in others], ((0,), ()))
    members = ((0,), (1,))
    job = program.ProgramJob(steps, ((1, 0),), tuple(declared), members, members, ((0,), ()), ((), (1,)))
    keys = ours.make(dtype, 6, "bits")
    works, others = ([job([keys], 0), job([np.array([4, 2])], 1)] for _ in range(2))
    summaries = [work.summaries for work in works]
    sent = [next(work.exchanges(summaries)) for work in works]
    assert [one.lengths for one in sent] == [[0, 0], [6, 0]]
    assert {run.keys.dtype for one in sent for run in one.sent} == {keys.dtype}
    count, (nothing, read) = gangs.attempt(others)
    assert (count, nothing) == (1, ([],))
    oracle.assert_same_bits(read[0][0], keys[[4, 2]])
