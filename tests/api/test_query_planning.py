"""Tests with array query planning. Dask reads the setting once, at import, so they run in a separate process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort

PLANNING = da.array_expr_enabled()
HERE = Path(__file__).parent

planned = pytest.mark.skipif(not PLANNING, reason="needs a process with query planning")

#: Tests of other files that must also pass with query planning. Other tests use what Dask's expression arrays lack:
#: `blocks`, masks, `reshape` and dispatch of NumPy functions.
SOME = [
    "test_functions.py::test_one_dimension[argsort]",
    "test_functions.py::test_one_dimension[sort_by_keys]",
    "test_functions.py::test_several_dimensions[lexsort]",
    "test_functions.py::test_several_dimensions[is_sorted]",
    "test_functions.py::test_several_dimensions[topk]",
    "test_functions.py::test_several_dimensions[nunique]",
    "test_functions.py::test_one_dimension[rank]",
    "test_functions.py::test_several_dimensions[partition]",
    "../graph/test_select_join.py::test_several_long_lanes",
    "test_functions.py::test_one_dimension[searchsorted]",
    "test_functions.py::test_one_dimension[take_along_axis]",
    "test_functions.py::test_one_dimension[grouped quantile]",
    "test_functions.py::test_several_dimensions[mode]",
    "test_dask_array_package.py::test_arrays_of_the_package_are_given_back_lazily",
    "test_to_zarr.py::test_results_of_unknown_sizes[unique-16]",
    "test_to_zarr.py::test_results_of_unknown_sizes[join-16]",
]
REST = [
    "test_functions.py::test_one_dimension[sort]",
    "test_functions.py::test_several_dimensions[sort]",
    "test_functions.py::test_one_dimension[key]",
    "test_functions.py::test_several_dimensions[sort_by_key]",
    "test_functions.py::test_one_dimension[lexsort]",
    "test_merge_sorted.py::test_merge_by_a_key",
    "test_functions.py::test_several_dimensions[less]",
    "test_functions.py::test_one_dimension[topk]",
    "test_functions.py::test_several_dimensions[rank]",
    "test_functions.py::test_one_dimension[put_along_axis]",
    "test_functions.py::test_several_dimensions[take]",
    "test_weights.py::test_bad_weights_raise_in_the_computation",
    "test_functions.py::test_one_dimension[isin]",
    "test_functions.py::test_one_dimension[interp]",
    "test_functions.py::test_several_dimensions[grouped quantile]",
    "test_functions.py::test_several_dimensions[grouped rank]",
    "test_functions.py::test_one_dimension[grouped mode]",
    "test_search.py::test_sorter",
    "test_explain.py::test_rank",
    "test_explain.py::test_searchsorted",
    "test_explain.py::test_take_along_axis",
    "../graph/test_lanes.py",
]


@pytest.mark.skipif(PLANNING, reason="this process already has query planning")
@pytest.mark.parametrize(
    "names", [[Path(__file__).name, *SOME], pytest.param(REST, marks=pytest.mark.thorough)], ids=["some", "rest"]
)
def test_in_a_separate_process(names):
    package = str(Path(dask_gpusort.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--show-capture=no", "--tb=short"]
    result = subprocess.run(
        [*command, *(str(HERE / name) for name in names)],
        env={**os.environ, "HYPOTHESIS_PROFILE": "short", "DASK_ARRAY__QUERY_PLANNING": "True", "PYTHONPATH": path},
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    # The tests ran; they were not all skipped.
    passed = re.search(r"(\d+) passed", result.stdout)
    assert passed is not None
    assert int(passed[1]) >= len(names)


def lazy(value):
    return da.from_array(np.asarray(value))


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("quantile", [[0.5, 0.1], 0], {}),
        ("nanpercentile", [30], {}),
        ("partition", [2, 0], {}),
        ("argpartition", [[2, -1]], {}),
        ("topk", [-2, 0], {}),
        ("median", [], {"window": 3, "by": [0, 1, 0, 1]}),
        ("lexsort", [0], {"descending": [True, False]}),
        ("sort", [-1], {"descending": True}),
        ("take", [[3, 0, 0]], {}),
        ("take_along_axis", [[3, 0], None], {}),
        ("put_along_axis", [[3, 0], [7.0, 8.0], None], {}),
    ],
)
def test_arguments_may_be_lazy(name, arguments, options):
    """The graph is built from some of them, which are computed."""
    keys, function = da.from_array(np.array([3.0, 1, 2, 4]), chunks=2), getattr(dask_gpusort, name)
    array = [keys, keys % 2] if name == "lexsort" else keys
    wanted = function(array, *arguments, **{"groups": [0, 1]} | options if "by" in options else options)
    given = [one if one is None else lazy(one) for one in arguments]
    more = {option: lazy(value) for option, value in options.items()} | ({"groups": [0, 1]} if "by" in options else {})
    np.testing.assert_array_equal(computed(function(array, *given, **more)), computed(wanted))


@planned
@given(st.data(), ours.arrays(), ours.groups)
def test_input_and_output_are_expressions(data, array, count):
    chunks = data.draw(ours.chunkings(array.shape))
    with groups(count):
        x = ours.dask_array(array, chunks)
        found = dask_gpusort.sort(x[::-1], stable=True)
        assert hasattr(found, "expr")
        oracle.assert_same_bits(computed(found[::-1]), oracle.sort(array[::-1])[::-1].copy())


@planned
def test_the_optimiser_may_rename_the_input():
    array = ours.make("i8", 200)
    with groups(3):
        x = da.from_array(array, chunks=30)
        found = dask_gpusort.sort((x + 1).rechunk(45)[10:], chunks=50)
        simplified = found.optimize()
        assert found.chunks == simplified.chunks == ((50, 50, 50, 40),)
        oracle.assert_same_bits(computed(simplified), np.sort(array[10:] + 1))
        assert dask_gpusort.sort(x).name == dask_gpusort.sort(x).name


@planned
@pytest.mark.parametrize("name", ["lexsort", "median", "union1d", "topk", "unique_values", "rank", "isin"])
def test_arrays_have_the_name_of_their_function(name):
    """Of sorts and searches, and of short lanes; what ends with a rechunk or a sum of Dask's has its name."""
    x = da.from_array(ours.make("f8", 200), chunks=30)
    more = {"topk": (3,), "union1d": (x,), "isin": (x,)}
    array, function = [x, x] if name == "lexsort" else x, getattr(dask_gpusort, name)
    with groups(3):
        assert function(array, *more.get(name, ())).name.startswith(f"{name}-")
    lanes = da.from_array(ours.make("f8", 60).reshape(6, 10))
    assert dask_gpusort.nanmedian(lanes, 0).name.startswith("nanmedian-")


@planned
@pytest.mark.parametrize("chunks", [(10, 20), (5, 7)], ids=["in C order", "rechunked"])
@pytest.mark.parametrize("explain", [dask_gpusort.explain, dask_gpusort.explain_rank, dask_gpusort.explain_unique])
def test_plans_say_how_an_array_is_flattened(explain, chunks):
    x = da.from_array(ours.make("i4", 600).reshape(30, 20), chunks=chunks)
    found = explain(x, return_index=True) if explain is dask_gpusort.explain_unique else explain(x, axis=None)
    assert f"flat      {len(x.chunks[0]) * len(x.chunks[1])} chunks" in found.detail


@planned
@pytest.mark.parametrize("exchange", ["runs", "tasks"])
def test_on_a_cluster(on_cluster, exchange):
    array = ours.make("f8", 2000, "special")
    with groups(4):
        found = dask_gpusort.sort(da.from_array(array, chunks=150), stable=True, exchange=exchange)
        oracle.assert_same_bits(found.compute(), oracle.sort(array))
        oracle.assert_same_bits(found[300:450].compute(), oracle.sort(array)[300:450])


@planned
def test_functions_of_numpy_after_register():
    array = np.array([[3.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
    dask_gpusort.register()
    try:
        x = da.from_array(array, chunks=(2, 2))
        for lazy, wanted in ((np.sort(x, 0), np.sort(array, 0)), (np.median(x, 1), np.median(array, 1))):
            assert isinstance(lazy, da.Array)
            np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), wanted)
    finally:
        dask_gpusort.unregister()
    with pytest.raises(NotImplementedError):
        np.sort(x)
