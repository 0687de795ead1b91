"""Order statistics by samples: passes over the source, sources that are held or read again, clusters."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from dask.core import get_dependencies
from support import strategies as ours
from support.sorting import computed

import dask_gpusort
from dask_gpusort.drivers.turns import Turn, join_turn, split_turn
from dask_gpusort.functions.program import Shared
from dask_gpusort.plan import select

Q = [0.05, 0.25, 0.5, 0.75, 0.95]


class Source:
    """Chunks that are made by tasks, and counted."""

    def __init__(self, array, chunks):
        self.array, self.chunks = array, chunks
        self.made = Counter()

    def __call__(self, block_info=None):
        ((start, stop),) = block_info[None]["array-location"]
        self.made[start] += 1
        return self.array[start:stop].copy()

    def __dask_tokenize__(self):
        return ("source", id(self))

    def darr(self):
        sizes = da.core.normalize_chunks(self.chunks, self.array.shape)
        return da.map_blocks(self, chunks=sizes, dtype=self.array.dtype, meta=self.array[:0])


@pytest.mark.parametrize(("share", "passes"), [(1, 1), (0, 2)])
def test_a_source_is_made_once_if_it_is_held_and_twice_if_it_is_read_again(share, passes):
    array = ours.make("f8", 20_000, "zipf")
    source = Source(array, 1000)
    with dask.config.set({"gpusort.held_share": share}):
        found = dask_gpusort.quantile(source.darr(), Q, strategy="samples")
    assert not source.made
    np.testing.assert_array_equal(computed(found), np.quantile(array, Q))
    assert set(source.made.values()) == {passes}
    assert len(source.made) == 20


def test_a_list_of_quantiles_takes_the_passes_of_one():
    array = ours.make("f4", 20_000, "bits")
    array[array != array] = 0
    source = Source(array, 1000)
    many = np.linspace(0, 1, 101)
    found = dask_gpusort.quantile(source.darr(), many, strategy="samples")
    np.testing.assert_array_equal(computed(found), np.quantile(array, many))
    assert set(source.made.values()) == {1}


def test_no_chunk_of_a_source_that_is_read_again_waits_for_the_other_pass():
    array = np.random.default_rng(0).permutation(40 * 1000)
    with dask.config.set({"gpusort.held_share": 0}):
        found = dask_gpusort.median(Source(array, 1000).darr(), strategy="samples")
    graph = dict(found.__dask_graph__())
    readers = Counter(key for task in graph.values() for key in getattr(task, "dependencies", ()))
    made = [key for key in graph if isinstance(key, tuple) and not key[0].startswith(("select-", "median-"))]
    assert len(made) == 80
    assert all(readers[key] == 1 for key in made)
    # No chunk of the second pass is made before the brackets are known.
    waits = [key for key in made if graph[key].dependencies]
    assert len(waits) == 40
    (gate,) = {key for chunk in waits for key in graph[chunk].dependencies}
    scans = [key for key in graph if isinstance(key, tuple) and key[0].startswith("select-scan-0-")]
    assert get_dependencies(graph, gate) == set(scans)


def test_the_chunks_of_a_persisted_source_are_never_read_again():
    x = da.from_array(np.arange(10_000.0), chunks=1000).persist()
    with dask.config.set({"gpusort.held_share": 0}):
        assert "held in memory" in dask_gpusort.explain_quantile(x, strategy="samples").detail
        assert computed(dask_gpusort.median(x, strategy="samples")) == 4999.5


@pytest.mark.parametrize("most", [0, 16])
@pytest.mark.parametrize("inside", [0, 1e9])
@pytest.mark.parametrize("rounds", [2, 4])
def test_many_keys_inside_the_brackets_are_searched_in_further_rounds(rounds, inside, most):
    array = ours.make("i8", 30_000, "zipf")
    array[::3] = np.random.default_rng(0).integers(-(2**40), 2**40, 10_000)
    source = Source(array, 2000)
    with (
        mock.patch.object(select, "FETCHED_BYTES", 0),
        mock.patch.object(select, "MOST_ROUNDS", rounds),
        mock.patch.object(select, "MOST_COMPARED", most),
        mock.patch.object(select, "MOST_INSIDE", inside),
        dask.config.set({"gpusort.held_share": 0}),
    ):
        x = source.darr()
        text = dask_gpusort.explain_quantile(x, Q, strategy="samples").detail
        found = dask_gpusort.quantile(x, Q, strategy="samples")
    assert f"rounds    {rounds}," in text
    np.testing.assert_array_equal(computed(found), np.quantile(array, Q))
    assert set(source.made.values()) == {2}


@pytest.mark.parametrize("quantiles", [1, 40])
def test_a_source_that_changes_is_found_out(quantiles):
    calls = Counter()

    def change(block, block_id=None):
        calls[block_id] += 1
        return block + calls[block_id]

    x = da.from_array(np.arange(10_000.0), chunks=1000).map_blocks(change, dtype=float, meta=np.empty(0))
    with dask.config.set({"gpusort.held_share": 0}):
        found = dask_gpusort.quantile(x, np.linspace(0.1, 0.9, quantiles), strategy="samples")
    with pytest.raises(RuntimeError, match=r"chunk \d is not what it was.*persist it"):
        computed(found)


def test_tasks_grow_with_the_chunks_alone():
    def tasks(chunks):
        return len(dask_gpusort.quantile(da.zeros(10**7, chunks=10**7 // chunks), Q, strategy="samples").dask)

    assert tasks(200) - tasks(100) == 100 * 3


def test_rows_of_a_note_are_arrays_of_a_message():
    turn = Turn(Shared(np.arange(3), np.arange(2.0)))
    kept, (rows,) = split_turn(turn)
    assert rows is turn.note.rows
    note = join_turn(kept, [rows]).note
    assert note.rows is rows
    assert note.counts.tolist() == [0, 1, 2]


# On a cluster.


@pytest.mark.parametrize("share", [0, 1])
def test_on_a_cluster(on_cluster, share):
    array = ours.make("f4", 50_000, "special")
    x = da.from_array(array, chunks=4000)
    with dask.config.set({"gpusort.held_share": share}):
        found = dask_gpusort.nanquantile(x, Q, strategy="samples").compute()
        unknown = dask_gpusort.nanmedian(x[x > 0], strategy="samples").compute()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.nanquantile(array, Q))
        np.testing.assert_array_equal(unknown, np.nanmedian(array[array > 0]))
