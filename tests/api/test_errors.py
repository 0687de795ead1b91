"""Errors have NumPy's types, name the remedy, and are raised as early as possible."""

from __future__ import annotations

import os

import dask
import dask.array as da
import numpy as np
import pytest
from dask.core import flatten
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort

FUNCTIONS = [dask_gpusort.sort, dask_gpusort.argsort, dask_gpusort.sort_by_key, dask_gpusort.explain]


@pytest.fixture(params=FUNCTIONS, ids=lambda function: function.__name__)
def function(request):
    return request.param


@pytest.fixture(autouse=True)
def building_computes_nothing(request, raise_if_computes):
    """Building a graph computes nothing. Tests of errors at compute time are exempt by name."""
    if "at_compute_time" not in request.node.name:
        with raise_if_computes():
            yield
    else:
        yield


def raises_as_numpy(error, match, function, *args, **kwargs):
    with pytest.raises(error, match=match):
        function(*args, **kwargs)


@pytest.mark.parametrize("axis", [2, -3, 10**9])
def test_axis_out_of_bounds(function, axis):
    raises_as_numpy(
        np.exceptions.AxisError, f"use an axis.*{axis} is out of bounds.*2", function, da.zeros((2, 3)), axis=axis
    )
    with pytest.raises(np.exceptions.AxisError):
        np.sort(np.zeros((2, 3)), axis)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("function", [one for one in FUNCTIONS if one is not dask_gpusort.argsort])
def test_arrays_without_dimensions(function, axis):
    remedy = "reshape" if function is dask_gpusort.sort_by_key else "axis=None"
    raises_as_numpy(np.exceptions.AxisError, remedy, function, da.from_array(np.array(1.0)), axis=axis)
    with pytest.raises(np.exceptions.AxisError):
        np.sort(np.array(1.0), axis)


@pytest.mark.parametrize("axis", [1, -2])
def test_positions_of_arrays_without_dimensions(axis):
    # NumPy accepts the axes -1 and 0 here, and so do we.
    x = da.from_array(np.array(1.0))
    for ours_of, numpys in ((dask_gpusort.argsort, np.argsort), (dask_gpusort.lexsort, np.lexsort)):
        one = x if numpys is np.argsort else (x,)
        remedy = "axis=None" if numpys is np.argsort else "reshape"
        raises_as_numpy(np.exceptions.AxisError, f"out of bounds.*{remedy}", ours_of, one, axis)
        raises_as_numpy(np.exceptions.AxisError, "out of bounds", numpys, np.array(1.0) if one is x else (1.0,), axis)


@pytest.mark.parametrize("axis", [1.0, "0", (0,)])
def test_axis_that_is_not_an_integer(function, axis):
    with pytest.raises(TypeError):
        np.sort(np.zeros(3), axis)
    with pytest.raises(TypeError):
        function(da.zeros(3), axis=axis)


def test_axis_may_be_any_integer_type():
    x = da.zeros((2, 3), chunks=1)
    assert dask_gpusort.sort(x, np.int8(0)).name == dask_gpusort.sort(x, 0).name


def test_order_without_fields(function):
    raises_as_numpy(ValueError, "Cannot specify order.*no fields.*leave", function, da.zeros(3), order="f0")


def test_unknown_field(function):
    x = da.from_array(np.zeros(3, ours.PLAIN_RECORD))
    for order in ("wait", ["name", "wait"]):
        raises_as_numpy(ValueError, "unknown field name.*wait.*'name', 'weight', 'count'", function, x, order=order)


def test_field_named_twice(function):
    x = da.from_array(np.zeros(3, ours.PLAIN_RECORD))
    raises_as_numpy(ValueError, "duplicate field", function, x, order=["name", "name"])


@pytest.mark.parametrize("stable", [False, True])
def test_kind_combined_with_stable(function, stable):
    message = "`kind` and keyword parameters can't be provided at the same time"
    raises_as_numpy(ValueError, f"{message}: use only `stable`", function, da.zeros(3), kind="stable", stable=stable)
    raises_as_numpy(ValueError, message, np.sort, np.zeros(3), kind="stable", stable=stable)


@pytest.mark.parametrize("kind", ["bubble", "", "\u00e4"])
def test_unknown_kind(function, kind):
    raises_as_numpy(ValueError, f"kind must be one of.*stable.*{kind}", function, da.zeros(3), kind=kind)
    raises_as_numpy(ValueError, "kind must be one of", np.sort, np.zeros(3), kind=kind)


@pytest.mark.parametrize("kind", [0, ["stable"], True])
def test_kind_that_is_not_a_string(function, kind):
    raises_as_numpy(TypeError, "kind must be str, not.*'stable'", function, da.zeros(3), kind=kind)
    raises_as_numpy(TypeError, "kind must be str", np.sort, np.zeros(3), kind=kind)


@pytest.mark.parametrize(
    ("option", "value"), [("method", "quick"), ("exchange", "shuffle"), ("method", None), ("exchange", "")]
)
def test_unknown_option_value(function, option, value):
    raises_as_numpy(ValueError, f"{option} must be one of 'auto'", function, da.zeros(3), **{option: value})


def test_unknown_exchange_in_the_configuration():
    x = da.zeros(30, chunks=3)
    with (
        dask.config.set({"gpusort.exchange": "pigeon"}),
        pytest.raises(ValueError, match=r"exchange.*'gather'.*pigeon"),
    ):
        dask_gpusort.sort(x)


@pytest.mark.parametrize("groups_asked", [0, -1, "many", 2.5])
def test_invalid_groups_in_the_configuration(groups_asked):
    x = da.zeros(30, chunks=3)
    with (
        dask.config.set({"gpusort.groups": groups_asked}),
        pytest.raises((ValueError, TypeError), match=r"gpusort\.groups"),
    ):
        dask_gpusort.sort(x)


@pytest.mark.parametrize("dtype", ["S4", "U4", "c16", "O", "V3", np.longdouble, ours.PLAIN_RECORD])
def test_radix_for_dtypes_without_codes(function, dtype):
    x = da.from_array(np.zeros(9, dtype), chunks=3, name=False)
    raises_as_numpy(TypeError, "radix.*(use|method=).*('auto'|'merge')", function, x, method="radix")


def test_radix_for_dtypes_without_codes_in_one_chunk(function):
    x = da.from_array(np.zeros(9, "S4"), chunks=-1)
    raises_as_numpy(TypeError, "radix", function, x, method="radix")


def test_masked_arrays(function):
    x = da.ma.masked_equal(da.arange(6, chunks=2), 3)
    raises_as_numpy(TypeError, "masked.*fill", function, x)


def test_masked_values():
    x = da.arange(6, chunks=2)
    raises_as_numpy(TypeError, "masked.*fill", dask_gpusort.sort_by_key, x, da.ma.masked_equal(x, 3))


def mislabelled(array, chunks, make, dtype=None):
    """An array whose chunks differ from its meta: `make` changes each chunk."""
    x = da.from_array(array, chunks=chunks, name=False)
    dtype = x.dtype if dtype is None else dtype
    return x.map_blocks(make, dtype=dtype, meta=np.empty((0,) * x.ndim, dtype))


def mask_threes(block):
    return np.ma.masked_equal(block, 3)


def narrow(block):
    return block.astype(np.uint32)


ROW = np.arange(12) % 5
TRUE = da.from_array(ROW, chunks=3)
STRATEGIES = {
    "sort": dask_gpusort.sort,
    "argsort": dask_gpusort.argsort,
    "tasks": lambda x: dask_gpusort.sort(x, exchange="tasks"),
    "device": lambda x: dask_gpusort.sort(x, exchange="device"),
    "join": lambda x: dask_gpusort.sort(x, exchange="join"),
    "less": lambda x: dask_gpusort.sort(x, less=np.less),
    "merge": dask_gpusort.merge_sorted,
    "check": dask_gpusort.is_sorted,
    "several": lambda x: dask_gpusort.lexsort((TRUE, x)),
    "key": lambda x: dask_gpusort.sort(x, key=np.negative),
    "keys": lambda x: dask_gpusort.sort(x, key=lambda block: (block, block)),
    "rechunked": lambda x: dask_gpusort.lexsort((TRUE.rechunk(4), x)),
}
ROW_STRATEGIES = {
    "whole": lambda x: dask_gpusort.sort(x, 0),
    "indices": lambda x: dask_gpusort.argsort(x, 0),
    "rechunked": dask_gpusort.sort,
    "join": lambda x: dask_gpusort.sort(x, exchange="join"),
    "flat": lambda x: dask_gpusort.sort(x, None),
    "check": dask_gpusort.is_sorted,
}
MISMATCHES = [
    (mask_threes, r"masked array.*dask\.array\.ma\.filled"),
    (narrow, r"dtype uint32.*says int64.*meta=.*astype"),
]


@pytest.mark.parametrize(("make", "message"), MISMATCHES, ids=["masked", "dtype"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_chunks_that_contradict_the_meta_at_compute_time(strategy, make, message):
    found = STRATEGIES[strategy](mislabelled(ROW, 3, make))
    with pytest.raises(TypeError, match=f"(chunk|key makes).*{message}"):
        computed(found)


@pytest.mark.parametrize(("make", "message"), MISMATCHES, ids=["masked", "dtype"])
@pytest.mark.parametrize("strategy", ROW_STRATEGIES)
def test_chunks_of_rows_that_contradict_the_meta_at_compute_time(strategy, make, message):
    found = ROW_STRATEGIES[strategy](mislabelled(np.tile(ROW, (4, 1)), (4, 3), make))
    with pytest.raises(TypeError, match=f"chunk.*{message}"):
        computed(found)


def test_message_names_the_chunk_that_contradicts_the_meta_at_compute_time():
    for make in (mask_threes, narrow):
        x = da.concatenate([da.zeros(3, dtype="i8"), mislabelled(ROW[:3], 3, make)])
        with pytest.raises(TypeError, match="chunk 1 of the input"):
            computed(dask_gpusort.sort(x))


@pytest.mark.parametrize("axes", [(12,), (4, 3)])
def test_masked_chunks_of_values_at_compute_time(axes):
    array = ROW.reshape(axes)
    values = mislabelled(array, 3, mask_threes)
    with pytest.raises(TypeError, match="chunk of .*masked array"):
        computed(dask_gpusort.sort_by_key(da.from_array(array, chunks=3), values)[1])


def test_strings_longer_than_the_meta_at_compute_time():
    # The meta of astype(str) does not give the length of the strings.
    words = np.array(["bb", "a", "dddd", "c"])
    x = mislabelled(words, 2, lambda block: block, "U1")
    for chunks in (2, 3):
        np.testing.assert_array_equal(computed(dask_gpusort.sort(x, chunks=chunks)), np.sort(words))
    moved = dask_gpusort.sort_by_key(da.arange(4, chunks=2), x, descending=True)[1]
    np.testing.assert_array_equal(computed(moved), words[::-1])
    # Dask would truncate the strings when it joins chunks.
    with pytest.raises(TypeError, match="<U4 where its array says <U1"):
        computed(dask_gpusort.sort(mislabelled(words.reshape(1, 4), 2, lambda block: block, "U1")))


def test_byte_order_that_contradicts_the_meta_at_compute_time():
    x = mislabelled(ROW, 3, lambda block: block.astype(">i8"))
    np.testing.assert_array_equal(computed(dask_gpusort.sort(x)), np.sort(ROW))


class OtherArray:
    """A chunk of an array library that is neither NumPy nor CuPy; enough of it to build a graph."""

    __array_priority__ = 100
    dtype, ndim, shape, size, nbytes = np.dtype("f8"), 1, (0,), 0, 0

    def __array_function__(self, *args, **kwargs):
        return NotImplemented


def test_chunks_of_another_library(function):
    x = da.zeros(4, chunks=2)
    x._meta = OtherArray()
    raises_as_numpy(TypeError, "OtherArray.*map_blocks", function, x)


@pytest.mark.parametrize("chunks", ["many", object(), [[1, 2], {3}], 2.5, {0: "x"}, (5, 6), {2: 3}, ((3, 3),), 0, -2])
def test_bad_chunks(function, chunks):
    with pytest.raises((TypeError, ValueError, np.exceptions.AxisError), match="chunks|[Ss]hape|axis"):
        function(da.zeros(10, chunks=3), chunks=chunks)


@pytest.mark.parametrize("chunks", [[5, 5], [[5, 5]], np.array([4, 6]), ([2, 8],), {0: [7, 3]}])
def test_valid_unhashable_chunks_are_accepted(chunks):
    # dask.array.rechunk accepts some of these and fails on others.
    x = da.zeros(10, chunks=3)
    try:
        found = dask_gpusort.sort(x, chunks=chunks)
    except (TypeError, ValueError) as error:
        assert "chunks" in str(error).lower()
    else:
        assert sum(found.chunks[0]) == 10


def test_chunks_of_unknown_sizes(function):
    x = ours.forget_sizes(da.zeros(10, chunks=3))
    raises_as_numpy(ValueError, "compute_chunk_sizes", function, x, chunks=5)


def test_axis_none_with_unknown_sizes():
    x = ours.forget_sizes(da.zeros((10, 2), chunks=3))
    for function in (dask_gpusort.sort, dask_gpusort.argsort):
        raises_as_numpy(ValueError, "compute_chunk_sizes", function, x, None)


@pytest.mark.parametrize(
    ("keys", "values"),
    [((4,), (5,)), ((4,), ()), ((2, 3), (2,)), ((2, 3), (3, 2)), ((2, 3), (2, 3, 1)), ((4,), (1, 4))],
)
def test_values_of_other_shapes(keys, values):
    raises_as_numpy(
        ValueError,
        "values 0.*do not fit.*shape",
        dask_gpusort.sort_by_key,
        da.zeros(keys, chunks=2),
        da.zeros(values, chunks=2),
    )


def test_message_names_the_values_of_the_wrong_shape():
    x = da.zeros(4, chunks=2)
    raises_as_numpy(ValueError, "values 1 ", dask_gpusort.sort_by_key, x, x, da.zeros(5))


def test_values_with_different_unknown_chunks():
    x, y = (ours.forget_sizes(da.zeros(12, chunks=size)) for size in (3, 4))
    raises_as_numpy(ValueError, "compute_chunk_sizes", dask_gpusort.sort_by_key, x, y)


def test_runs_without_a_client(function):
    raises_as_numpy(ValueError, "runs.*Client.*exchange='auto'", function, da.zeros(10, chunks=3), exchange="runs")


def test_key_that_is_not_a_function(function):
    raises_as_numpy(TypeError, "key must be a function", function, da.zeros(3, chunks=1), key="name")


def test_key_that_changes_the_shape(function):
    for key in (lambda block: block[..., None], lambda block: 3.0, lambda block: (block, block[..., None])):
        message = r"key must return an array.*for a chunk of shape \(0, 0\) it returned (an array of shape|float)"
        raises_as_numpy(ValueError, message, function, da.zeros((4, 2), chunks=2), key=key)


def test_key_that_fails_for_an_empty_chunk(function):
    with pytest.raises(ValueError, match="zero-size") as found:
        function(da.zeros(4, chunks=2), key=np.max)
    assert found.value.__notes__ == ["key was called with an empty chunk, to find the dtype of its result."]


def test_order_with_a_key_of_several_arrays(function):
    x = da.zeros(4, chunks=2)
    for part in (np.int32, np.float64, object):
        raises_as_numpy(ValueError, "order", function, x, key=lambda b, part=part: (b, b.astype(part)), order="key0")


def test_key_that_changes_the_shape_at_compute_time():
    found = dask_gpusort.sort(da.zeros(4, chunks=2), key=lambda block: block[:1])
    with pytest.raises(ValueError, match="key must return an array"):
        computed(found)


def test_wrong_chunk_sizes_at_compute_time():
    x = da.zeros(12, chunks=4).map_blocks(lambda block: block[:-1], dtype="f8", meta=np.empty(0))
    for options in ({}, {"exchange": "tasks"}, {"exchange": "join"}, {"method": "merge"}):
        for count in (None, 3):
            with groups(count):
                for found in (dask_gpusort.sort(x, **options), dask_gpusort.argsort(x, **options)):
                    with pytest.raises(ValueError, match=r"chunk [012] .*3 keys.*4.*compute_chunk_sizes"):
                        computed(found)


def test_wrong_chunk_sizes_of_values_at_compute_time():
    keys = da.zeros(12, chunks=4)
    values = da.zeros(12, chunks=4).map_blocks(lambda block: block[:-1], dtype="f8", meta=np.empty(0))
    with groups(2), pytest.raises(ValueError, match="3 values"):
        computed(dask_gpusort.sort_by_key(keys, values)[1])


def test_wrong_chunk_size_of_a_single_chunk_at_compute_time():
    x = da.zeros(4, chunks=4).map_blocks(lambda block: block[:-1], dtype="f8", meta=np.empty(0))
    for find in (dask_gpusort.sort, dask_gpusort.argsort):
        for found in (find(x, chunks=2), find(x, chunks=4)):
            with pytest.raises(ValueError, match="compute_chunk_sizes"):
                computed(found)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("chunks", [3, 12])
def test_message_names_incomparable_objects_at_compute_time(chunks, descending):
    elements = [5, 1, 2, 3, "seven", 4, 8, 6, 0, 9, 11, 10]
    x = da.from_array(ours._objects(elements), chunks=chunks, name=False)
    with dask.config.set(scheduler="synchronous"), groups(3):
        for find in (dask_gpusort.sort, dask_gpusort.argsort):
            with pytest.raises(TypeError, match=r"'seven'.*key="):
                find(x, descending=descending).compute()


@pytest.mark.parametrize("exchange", ["join", "gather", "tasks"])
def test_incomparable_objects_in_different_chunks_at_compute_time(exchange):
    # The objects of one chunk are comparable. Only the scan, or the merge of a group, compares both kinds.
    x = da.from_array(ours._objects([3, 1, 2, "c", "a", "b"]), chunks=3, name=False)
    for count in (None, 2):
        with (
            dask.config.set(scheduler="synchronous"),
            groups(count),
            pytest.raises(TypeError, match=r"could not compare"),
        ):
            dask_gpusort.sort(x, exchange=exchange).compute()


def test_missing_strings_without_an_order_at_compute_time():
    array = np.array(["b", None, "a"], np.dtypes.StringDType(na_object=None))
    with pytest.raises(ValueError, match="null"):
        np.sort(array)
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="null"):
        dask_gpusort.sort(da.from_array(array, chunks=2, name=False)).compute()


def changing_source(folder):
    """An array whose chunks lose one element each time they are computed."""

    def block(block_id):
        marks = os.listdir(folder)
        (folder / f"{block_id[0]}-{len(marks)}").touch()
        return np.arange(100 - sum(mark.startswith(f"{block_id[0]}-") for mark in marks))

    return da.map_blocks(block, chunks=((100, 100, 100),), dtype="i8", meta=np.empty(0, "i8"))


def scans_of(graph):
    """Keys of the scan tasks, one for each round."""
    return sorted(key for key in graph if key[0].startswith("sort-scan"))


@pytest.mark.parametrize("stages", [("sort-scan",), ("sort-scan", "sort-cut"), ("sort-scan", "sort-cut", "sort-count")])
def test_a_source_that_changes_is_detected_at_compute_time(tmp_path, stages):
    # After the loss of a worker, a chunk may be computed again although its cuts are known.
    with groups(2):
        found = dask_gpusort.sort(ours.forget_sizes(changing_source(tmp_path)), exchange="tasks")
    graph = dict(found.__dask_graph__())
    known = [key for key in graph if isinstance(key, tuple) and key[0].startswith(stages)]
    graph.update(zip(known, dask.get(graph, known), strict=True))
    with pytest.raises(RuntimeError, match=r"chunk \d.*persist"):
        dask.get(graph, found.__dask_keys__())


@pytest.mark.parametrize("unknown", [False, True])
def test_a_source_that_changes_between_rounds_does_not_report_wrong_sizes(tmp_path, unknown):
    x = changing_source(tmp_path)
    with groups(2):
        found = dask_gpusort.sort(ours.forget_sizes(x) if unknown else x, exchange="gather")
    graph = dict(found.__dask_graph__())
    first, _ = scans_of(graph)
    graph[first] = dask.get(graph, first)
    with pytest.raises(RuntimeError, match="the input changes when it is computed again; persist it") as caught:
        dask.get(graph, found.__dask_keys__())
    assert "compute_chunk_sizes" not in str(caught.value)


@pytest.mark.parametrize("exchange", ["join", "gather", "tasks", "device"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_source_that_changes_before_its_recount_names_both_remedies(tmp_path, exchange, count):
    # A lost worker may have held the counts too. Then a changed source and wrong chunk sizes look the same.
    x = changing_source(tmp_path)
    with groups(count):
        found = dask_gpusort.sort(x, exchange=exchange)
    dask.get(dict(x.__dask_graph__()), list(flatten(x.__dask_keys__())))
    message = (
        r"chunk \d of the input has 99 keys where its chunk size says 100: call compute_chunk_sizes\(\).*persist it"
    )
    with pytest.raises(ValueError, match=message):
        dask.get(dict(found.__dask_graph__()), found.__dask_keys__())


def test_a_message_is_one_line():
    for bad in ({"kind": "x"}, {"order": "x"}, {"axis": 7}, {"method": "x"}, {"chunks": "x"}):
        with pytest.raises((ValueError, TypeError)) as caught:
            dask_gpusort.sort(da.zeros(4, chunks=2), **bad)
        assert "\n" not in str(caught.value)
