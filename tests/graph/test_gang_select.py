"""Order statistics by gangs, and what becomes of them if a worker is lost or a source changes."""

from __future__ import annotations

import warnings
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours

import dask_gpusort
from dask_gpusort.plan import InputChunks, Workers, select
from dask_gpusort.table import Statistic

distributed = pytest.importorskip("distributed")

gangs = pytest.importorskip("support.gangs")
gang = pytest.importorskip("dask_gpusort.graph.gang.select")
member = pytest.importorskip("dask_gpusort.graph.gang.member")

Q = [0.05, 0.25, 0.5, 0.75, 0.95]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def in_rounds(rounds):
    """Plan so many rounds, if there are as many keys."""
    fetched = select.FETCHED_BYTES if rounds == 1 else 0
    return mock.patch.multiple(select, FETCHED_BYTES=fetched, LEAST_SAMPLES=1 << 9, MOST_ROUNDS=rounds)


def test_members_and_one_task_more(client):
    host = ours.make("f4", 9000, "small")
    x = gangs.placed(host, ((3000,) * 3,), [0, 1, 2])
    for found in (dask_gpusort.quantile(x, Q, strategy="samples"), dask_gpusort.median(x, strategy="samples")):
        graph = dict(dask.optimize(found)[0].dask)
        assert len([key for key in graph if not isinstance(key, tuple) or key[0] != x.name]) == 4
    text = dask_gpusort.explain_quantile(x, Q, strategy="samples").detail
    assert "gang: 3 members draw samples" in text
    assert "rounds" in text


@pytest.mark.parametrize("most", [0, 16])
@pytest.mark.parametrize("rounds", [2, 4])
def test_many_keys_inside_the_brackets_are_searched_in_further_rounds(gang, rounds, most):
    host = ours.make("i8", 30_000, "zipf")
    host[::3] = np.random.default_rng(0).integers(-(2**40), 2**40, 10_000)
    with in_rounds(rounds), mock.patch.object(select, "MOST_COMPARED", most):
        x = gang.placed(host, ((2000,) * 15,), [0, 1, 2])
        assert f"rounds    {rounds}," in dask_gpusort.explain_quantile(x, Q, strategy="samples").detail
        (found,) = gangs.found_by_gangs(dask_gpusort.quantile(x, Q, strategy="samples"))
    np.testing.assert_array_equal(found, np.quantile(host, Q))


def test_what_is_no_gang(client):
    x = da.from_array(np.arange(12_000.0).reshape(4000, 3), chunks=(1000, 2))
    # Lanes in different chunks, chunks of whole lanes, and statistics that only begin with samples.
    for axis, strategy in ((0, "samples"), (1, "auto"), (None, "rechunk")):
        assert dask_gpusort.explain_quantile(x, Q, axis, strategy=strategy).exchange != "gang"
    parts = dask_gpusort.partition(x.rechunk((1000, 3)), 7, 0)
    assert (parts.compute()[7] == [21, 22, 23]).all()
    with dask.config.set({"gpusort.exchange": "auto"}):
        assert dask_gpusort.explain_quantile(x[:, 0], Q, strategy="samples").exchange != "gang"
    with (
        dask.config.set({"scheduler": "threads"}),
        pytest.raises(ValueError, match=r"needs a distributed Client.*exchange='auto'"),
    ):
        dask_gpusort.median(x[:, 0], strategy="samples")


@pytest.mark.parametrize(("memory", "fits"), [(None, True), (5, True), (4.99, False)])
def test_a_gang_needs_memory_for_samples_and_keys_inside(memory, fits):
    lanes = select.Lanes(1, 10**9, 1, 4, 1, 8, 1 << 27, True)
    plan = select.make_select_plan(lanes, 5, Workers(2, devices=True), True, "samples")
    moved = int(plan.moved_bytes)
    assert moved < lanes.bytes / 10
    workers = Workers(2, memory and int(memory * (moved + 1)), devices=True)
    held = InputChunks([250] * 4, workers=["a", "b", "b", "a"])
    assert select.gang_of_selection(plan, held, workers, "auto") == (((0, 3), (1, 2)) if fits else ())
    for other in (InputChunks([250] * 4), InputChunks([250] * 4, workers=["a", "b", "b", None])):
        assert select.gang_of_selection(plan, other, workers, "auto") == ()
    assert select.gang_of_selection(plan, held, workers, "device") == ()


# Workers that are lost, and errors.

ARRAY = np.random.default_rng(0).normal(size=30_000)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_process_is_killed_between_exchanges(client, tmp_path, rank):
    with in_rounds(2):
        found = dask_gpusort.quantile(da.from_array(ARRAY, chunks=3000), Q, strategy="samples")
    got = gangs.computed_despite_a_kill(client, tmp_path, found, rank, 2)
    np.testing.assert_array_equal(got, np.quantile(ARRAY, Q))


def test_wrong_chunks_are_refused(gang):
    x = da.from_array(ARRAY, chunks=3000).map_blocks(lambda block: block[:-1], dtype="f8", meta=np.empty(0))
    with pytest.raises(ValueError, match="chunk size says 3000"):
        dask_gpusort.median(x, strategy="samples").compute()


def works_of(*chunks, sources=((0,),)):
    """The works of members, in three rounds, which leave keys inside the last brackets."""
    shapes, dtype = tuple((len(chunk),) for chunk in chunks), chunks[0].dtype
    job = gang.SelectJob(Statistic.quantiles(Q), (0,), (10.0, 4.0, 3.0), dtype, shapes, sources, ())
    return [job([chunks[number] for number in own], rank) for rank, own in enumerate(sources)]


@pytest.mark.parametrize("sources", [((0, 1, 2, 3),), ((0, 2), (1, 3)), ((1,), (0,), (2, 3))])
def test_an_attempt_may_be_repeated(sources):
    works = works_of(*np.split(ARRAY, [0, 9000, 20_000]), sources=sources)
    # Samples, twice counts and samples, counts and keys.
    assert [gangs.attempt(works) for _ in range(2)] == [7, 7]
    assert sum(len(one.keys) for part in works[0].inside for one in part) > 10
    for work in works:
        work.finish()
    ((found,), *others) = [work.arrays for work in works]
    np.testing.assert_array_equal(found, np.quantile(ARRAY, Q))
    assert others == [()] * (len(sources) - 1)


def test_a_source_that_changes_is_found_out():
    keys = ARRAY.copy()
    (work,) = works_of(keys)
    (same,), (shorter,) = works_of(keys.copy()), works_of(keys[1:])
    assert work.digest() == same.digest() != shorter.digest()
    with pytest.raises(RuntimeError, match=r"member 1 has other chunks .*changes when it is computed again"):
        next(work.exchanges(member.Start([work.summaries] * 2, [1])))
    keys[:] = 0
    with pytest.raises(RuntimeError, match="counts of the keys do not fit their samples"):
        gangs.attempt([work])
