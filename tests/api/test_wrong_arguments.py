"""Every public function refuses every kind of wrong argument when it is given, and names the argument.

Functions and parameters are found by introspection: one that is new and has no row here fails a test.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from support import strategies as ours

import dask_gpusort

AxisError = np.exceptions.AxisError
#: Public functions that take no arrays.
OTHERS = {"cluster", "register", "unregister", "warm_up"}
FUNCTIONS = {name: getattr(dask_gpusort, name) for name in dask_gpusort.__all__ if name not in OTHERS}
PARAMETERS = {name: list(inspect.signature(function).parameters) for name, function in FUNCTIONS.items()}
STATISTICS = [name for name in FUNCTIONS if "out" in PARAMETERS[name] or name == "explain_quantile"]
#: Functions that only make a text of the arguments, or a result of any array that NumPy takes for one element.
ARRAYS = {
    "a",
    "arr",
    "x",
    "ar1",
    "ar2",
    "element",
    "test_elements",
    "v",
    "keys",
    "arrays",
    "values",
    "weights",
    "sorter",
}
#: Parameters of which any value is true or false, or that choose what is returned.
FLAGS = {
    *("stable", "invert", "pct", "equal_nan", "assume_unique", "keepdims", "sorted"),
    *("return_index", "return_inverse", "return_counts", "return_indices"),
}


class Wrong(NamedTuple):
    """A wrong value of a parameter, and the error."""

    value: Any
    error: type[Exception]
    message: str
    only: Callable[[str], bool] = lambda name: True


def flattens(name: str) -> bool:
    """Whether the function takes ``axis=None``."""
    return "None" in str(inspect.signature(FUNCTIONS[name]).parameters["axis"].annotation) or name in STATISTICS


def is_statistic(name: str) -> bool:
    return name in STATISTICS


def is_sort(name: str) -> bool:
    return "exchange" in PARAMETERS[name]


def takes_several(name: str) -> bool:
    return name in ("lexsort", "sort_by_key")


def no(test: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda name: not test(name)


X = da.from_array(np.arange(12.0) % 5, chunks=4)
ROWS = da.from_array(np.arange(12.0).reshape(4, 3) % 5, chunks=2)
WRONG = {
    "axis": [
        Wrong(2, AxisError, "use an axis from -2 to 1: axis 2 is out of bounds"),
        Wrong(-3, AxisError, "use an axis from -2 to 1: axis -3 is out of bounds"),
        Wrong(0.5, TypeError, "axis must be an integer.*, not 0.5"),
        Wrong("time", TypeError, "axis must be an integer.*, not 'time'"),
        Wrong((0, 1), TypeError, r"axis must be an integer.*, not \(0, 1\)", no(is_statistic)),
        Wrong((0, 0), ValueError, "repeated axis.*once", is_statistic),
        Wrong((0, "x"), TypeError, "axis must be an integer, a tuple of them or None", is_statistic),
        Wrong(None, TypeError, "axis must be an integer, not None", no(flattens)),
    ],
    "q": [
        Wrong(2000, ValueError, r"in the range \[0, 10*\] \(got q=2000\)"),
        Wrong(float("nan"), ValueError, "in the range.*q=nan"),
        Wrong("half", TypeError, "q must be real numbers, not 'half'"),
        Wrong(None, TypeError, "q must be real numbers, not None"),
        Wrong(Fraction(1, 2), TypeError, "no quantiles of float64 .*: give q as floats"),
        Wrong(np.zeros((1, 1, 1)), ValueError, "q must be a scalar or 1d, not an array of 3 dimensions"),
    ],
    "k": [Wrong(wrong, TypeError, "k must be an integer, not") for wrong in (2.5, "3", None)],
    "kth": [
        Wrong(1.5, TypeError, "Partition index must be integer: kth is 1.5"),
        Wrong(True, ValueError, "Booleans unacceptable.*kth"),
        Wrong(100, ValueError, "kth.=100. out of bounds"),
        Wrong([[1]], ValueError, "kth must be"),
    ],
    "split_every": [
        Wrong(1, ValueError, "split_every must be at least 2"),
        Wrong(2.5, TypeError, "split_every must be an integer or None, not 2.5"),
    ],
    "method": [
        Wrong("hazan", ValueError, "'hazan' is not a valid method. Did you mean 'hazen'.*'weibull'", is_statistic),
        *(Wrong(w, ValueError, "method must be one of 'a.*got", no(is_statistic)) for w in ("mean", None, ["auto"])),
    ],
    "kind": [
        Wrong("bubble", ValueError, "kind.*bubble"),
        Wrong(1, TypeError, "kind must be str", lambda name: "order" in PARAMETERS[name]),
    ],
    "order": [
        Wrong("weight", ValueError, "order"),
        *(Wrong(wrong, ValueError, "unsupported order value: .*: give the name of a field") for wrong in (1, {"a"})),
    ],
    "descending": [
        Wrong([True] * 5, ValueError, "5 directions in `descending` for 2 keys", takes_several),
        Wrong([True] * 5, ValueError, "5 directions in `descending` for 1 keys", no(takes_several)),
    ],
    "key": [Wrong("a", TypeError, "key must be a function"), Wrong(lambda block: 1, ValueError, "key must return")],
    "less": [Wrong("a < b", TypeError, "less of NumPy chunks must be a function")],
    "chunks": [
        *(Wrong(wrong, ValueError, "chunks must be") for wrong in ("many", {0: (-1, 5)}, {0: (-1, 13)})),
        Wrong(object(), TypeError, "chunks must be"),
        Wrong({"x": 3}, TypeError, "axis in chunks must be an integer, not 'x'"),
        Wrong({5: 3}, AxisError, "use an axis from -.* in chunks: axis 5"),
    ],
    "exchange": [Wrong("disk", ValueError, "exchange must be one of")],
    "device": [Wrong("gpu", ValueError, "device must be None or 'cuda'")],
    "strategy": [Wrong("fast", ValueError, "strategy must be one of")],
    "nan_policy": [Wrong("skip", ValueError, "nan_policy must be one of")],
    "side": [Wrong("middle", ValueError, "side must be one of"), Wrong(1, TypeError, "side must be str")],
    "mode": [Wrong("cycle", ValueError, "mode must be one of")],
    "out": [Wrong(np.zeros(3), TypeError, "cannot fill out=: assign")],
    "overwrite_input": [Wrong(True, TypeError, "leave overwrite_input=False")],
    "indices": [
        Wrong([0.5], TypeError, "give indices as integers", lambda name: name.endswith("take")),
        Wrong(pd.array([1, None]), TypeError, "give indices as integers", lambda name: name.endswith("take")),
        Wrong(np.ma.masked_equal([1, 2], 2), TypeError, "indices is masked.*fill them first"),
        Wrong(da.ones((1, 1)), IndexError, "`indices` must be an integer array, not float64", lambda n: "along" in n),
        Wrong([0], ValueError, r"`indices` and `arr`.*\(1,\) and \(4, 3\)", lambda name: "along" in name),
    ],
    "weights": [
        Wrong(da.ones(5), ValueError, r"weights.*\(got shape \(5,\)"),
        Wrong(["a"] * 4, TypeError, "weights must be real numbers, not <U1"),
    ],
    "sorter": [
        Wrong([0.5], TypeError, "sorter must only contain integers"),
        Wrong([0], ValueError, "sorter.size must equal a.size"),
    ],
    "values": [
        Wrong([da.ones(5)], ValueError, "values 0 of shape.*fit keys of shape", no(lambda name: "along" in name)),
        Wrong(np.ones(5), ValueError, r"value array of shape \(5,\)", lambda name: "along" in name),
    ],
}
NO_ARRAYS = {
    "None": (None, "must be an array, not NoneType: give"),
    "str": ("abc", "must be an array, not str: give"),
    "generator": ((number for number in range(3)), r"must be an array, not generator: give list\(a\)"),
    "set": ({1, 2}, r"must be an array, not set: give list\(a\)"),
    "dict": ({"a": 1}, r"must be an array, not dict: give list\(a.values"),
    "series": (pd.Series([1]), r"must be an array, not Series of pandas: give a.to_numpy\(\)"),
    "frame": (pd.DataFrame({"a": [1]}), r"must be an array, not DataFrame of pandas: give a column"),
    "categorical": (pd.Categorical(["b", "a"]), r"must be an array, not Categorical of pandas: give a.codes"),
    "categories": (pd.Series(["b"], dtype="category"), r"must be an array, not Series of pandas: give a.cat.codes"),
    "masked": (da.ma.masked_equal(X, 3), "is masked.*fill them first"),
}


@pytest.fixture(autouse=True)
def building_computes_nothing(raise_if_computes: Any) -> Iterator[None]:
    with raise_if_computes():
        yield


def arguments_of(name: str, array: Any = ROWS) -> dict[str, Any]:
    """Valid arguments of a function: those that it needs."""
    indices = np.zeros((1,) * array.ndim, np.int64)
    one = X if "searchsorted" in name or name == "merge_sorted" else array
    needed = {
        **dict.fromkeys(("a", "arr", "x", "ar1", "ar2", "element", "test_elements", "v"), one),
        "keys": (one, one),
        "arrays": (one,),
        "indices": indices,
        "q": 0.5,
        "k": 2,
        "kth": 1,
        "axis": 0,
        "values": (one,) if name == "sort_by_key" else 1.0,
    }
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    return {
        parameter: needed[parameter] for parameter, has in parameters.items() if has.default is inspect.Parameter.empty
    }


def call(name: str, given: dict[str, Any]) -> Any:
    """The result of a function for arguments by name."""
    given = dict(given)
    positional = []
    for parameter, has in inspect.signature(FUNCTIONS[name]).parameters.items():
        if has.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += given.pop(parameter)
        elif parameter in given and has.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            positional.append(given.pop(parameter))
        elif has.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and has.default is not inspect.Parameter.empty:
            positional.append(has.default)
    return FUNCTIONS[name](*positional, **given)


def calls() -> Iterator[Any]:
    for parameter, rows in WRONG.items():
        for name, own in PARAMETERS.items():
            for number, row in enumerate(rows):
                if parameter in own and row.only(name):
                    yield pytest.param(name, parameter, row, id=f"{name}-{parameter}-{number}")


def test_every_parameter_has_rows() -> None:
    known = ARRAYS | FLAGS | set(WRONG)
    assert {parameter for own in PARAMETERS.values() for parameter in own} <= known
    tested = {case.values[:2] for case in calls()}
    left = {
        (name, parameter)
        for name, own in PARAMETERS.items()
        for parameter in own
        if parameter in WRONG and (name, parameter) not in tested
    }
    assert not left


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_of_the_table_are_valid(name: str) -> None:
    call(name, arguments_of(name))


@pytest.mark.parametrize(("name", "parameter", "row"), list(calls()))
def test_wrong_arguments(name: str, parameter: str, row: Wrong) -> None:
    given = arguments_of(name)
    if takes_several(name) and parameter in ("order", "key", "less"):
        given["keys"] = ROWS
    if parameter == "weights":
        given |= {"axis": 0, "method": "inverted_cdf"}
    with pytest.raises(row.error, match=row.message):
        call(name, {**given, parameter: row.value})


def no_arrays() -> Iterator[Any]:
    for name, own in PARAMETERS.items():
        for parameter in (one for one in own if one in ARRAYS):
            element = parameter in ("element", "test_elements", "v") or (name, parameter) == (
                "put_along_axis",
                "values",
            )
            valid = ("None", "str") if element else ("None",) if parameter in ("sorter", "weights") else ()
            yield from (pytest.param(name, parameter, kind) for kind in NO_ARRAYS if kind not in valid)


@pytest.mark.parametrize(("name", "parameter", "kind"), list(no_arrays()))
def test_what_is_no_array(name: str, parameter: str, kind: str) -> None:
    wrong, message = NO_ARRAYS[kind]
    given = arguments_of(name)
    several = parameter in ("keys", "arrays") or (parameter == "values" and name != "put_along_axis")
    if parameter == "weights":
        given |= {"method": "inverted_cdf"}
    named = {"keys": "key", "arrays": "array"}.get(parameter, parameter) + (" 0" if several else "")
    others = (ROWS,) if parameter == "keys" else ()
    with pytest.raises(TypeError, match=f"^{named} {message}"):
        call(name, {**given, parameter: (wrong, *others) if several else wrong})


DTYPES = ["?", "M8[s]", "m8[s]", "S3", "U3", "V3", "c8", "g", "O", [("a", "i4"), ("b", "f4")], np.dtypes.StringDType()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_without_the_arithmetic(name: str, dtype: Any) -> None:
    x = da.from_array(np.zeros(6, dtype), chunks=2, name=False)
    try:
        call(name, {**arguments_of(name, x), **({"a": x, "v": x} if "searchsorted" in name else {})})
    except TypeError as error:
        refused = str(error)
        assert re.search(r"give |use ", refused) or "real numbers, not" in refused
        assert str(x.dtype) in refused
        assert name in STATISTICS


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("array", [X, ROWS], ids=["1d", "2d"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_unknown_sizes(name: str, array: Any, axis: int | None) -> None:
    x = ours.forget_sizes(array)
    given = arguments_of(name, x)
    if "along" in name:
        given["indices"] = da.zeros((1,) * (x.ndim if axis is not None else 1), dtype="i8")
    if name == "merge_sorted" or "searchsorted" in name:
        given |= {"arrays": (x,)} if name == "merge_sorted" else {"v": x}
    if "axis" in PARAMETERS[name] and (axis is not None or flattens(name)):
        given["axis"] = axis
    if (axis or 0) >= x.ndim or (name == "merge_sorted" and x.ndim > 1):
        return
    try:
        call(name, given)
    except ValueError as error:
        assert re.search(r"^(a|arr|an array|the array) .*compute_chunk_sizes\(\)", str(error))


def test_column_names_are_no_keys() -> None:
    for keys in (("a", "b"), "ab"):
        with pytest.raises(TypeError, match="key 0 must be an array, not str: give the array"):
            dask_gpusort.lexsort(keys)
    for array in (pd.Index(["a", "b"]), np.array(["a", "b"]), da.from_array(np.array(["a", "b"], object), chunks=1)):
        with pytest.raises(TypeError, match=r"keys must be several arrays, not one of .*: give \(a,\)"):
            dask_gpusort.lexsort(array)
    for keys, kind in (({"a": X}, "dict"), (b"ab", "bytes")):
        with pytest.raises(TypeError, match=f"keys must be an array, not {kind}: give"):
            dask_gpusort.lexsort(keys)


@pytest.mark.parametrize("ragged", [[[1, 2], [3]], [X, None], [X, [1]]])
def test_sequences_of_different_shapes_are_no_arrays(ragged: Any) -> None:
    with pytest.raises(ValueError, match="^a must be an array, not a sequence of others of different shapes"):
        dask_gpusort.sort(ragged)
    with pytest.raises(ValueError, match="^values 0 must be an array, not a sequence"):
        dask_gpusort.sort_by_key(X, ragged)


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
@pytest.mark.parametrize("method", ["linear", "lower", "inverted_cdf"])
def test_quantiles_of_nothing(method: str, axis: Any) -> None:
    empty = da.zeros((0, 3), chunks=2)
    for function in (dask_gpusort.quantile, dask_gpusort.percentile):
        with pytest.raises(IndexError, match="size 0: a has no elements along the reduced axes"):
            function(empty, [0.5], axis=axis, method=method)
    assert dask_gpusort.quantile(empty, 0.5, axis=1).shape == (0,)


@pytest.mark.parametrize("wrong", [0.5, np.zeros(1), [0]])
def test_an_axis_of_an_array_without_dimensions_is_an_integer(wrong: Any) -> None:
    x = da.from_array(np.array(1.0))
    for function in (dask_gpusort.argsort, dask_gpusort.sort, dask_gpusort.topk):
        with pytest.raises(TypeError, match="axis must be an integer"):
            function(x, *(() if function is not dask_gpusort.topk else (1,)), axis=wrong)


def test_several_keys_are_one_order() -> None:
    x = da.arange(6, chunks=2)
    with pytest.raises(TypeError, match="need sequence of keys .* in sort_by_key: give at least one array"):
        dask_gpusort.sort_by_key((), x)
    for option in ({"key": np.negative}, {"less": np.less}, {"order": "a"}):
        with pytest.raises(ValueError, match=f"{next(iter(option))} cannot be combined with several keys"):
            dask_gpusort.sort_by_key((x, x), x, **option)
    with pytest.raises(ValueError, match=r"same shape: key 1 has shape \(5,\), key 0 \(6,\)"):
        dask_gpusort.sort_by_key((x, da.arange(5)), x)
    with pytest.raises(ValueError, match=r"values 0 of shape \(5,\) do not fit keys of shape \(6,\)"):
        dask_gpusort.sort_by_key((x, x), da.arange(5))
