"""Order statistics by gangs, and what becomes of them if a worker is lost or a source changes."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours

import dask_gpusort
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.functions.selection import selection_steps
from dask_gpusort.plan import InputChunks, Workers, select
from dask_gpusort.table import Statistic

distributed = pytest.importorskip("distributed")

gangs = pytest.importorskip("support.gangs")
drivers = pytest.importorskip("dask_gpusort.drivers.gang")

Q = [0.05, 0.25, 0.5, 0.75, 0.95]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def test_members_and_one_task_more(client):
    host = ours.make("f4", 9000, "small")
    x = gangs.placed(host, ((3000,) * 3,), [0, 1, 2])
    for found in (dask_gpusort.quantile(x, Q, strategy="samples"), dask_gpusort.median(x, strategy="samples")):
        graph = dict(dask.optimize(found)[0].dask)
        assert len([key for key in graph if not isinstance(key, tuple) or key[0] != x.name]) == 4
    text = dask_gpusort.explain_quantile(x, Q, strategy="samples").detail
    assert "gang: 3 members draw samples" in text
    assert "rounds" in text


def test_what_is_no_gang(client):
    x = da.from_array(np.arange(12_000.0).reshape(4000, 3), chunks=(1000, 2))
    # Lanes in different chunks, chunks of whole lanes, and statistics that only begin with samples.
    for axis, strategy in ((0, "samples"), (1, "auto"), (None, "rechunk")):
        assert dask_gpusort.explain_quantile(x, Q, axis, strategy=strategy).exchange != "gang"
    parts = dask_gpusort.partition(x.rechunk((1000, 3)), 7, 0)
    assert (parts.compute()[7] == [21, 22, 23]).all()
    with dask.config.set({"gpusort.exchange": "auto"}):
        assert dask_gpusort.explain_quantile(x[:, 0], Q, strategy="samples").exchange != "gang"


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


def test_wrong_chunks_are_refused(gang):
    x = da.from_array(ARRAY, chunks=3000).map_blocks(lambda block: block[:-1], dtype="f8", meta=np.empty(0))
    with pytest.raises(ValueError, match="its array says \\(3000,\\)"):
        dask_gpusort.median(x, strategy="samples").compute()


def work_of(chunk):
    """The work of a member alone, in three rounds."""
    steps = selection_steps(Statistic.quantiles(Q), (0,), chunk.dtype, False, (10.0, 4.0, 3.0), (False, False))
    declared = declared_chunks("the input", chunk.dtype, ((len(chunk),),))
    return drivers.ProgramJob(steps, ((len(steps) - 1, 0),), tuple(declared), *(((0,),),) * 3, ((),))([chunk], 0)


def test_a_source_that_changes_is_found_out():
    keys = ARRAY.copy()
    work, same, shorter = map(work_of, (keys, keys.copy(), keys[1:]))
    assert work.checksum() == same.checksum() != shorter.checksum()
    keys[:] = 0
    with pytest.raises(RuntimeError, match="counts of the keys do not fit their samples"):
        gangs.attempt([work])
