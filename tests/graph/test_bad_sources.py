"""Sources that raise, and whose chunks are not what their arrays say, under every kind of function and exchange."""

from __future__ import annotations

from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support.sorting import computed, groups

import dask_gpusort

pytest.importorskip("distributed")

SIZE, CHUNK, BAD = 4000, 400, 3
#: Each chunk is sorted, as merges want them.
ARRAY = np.sort(np.random.default_rng(0).integers(0, 1000, (SIZE // CHUNK, CHUNK))).ravel()
GOOD = da.from_array(ARRAY, chunks=CHUNK)


class OwnError(Exception):
    """Of the user."""


def fail(block):
    raise OwnError("the file is not there")


def source(change):
    """An array whose chunk `BAD` is changed."""

    def block(part, block_id=None):
        return change(part) if block_id == (BAD,) else part

    return GOOD.map_blocks(block, dtype=ARRAY.dtype, meta=ARRAY[:0])


FUNCTIONS = {
    "sort": dask_gpusort.sort,
    "argsort": dask_gpusort.argsort,
    "tasks": lambda x: dask_gpusort.sort(x, exchange="tasks"),
    "device": lambda x: dask_gpusort.sort(x, exchange="device"),
    "join": lambda x: dask_gpusort.sort(x, exchange="join"),
    "radix": lambda x: dask_gpusort.sort(x, method="radix"),
    "less": lambda x: dask_gpusort.sort(x, less=np.less),
    "lexsort": lambda x: dask_gpusort.lexsort([x, GOOD]),
    "last key": lambda x: dask_gpusort.lexsort([GOOD, x]),
    "rechunked key": lambda x: dask_gpusort.lexsort([x, GOOD.rechunk(500)]),
    "partition": lambda x: dask_gpusort.partition(x, 50),
    "quantile": lambda x: dask_gpusort.quantile(x, 0.3),
    "samples": lambda x: dask_gpusort.quantile(x, 0.3, strategy="samples"),
    "joined quantile": lambda x: dask_gpusort.quantile(x, 0.3, strategy="join"),
    "topk": lambda x: dask_gpusort.topk(x, 5),
    "unique": dask_gpusort.unique,
    "nunique": dask_gpusort.nunique,
    "rank": dask_gpusort.rank,
    "setdiff1d": lambda x: dask_gpusort.setdiff1d(x, GOOD),
    "take": lambda x: dask_gpusort.take(x, GOOD),
    "take_along_axis": lambda x: dask_gpusort.take_along_axis(x, GOOD, 0),
}
#: Functions whose tasks know no number of the chunk.
UNNUMBERED = {
    "check": dask_gpusort.is_sorted,
    "key": lambda x: dask_gpusort.sort(x, key=np.negative),
    "keys": lambda x: dask_gpusort.sort(x, key=lambda block: (block, block)),
}
#: Functions of the rows of a table.
OF_ROWS = {
    "whole": dask_gpusort.sort,
    "indices": lambda x: dask_gpusort.argsort(x.T, 0),
    "rechunked": lambda x: dask_gpusort.sort(x, 0),
    "joined": lambda x: dask_gpusort.sort(x, 0, exchange="join"),
    "flat": lambda x: dask_gpusort.sort(x, None),
    "checked": dask_gpusort.is_sorted,
    "lanes": lambda x: dask_gpusort.quantile(x, 0.3, 1),
    "values": lambda x: dask_gpusort.sort_by_key(GOOD.reshape(100, 40), x)[1],
}
#: Of a chunk that was lost with its counts, and changed when both were made again, the size is wrong too.
SHORTER = (
    lambda part: part[1:],
    ValueError,
    r"shape \(399,\) where its array says \(400,\): .*true chunks=, or call compute_chunk_sizes\(\);.* persist it",
)
FAULTS = {
    "dtype": (lambda part: part.astype("f8"), TypeError, "dtype float64 where its array says int64: give map_blocks"),
    "masked": (lambda part: np.ma.masked_equal(part, part[3]), TypeError, r"masked array.*dask\.array\.ma\.filled"),
    "column": (lambda part: part[:, None], ValueError, r"shape \(400, 1\) where its array is 1-dimensional: let its"),
    "number": (lambda part: part[0], ValueError, r"shape \(\) where its array is 1-dimensional: let its"),
    "list": (list, TypeError, "is of type list where an array is needed: let its function return one"),
    "none": (lambda part: None, TypeError, "is of type NoneType where an array is needed"),
    "shorter": SHORTER,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_error_names_the_chunk_that_is_wrong(name, fault):
    change, error, message = FAULTS[fault]
    with groups(4), pytest.raises(error, match=f"chunk {BAD} of the input .*{message}"):
        computed(FUNCTIONS[name](source(change)))


#: Values of another dtype move as they are.
OTHERS = [*product(UNNUMBERED, ("dtype", "masked", "list", "none")), *product(OF_ROWS, ("dtype", "masked"))]


@pytest.mark.parametrize(("name", "fault"), [case for case in OTHERS if case != ("values", "dtype")])
def test_an_error_of_a_chunk_without_a_number(name, fault):
    change, error, message = FAULTS[fault]
    x = source(change)
    found = UNNUMBERED[name](x) if name in UNNUMBERED else OF_ROWS[name](x.reshape(100, 40))
    with groups(4), pytest.raises(error, match=f"chunk.* {message}"):
        computed(found)


def test_an_error_names_a_chunk_of_several_dimensions():
    x = source(lambda part: part.astype("f8")).reshape(100, 40)
    with pytest.raises(TypeError, match=rf"chunk \({BAD}, 0\) of the input has dtype float64"):
        computed(dask_gpusort.sort(x, 0))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_of_the_user_arrives_from_threads(name):
    with groups(4), pytest.raises(OwnError, match="the file is not there"):
        FUNCTIONS[name](source(fail)).compute(scheduler="threads")


@pytest.mark.parametrize("exchange", ["runs", "tasks", "gather", "gang", "join"])
def test_the_error_of_the_user_arrives_from_a_cluster_that_then_sorts(on_cluster, exchange):
    with groups(4), dask.config.set({"gpusort.exchange": exchange}):
        for function in (dask_gpusort.sort, dask_gpusort.unique):
            with pytest.raises(OwnError, match="the file is not there"):
                function(source(fail)).compute()
        oracle.assert_same_bits(dask_gpusort.sort(GOOD).compute(), np.sort(ARRAY))


SORTED, MANY = dask_gpusort.sort(GOOD), da.from_array(np.arange(SIZE), chunks=CHUNK)
#: Functions that give an array another name in errors: positions, needles, values. The name, and the call.
SECONDS = {
    "take": ("the indices", lambda x: dask_gpusort.take(MANY, x)),
    "take_along_axis": ("the indices", lambda x: dask_gpusort.take_along_axis(MANY, x, 0)),
    "put_along_axis": ("the indices", lambda x: dask_gpusort.put_along_axis(MANY, x, GOOD, 0)),
    "values": ("the values", lambda x: dask_gpusort.put_along_axis(MANY, MANY, x, 0)),
    "searchsorted": ("the needles", lambda x: dask_gpusort.searchsorted(SORTED, x)),
    "keys": ("the sorted keys", lambda x: dask_gpusort.searchsorted(x, MANY)),
    "merge_asof": ("the needles", lambda x: dask_gpusort.merge_asof(x, SORTED)),
    "join_indices": ("the needles", lambda x: dask_gpusort.join_indices(x, MANY, "left")[0]),
    "interp": ("x", lambda x: dask_gpusort.interp(x, SORTED, GOOD)),
    "xp": ("xp", lambda x: dask_gpusort.interp(MANY, x, GOOD)),
    "fp": ("fp", lambda x: dask_gpusort.interp(MANY, SORTED, x)),
    "isin": ("the elements", lambda x: dask_gpusort.isin(x, GOOD)),
    "merge_sorted": ("array 0", dask_gpusort.merge_sorted),
    "sort_by_key": ("values 0", lambda x: dask_gpusort.sort_by_key(MANY, x)[1]),
    "topk": ("values 0", lambda x: dask_gpusort.topk(MANY, SIZE, values=[x])[1]),
}


#: Values that are exchanged have been converted to the dtype of the array, and companions keep theirs. Of lists that a
#: write has in one memory, the elements are taken for chunks, and refused as such. All that is joined is the input.
EXCEPTIONS = {
    *(("values", "tasks", "dtype"), *product(("sort_by_key", "topk"), ("auto", "tasks", "join"), ("dtype",))),
    *product(("values", "put_along_axis"), ("auto", "join"), ("list",)),
    *product(("sort_by_key", "merge_sorted"), ("join",), FAULTS),
}
CASES = [case for case in product(SECONDS, ("auto", "tasks", "join"), FAULTS) if case not in EXCEPTIONS]


@pytest.mark.parametrize(("name", "exchange", "fault"), CASES)
def test_an_error_names_the_chunk_of_another_array(name, exchange, fault, monkeypatch):
    if exchange == "tasks":
        monkeypatch.setattr("dask_gpusort.graph.runtime.host_memory", lambda: 1000)  # keys are not joined
    (array, function), (change, error, message) = SECONDS[name], FAULTS[fault]
    count = None if exchange == "join" else 4
    with groups(count), dask.config.set({"gpusort.exchange": exchange}), pytest.raises(error, match=message) as raised:
        computed(function(source(change)))
    assert f"chunk {BAD} of {array} " in str(raised.value)


@pytest.mark.parametrize("name", SECONDS)
def test_an_error_names_the_chunk_of_another_array_on_a_cluster(on_cluster, name):
    (array, function), (change, error, message) = SECONDS[name], SHORTER
    with groups(4), dask.config.set({"gpusort.exchange": "runs"}):
        with pytest.raises(error, match=f"chunk {BAD} of {array} .*{message}"):
            function(source(change)).compute()
        assert function(GOOD).compute().shape == (SIZE,)
