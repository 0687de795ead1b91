"""Reads by gangs that gather what is read from, and what becomes of them if workers are lost."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours

import dask_gpusort
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.functions.program import Given
from dask_gpusort.functions.whole import ReadWhole, Whole
from dask_gpusort.plan import InputChunks, Workers
from dask_gpusort.plan.division import gang_of_gather

gangs = pytest.importorskip("support.gangs")
gang = pytest.importorskip("dask_gpusort.drivers.gang")

placed, of_tasks = gangs.placed, gangs.of_tasks
PLAIN = pytest.mark.skipif(da.array_expr_enabled(), reason="such arrays have no reshape and no blocks")


@PLAIN
@pytest.mark.parametrize("others", [[0, 1, 2], [0, 0, 1]])
def test_parts_of_the_output(client, others):
    """Members that are the chunks of the output, or of which one has none: it is needed all the same."""
    keys, needles = np.sort(ours.make("f8", 3000, "small")), ours.make("f8", 3000, "small", 1)
    x, v = placed(keys, ((1000,) * 3,), [2, 0, 1]), placed(needles, ((1000,) * 3,), others)
    found = dask_gpusort.searchsorted(x, v)
    made = [key for key in dict(dask.optimize(found)[0].dask) if key[0] not in (x.name, v.name)]
    assert len(made) == (3 if others == [0, 1, 2] else 3 + 3 + 3)
    part = found.blocks[1].persist()
    parts = [found.blocks[number].compute() for number in range(3)]
    for one, other in ((found.compute(), np.concatenate(parts)), (part.compute(), parts[1])):
        oracle.assert_same_bits(one, other)
    np.testing.assert_array_equal(np.concatenate(parts), np.searchsorted(keys, needles))


# Errors are those of other tasks.

LINE = da.arange(60, chunks=20)
#: What the second chunk is where its array says another thing. Workers get functions without a name by their code.
LIES = {"size": lambda block: block[:-1], "dtype": lambda block: block.astype("f4"), "type": lambda block: [block]}


ERRORS = {
    "take": dask_gpusort.take,
    "take_along_axis": dask_gpusort.take_along_axis,
    "searchsorted": dask_gpusort.searchsorted,
    "isin": lambda test, elements: dask_gpusort.isin(elements, test),
}


@pytest.mark.parametrize("function", ERRORS)
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("which", [0, 1])
def test_a_chunk_that_is_not_what_its_array_says(gang, function, lie, which):
    arrays = [LINE, LINE[::-1]]
    told, options = LIES[lie], {"dtype": LINE.dtype, "chunks": LINE.chunks, "meta": LINE._meta}
    arrays[which] = LINE.map_blocks(lambda block, block_id: told(block) if block_id == (1,) else block, **options)
    assert_same_error(ERRORS[function], *arrays)


@pytest.mark.parametrize("function", ["take", "take_along_axis"])
@pytest.mark.parametrize("index", [60, -61])
def test_an_index_out_of_range(gang, function, index):
    assert_same_error(ERRORS[function], LINE, da.from_array(np.array([3, index, 4]), chunks=2))
    if function == "take":
        assert_same_error(lambda x, at: dask_gpusort.take(x, at, axis=1), LINE[None, :], da.full(3, index, chunks=2))


def assert_same_error(function, *arrays):
    with pytest.raises((IndexError, TypeError, ValueError)) as wanted:
        of_tasks(function, *arrays)
    with pytest.raises(type(wanted.value)) as found:
        gangs.found_by_gangs(function(*arrays))
    assert str(found.value) == str(wanted.value)


# The plan.


@PLAIN
def test_explain_says_that_a_gang_gathers(client):
    x = da.arange(300, chunks=50)
    assert "gang: 3 members gather all elements, and read theirs" in dask_gpusort.explain_take(x, x).detail
    assert "3 members, 2.34 kiB to each" in dask_gpusort.explain_take_along_axis(x, x).detail
    assert "gang: 3 members gather all keys, and look needles up" in dask_gpusort.explain_searchsorted(x, x).detail
    assert "the keys, to each process: 7.03 kiB" in dask_gpusort.explain_isin(x, x).detail
    rows, objects = x.reshape(6, 50), x.astype(object)
    for other in (
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
    ):
        assert other.exchange != "gang"
    with dask.config.set({"gpusort.exchange": "auto"}):
        assert dask_gpusort.explain_take(x, x).exchange != "gang"


def test_a_gang_needs_memory_for_all_that_is_gathered():
    sizes, on = [100, 100, 40, 60, 20], ["a", "b", "b", "a", "c"]
    share = 5 * (2 * 200 + 160)  # received and joined, beside the chunks of the first member
    for memory, fits in ((None, True), (share, True), (share - 1, False)):
        found = gang_of_gather(InputChunks(sizes, workers=on), 2, Workers(3, memory, devices=True), "auto")
        assert found == (((0, 3), (1, 2), (4,)) if fits else ())
        assert gang_of_gather(InputChunks(sizes, workers=on), 2, Workers(3, memory), "gang") == ((0, 3), (1, 2), (4,))
    gpus = Workers(3, None, devices=True)
    for given_chunks, gathered, asked in (
        (InputChunks(sizes, workers=on), 1, "gang"),
        (InputChunks(sizes, workers=on), 2, "device"),
        (InputChunks([*sizes[:4], np.nan], workers=on), 2, "gang"),
        (InputChunks(sizes, workers=["a"] * 5), 2, "gang"),
        (InputChunks(sizes), 2, "auto"),
        (InputChunks(sizes, workers=[*on[:4], None]), 2, "auto"),
    ):
        assert gang_of_gather(given_chunks, gathered, gpus, asked) == ()
    assert gang_of_gather(InputChunks([9] * 7), 4, gpus, "gang") == ((0, 4), (1, 2, 5), (3, 6))


# Workers that are lost.


def job_of(dtype):
    """The first chunk is of the first member; the second one has none, and reads for the third chunk."""
    declared = [*declared_chunks("x", np.dtype(dtype), ((np.nan,),)), *declared_chunks("at", np.dtype(int), ((2,),))]
    steps = Whole((False, True)), ReadWhole(lambda chunks, others: [chunks[0][other] for other in others], ((0,), ()))
    members = ((0,), (1,))
    return gang.ProgramJob(steps, ((1, 0),), tuple(declared), members, members, ((0,), ()), ((), (1,)))


@pytest.mark.parametrize("dtype", ["i8", "f4", "M8[s]", "U3", "O"])
def test_a_member_that_is_computed_again_has_changed_if_its_sizes_or_elements_have(dtype):
    step = Whole((True,))

    def mark(shape, elements):
        return step.mark(step.work(Given(0, None, [elements.astype(dtype).reshape(shape)])).note)

    some, others = np.random.default_rng(0).integers(0, 100, (2, 6000))
    assert mark((3, 2000), some) == mark((3, 2000), some.copy()) != mark((2000, 3), some)
    assert (mark((6000,), some) != mark((6000,), others)) == (dtype != "O")
    assert mark((0,), some[:0]) == mark((0,), others[:0])


@pytest.mark.parametrize("dtype", ["i8", "f4", "M8[s]", "U3"])
def test_who_reads_nothing_receives_nothing_and_who_has_nothing_sends_its_dtype(dtype):
    job, keys = job_of(dtype), ours.make(dtype, 6, "bits")
    works, others = ([job([keys], 0), job([np.array([4, 2])], 1)] for _ in range(2))
    summaries = [work.summaries for work in works]
    sent = [next(work.exchanges(summaries)) for work in works]
    assert [one.lengths for one in sent] == [[0, 0], [6, 0]]
    assert {run.keys.dtype for one in sent for run in one.sent} == {keys.dtype}
    count, (nothing, read) = gangs.attempt(others)
    assert (count, nothing) == (1, ([],))
    oracle.assert_same_bits(read[0][0], keys[[4, 2]])


def test_a_chunk_is_checked_before_it_is_sent():
    with pytest.raises(TypeError, match=r"chunk 0 of x is of type list"):
        job_of("i8")([[3, 4]], 0)
