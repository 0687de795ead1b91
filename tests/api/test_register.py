"""Tests of `register`: NumPy's and Dask's functions call the lazy sorts until `unregister`."""

from __future__ import annotations

import inspect
import sys
import threading
import types
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.lib import NumpyVersion
from support import oracle
from support import strategies as ours
from support.marks import grid, slow_but_first
from support.scripts import run_fresh

import dask_gpusort
from dask_gpusort.adapters.table import ROWS


@pytest.fixture
def registered():
    dask_gpusort.register()
    yield
    dask_gpusort.unregister()


def with_nan(array):
    """Floats, one of them NaN."""
    return array.astype("f8") / (array != 3)


NEW = NumpyVersion(np.__version__) >= "2.5.0"
#: Calls of NumPy's and Dask's functions beside those of positional arguments, of an array of integers.
CALLS = [
    lambda a: np.sort(a, axis=None, kind="stable"),
    lambda a: np.sort(a, stable=True),
    lambda a: np.argsort(a, stable=True),
    lambda a: np.lexsort((a, a % 2)),
    lambda a: np.lexsort(a),
    lambda a: np.isin(a, a[0], invert=True),
    lambda a: np.unique_all(a).inverse_indices,
    lambda a: np.take_along_axis(a, np.argsort(a, 1, kind="stable"), 1),
    lambda a: np.median(with_nan(a), 1),
    lambda a: np.median(with_nan(a)),
    lambda a: np.nanmedian(with_nan(a), axis=0, keepdims=True),
    lambda a: np.quantile(with_nan(a), [0.2, 0.5], axis=(0, 1)),
    lambda a: np.nanquantile(with_nan(a), 0.3, 1, method="lower"),
    lambda a: np.nanpercentile(with_nan(a), [30, 50]),
    lambda a: np.quantile(a, 0.3, axis=1, weights=np.arange(10), method="inverted_cdf"),
    *([lambda a: np.sort(with_nan(a), descending=True, stable=True)] if NEW else []),
    *([lambda a: np.argsort(with_nan(a), descending=True, stable=True)] if NEW else []),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_numpy_functions_become_lazy(registered, raise_if_computes, number):
    array = ours.make("i4", 60, "few").reshape(6, 10)
    with raise_if_computes(), warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = CALLS[number](da.from_array(array, chunks=(4, 3)))
    assert isinstance(lazy, da.Array)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(computed(lazy)[0], CALLS[number](array), strict=True)


def test_order_of_fields_through_numpy(registered):
    array = ours.make(ours.PLAIN_RECORD, 40, "few")
    got = np.sort(da.from_array(array, chunks=9), order="weight", kind="stable")
    oracle.assert_same_bits(computed(got)[0], np.sort(array, order="weight", kind="stable"))


def test_errors_through_numpy(registered):
    x = da.zeros(3, chunks=1)
    with pytest.raises(np.exceptions.AxisError):
        np.sort(x, 4)
    with pytest.raises(ValueError, match="kind"):
        np.sort(x, kind="bubble")


def test_numpy_sorts_its_own_arrays(registered):
    array = ours.make("i4", 10)
    assert type(np.sort(array)) is np.ndarray


def test_unregister_restores_an_earlier_function(monkeypatch):
    def earlier(a):
        return a

    monkeypatch.setattr(da, "sort", earlier, raising=False)
    dask_gpusort.register()
    assert da.sort is not earlier
    dask_gpusort.unregister()
    assert da.sort is earlier


def test_names_from_before_register():
    """NumPy's functions ask Dask's arrays; of `dask.array` the names in its modules are replaced."""
    median, median_of_dask = np.median, da.median
    with dask_gpusort.register():
        assert float(median(X).compute(scheduler="synchronous")) == 5.5
        assert da.median is not median_of_dask
        with pytest.raises(NotImplementedError):
            median_of_dask(X)


def test_partitions_through_numpy(registered, raise_if_computes):
    array = ours.make("f8", 60, "bits").reshape(6, 10)
    x = da.from_array(array, chunks=(4, 3))
    with raise_if_computes():
        found = [
            (np.partition(x, 3), 3, 1),
            (np.partition(x, [1, -1], axis=0), [1, -1], 0),
            (np.partition(x, 20, None, "introselect"), 20, None),
            (da.partition(x, 7), 7, 1),
        ]
        positions = np.argpartition(x, 3, axis=1)
    for lazy, kth, axis in found:
        assert isinstance(lazy, da.Array)
        oracle.assert_partitions(lazy.compute(scheduler="synchronous"), array, kth, axis)
    oracle.assert_partitions(np.take_along_axis(array, positions.compute(scheduler="synchronous"), 1), array, 3, 1)


def test_percentiles_of_dask_become_exact(registered):
    x = da.arange(12, chunks=2)
    assert float(da.percentile(x, 50, method="linear", internal_method="tdigest")) == 5.5


X = da.arange(12, chunks=5, dtype=float)
GRID = da.from_array(np.arange(12.0).reshape(3, 4), chunks=(2, 3))
#: Arguments of each function that `register` replaces, by their names in NumPy and Dask.
ARGUMENTS = {
    "sort": {"a": GRID, "axis": 0, "kind": "stable", "order": None},
    "argsort": {"a": GRID, "axis": 0, "kind": "stable", "order": None},
    "lexsort": {"keys": (X, X), "axis": 0},
    "partition": {"a": GRID, "kth": 1, "axis": 0, "kind": "introselect", "order": None},
    "argpartition": {"a": GRID, "kth": 1, "axis": 0, "kind": "introselect", "order": None},
    "take": {"a": GRID, "indices": [2, 0], "axis": 1, "out": None, "mode": "clip"},
    "searchsorted": {"a": X, "v": X, "side": "right", "sorter": None},
    "interp": {"x": X, "xp": [1, 4], "fp": [0.5, 8], "left": 7, "right": None, "period": None},
    "isin": {"element": X, "test_elements": [2, 3], "assume_unique": True, "invert": True},
    "unique": {"ar": X, "return_index": True, "return_inverse": True, "return_counts": True, "axis": None},
    "unique_all": {"x": X},
    "unique_counts": {"x": X},
    "unique_inverse": {"x": X},
    "unique_values": {"x": X},
    "union1d": {"ar1": X, "ar2": X + 2},
    "intersect1d": {"ar1": X, "ar2": X + 2, "assume_unique": True, "return_indices": True},
    "setdiff1d": {"ar1": X, "ar2": X + 2, "assume_unique": True},
    "setxor1d": {"ar1": X, "ar2": X + 2, "assume_unique": True},
    "take_along_axis": {"arr": GRID, "indices": da.zeros((1, 4), dtype=int, chunks=3), "axis": 0},
}
REDUCTION = {"a": GRID, "axis": 1, "keepdims": True, "out": None, "overwrite_input": False}
ARGUMENTS |= dict.fromkeys(("median", "nanmedian"), REDUCTION)
QUANTILE = {**REDUCTION, "q": [0.25, 0.5], "method": "lower", "internal_method": "dask"}
ARGUMENTS |= dict.fromkeys(("quantile", "nanquantile", "percentile", "nanpercentile"), QUANTILE)
SIGNATURES = {
    (library, name): inspect.signature(getattr(module, name))
    for library, module in (("dask", da), ("numpy", np))
    for name in ARGUMENTS
    if hasattr(module, name) and (name != "lexsort" or NumpyVersion(np.__version__) >= "2.4.0")  # before, none is told
}


def computed(found):
    if isinstance(found, tuple):
        return [np.asarray(each) for each in dask.compute(*found, scheduler="synchronous")]
    return [np.asarray(found.compute(scheduler="synchronous"))]


def test_every_row_of_the_table_is_in_its_places():
    """A public function, with a call below if NumPy has it; a method that the remedy for a DataArray names."""
    xr, accessor = pytest.importorskip("xarray"), pytest.importorskip("dask_gpusort.xarray").DataArrayAccessor
    labels = xr.DataArray([3.0, 1], dims="time")
    before = dict(vars(da))
    with dask_gpusort.register():
        replaced = {name for name, value in vars(da).items() if value is not before.get(name)}
    assert replaced == set(ARGUMENTS) == {name for name, row in ROWS.items() if row.numpy}
    for name, row in ROWS.items():
        function = getattr(dask_gpusort, name)
        if row.xarray.name:
            assert hasattr(accessor, row.xarray.name)
            more = {"quantile": (0.5,), "topk": (1,)}.get(row.xarray.name, ())
            with pytest.raises(TypeError, match=rf"\.gpusort\.{row.xarray.name}\(.*or give .*\.data, without labels"):
                function(*((labels, labels),) if name == "lexsort" else (labels,), *more)


def test_arguments_of_no_library_are_refused_by_name(registered):
    with pytest.raises(TypeError, match=r"median\(\) got an unexpected keyword argument 'colour'"):
        da.median(X, colour=1)
    with pytest.raises(TypeError, match="take of a Dask array is lazy and cannot fill out="):
        np.take(X, [1], out=np.zeros(1))


@pytest.mark.parametrize(("library", "name"), SIGNATURES)
def test_positional_arguments_are_those_of_the_library(registered, raise_if_computes, library, name):
    """With any number of them, in the order before `register`; the others have the defaults that they had."""
    values, before = ARGUMENTS[name], SIGNATURES[library, name]
    function = getattr(da if library == "dask" else np, name)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [one.name for one in before.parameters.values() if one.kind in kinds]
    needed = sum(before.parameters[one].default is inspect.Parameter.empty for one in names)
    for count in range(needed, len(names) + 1):
        given = [values[one] for one in names[:count]]
        with raise_if_computes():
            lazy = function(*given)
        found = computed(lazy)
        in_memory = [each.compute() if isinstance(each, da.Array) else each for each in given]
        if name == "lexsort":
            in_memory[0] = tuple(each.compute() for each in given[0])
        if library == "numpy":
            wanted = getattr(np, name)(*in_memory)
        else:
            bound = before.bind(*in_memory)
            bound.apply_defaults()
            wanted = getattr(np, name)(**{one: bound.arguments[one] for one in names if one != "internal_method"})
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
    if not name.startswith("unique_"):  # whose argument NumPy takes by position alone
        function(**{one: values[one] for one in names})
    if library == "dask":
        assert list(inspect.signature(function).parameters)[: len(names)] == names


def test_dask_and_numpy_have_each_its_own_take(registered):
    for lazy, wanted in ((da.take(GRID, [1]), GRID[[1]]), (np.take(GRID, [1]), GRID.ravel()[[1]])):
        np.testing.assert_array_equal(computed(lazy), computed(wanted))


def test_other_libraries_answer_for_their_own_arrays(registered):
    class Theirs:
        def __array_function__(self, func, types, args, kwargs):
            return "theirs"

    assert np.isin(GRID, Theirs()) == "theirs"


def functions_of_dask():
    return dict(vars(da)), vars(da.Array).get("__array_function__")


def test_two_threads_register_at_once():
    """The second one comes before the first one has replaced anything; both record Dask's own functions."""
    before = functions_of_dask()
    inside, other_inside = threading.Event(), threading.Event()

    class Slow(types.ModuleType):
        """Dask's module: at their first look at it, one thread waits for the other, which waits for its end."""

        def __getattribute__(self, name):
            if name in ("sort", "__dict__") and threading.current_thread() in threads:
                if threading.current_thread() is threads[1]:
                    other_inside.set()
                    threads[0].join(30)
                elif not inside.is_set():
                    inside.set()
                    other_inside.wait(0.5)
            return super().__getattribute__(name)

    threads = [threading.Thread(target=dask_gpusort.register) for _ in range(2)]
    kind, da.__class__ = type(da), Slow
    try:
        threads[0].start()
        assert inside.wait(30)
        threads[1].start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    finally:
        da.__class__ = kind
    dask_gpusort.unregister()
    assert functions_of_dask() == before


def test_an_error_in_the_middle_of_register_leaves_nothing_behind():
    before = functions_of_dask()

    class Refusing(types.ModuleType):
        def __setattr__(self, name, value):
            if name == "median" and value is not before[0]["median"]:
                raise KeyboardInterrupt
            super().__setattr__(name, value)

    kind, da.__class__ = type(da), Refusing
    try:
        with pytest.raises(KeyboardInterrupt):
            dask_gpusort.register()
    finally:
        da.__class__ = kind
    assert functions_of_dask() == before
    dask_gpusort.register()
    assert da.median is not before[0]["median"]
    dask_gpusort.unregister()
    assert functions_of_dask() == before


def test_what_others_replaced_after_register_stays():
    """Their method calls the registered one, as a wrapper does, and is not lazy after `unregister`."""
    before = functions_of_dask()
    dask_gpusort.register()
    registered_method = da.Array.__array_function__

    def array_function(*arguments):
        return registered_method(*arguments)

    def median(a):
        return "theirs"

    try:
        da.median, da.Array.__array_function__ = median, array_function
        assert isinstance(np.sort(X), da.Array)
        dask_gpusort.unregister()
        assert da.median is median
        assert da.Array.__array_function__ is array_function
        with pytest.warns(FutureWarning, match="not implemented by Dask"):
            assert isinstance(np.sort(X), np.ndarray)
    finally:
        dask_gpusort.unregister()
        da.median, da.Array.__array_function__ = before[0]["median"], before[1]
    assert functions_of_dask() == before


def test_contexts_restore_what_they_entered():
    before, finders = functions_of_dask(), list(sys.meta_path)
    with dask_gpusort.register("numpy"):
        outer = functions_of_dask()
        with pytest.raises(KeyError), dask_gpusort.register():
            raise KeyError
        assert functions_of_dask() == outer != before
    assert functions_of_dask() == before
    dask_gpusort.unregister()  # without effect, and no error
    dask_gpusort.register()
    dask_gpusort.register()
    with dask_gpusort.register():
        pass
    assert functions_of_dask() != before
    with dask_gpusort.register("numpy"):
        dask_gpusort.unregister()
        assert functions_of_dask() == before
        dask_gpusort.register()
    assert functions_of_dask() != before
    dask_gpusort.unregister()
    assert functions_of_dask() == before
    assert sys.meta_path == finders


def test_unknown_names():
    before = functions_of_dask()
    with pytest.raises(ValueError, match="'flox'.*got 'scypi', 'floks'"):
        dask_gpusort.register("numpy", "scypi", "floks")
    assert functions_of_dask() == before


def test_registered_lists_what_is_replaced():
    before = da.median
    assert dask_gpusort.registered() == []
    with dask_gpusort.register("numpy"):
        table = dask_gpusort.registered()
        rows = {each.name: each for each in table}
        assert rows["dask.array.median"] == ("dask.array.median", before, da.median)
        assert len([name for name in rows if name.startswith("dask.array.")]) == len(ARGUMENTS) + 1
        assert len(repr(table).splitlines()) == len(table)
    assert dask_gpusort.registered() == []


def test_threads_that_register_and_unregister_at_once():
    before, failed = functions_of_dask(), []

    def work():
        for _ in range(30):
            with dask_gpusort.register():
                if da.median is before[0]["median"]:
                    failed.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert functions_of_dask() == before


#: What a script does with SciPy's copy of `array_api_compat`, imported before or after `register`.
IMPORT = "from scipy._lib.array_api_compat.dask import array as xp"
CHECK = """
import inspect
x = da.from_array([3.0, 1, 2, 2], chunks=2)
def fail(*args, **kwargs): raise AssertionError
with dask.config.set(scheduler=fail):
    found = [xp.sort(x, descending=True), xp.argsort(x, descending=True), xp.take(x, da.from_array([1, 0])),
             xp.take_along_axis(x, da.from_array([0, 3])), xp.unique_values(x), xp.searchsorted(x[1:3], x),
             xp.isin(x, x[:1])]
wanted = [[3, 2, 2, 1], [0, 2, 3, 1], [1, 3], [3, 2], [1, 2, 3], [2, 0, 1, 1], [True, False, False, False]]
assert found[0].chunks == ((2, 2),)
assert [each.compute(scheduler="synchronous").tolist() for each in found] == wanted
for name, arrays in (("sort", 1), ("argsort", 1), ("take", 2), ("take_along_axis", 2)):
    function = getattr(xp, name)
    assert function.__module__.startswith("dask_gpusort")
    kinds = [one.kind.name for one in inspect.signature(function).parameters.values()]
    assert kinds == ["POSITIONAL_ONLY"] * arrays + ["KEYWORD_ONLY"] * (len(kinds) - arrays)
assert inspect.signature(xp.sort).parameters["stable"].default is True
try: xp.take(x.reshape(2, 2), [1])
except ValueError as error: assert "axis must be given for an array of 2 dimensions" in str(error)
else: raise AssertionError
"""
UNREGISTER = """
dask_gpusort.unregister()
assert not any(str(getattr(value, "__module__", "")).startswith("dask_gpusort") for value in vars(xp).values())
assert sys.meta_path == finders
"""


FINDERS = "finders = list(sys.meta_path)"
forked = pytest.mark.usefixtures("workers_fork_from_a_server")


@forked
@pytest.mark.parametrize(
    "order", slow_but_first([IMPORT, "dask_gpusort.register()"], ["dask_gpusort.register()", IMPORT])
)
def test_copies_of_array_api_compat_in_any_order(order):
    pytest.importorskip("scipy._lib.array_api_compat.dask.array")
    run_fresh(FINDERS, *order, CHECK, UNREGISTER)


@forked
def test_a_copy_that_is_not_chosen_is_not_reached():
    """`array_api_compat` copies the functions of `dask.array` when it is imported."""
    pytest.importorskip("scipy._lib.array_api_compat.dask.array")
    run_fresh(FINDERS, 'dask_gpusort.register("numpy")', IMPORT, "assert xp.median is not da.median", UNREGISTER)


ORDER = ("import xarray as xr", "dask_gpusort.register()")


@forked
@pytest.mark.parametrize(("order", "blocked"), grid([ORDER, ORDER[::-1]], [False, True]))
def test_groups_of_xarray_in_any_order(order, blocked):
    """With flox, and where it cannot be imported."""
    pytest.importorskip("xarray")
    run_fresh(
        "sys.modules['flox'] = None" if blocked else "",
        *order,
        """
xr.set_options(use_numbagg=False)  # which compiles for seconds
x = xr.DataArray(np.arange(8.0), {"g": [0, 1] * 4}, "g")
lazy = x.chunk(g=3).groupby("g").median()
functions = [getattr(task, "func", None) for task in dict(lazy.__dask_graph__()).values()]
assert any(getattr(function, "__name__", "") == "reduce_chunk" for function in functions)
xr.testing.assert_identical(lazy.compute(scheduler="synchronous"), x.groupby("g").median())
""",
    )


@forked
def test_setting_registers_at_import():
    run_fresh("""
for value, replaced in ((False, False), (True, True), (["numpy"], True), (["flox"], False)):
    for name in [name for name in sys.modules if name.startswith("dask_gpusort")]:
        del sys.modules[name]
    with dask.config.set({"gpusort.register": value}):
        import dask_gpusort
    assert da.median.__module__.startswith("dask_gpusort") == replaced
    dask_gpusort.unregister()
""")
