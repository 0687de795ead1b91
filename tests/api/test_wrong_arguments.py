"""Every public function refuses every kind of wrong argument when it is given, and names the argument.

Functions and parameters are found by introspection: one that is new and has no row here fails a test.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.lib import NumpyVersion
from support import strategies as ours
from support.marks import for_each
from support.sorting import computed

import dask_gpusort

AxisError = np.exceptions.AxisError
#: Public functions that take no arrays, or whose arguments are those of another one; of `to_zarr` see its own tests.
OTHERS = {
    *("Explanation", "cluster", "explain", "permutation", "to_zarr"),
    *("register", "registered", "show_versions", "unregister", "warm_up"),
}
FUNCTIONS = {name: getattr(dask_gpusort, name) for name in dask_gpusort.__all__ if name not in OTHERS}
PARAMETERS = {name: list(inspect.signature(function).parameters) for name, function in FUNCTIONS.items()}
STATISTICS = [name for name in FUNCTIONS if "overwrite_input" in PARAMETERS[name] or name == "explain_quantile"]
ARRAYS = {
    *("a", "ar", "arr", "x", "ar1", "ar2", "element", "test_elements", "v"),
    *("keys", "arrays", "values", "weights", "sorter", "companions", "xp", "fp"),
}
#: Parameters of which any value is true or false, or that choose what is returned.
FLAGS = {
    *("stable", "invert", "pct", "equal_nan", "assume_unique", "keepdims", "sorted", "detail"),
    *("return_index", "return_inverse", "return_counts", "return_indices", "allow_exact_matches"),
}


class Wrong(NamedTuple):
    """A wrong value of a parameter, and the error."""

    value: Any
    error: type[Exception] | tuple[type[Exception], ...]
    message: str
    only: Callable[[str], bool] = lambda name: True


def flattens(name: str) -> bool:
    """Whether the function takes ``axis=None``."""
    return "None" in str(inspect.signature(FUNCTIONS[name]).parameters["axis"].annotation) or name in STATISTICS


def is_statistic(name: str) -> bool:
    return name in STATISTICS


def takes_axes(name: str) -> bool:
    """Whether the function reduces several axes."""
    return name in (*STATISTICS, "mode", "nunique")


def having(*parameters: str) -> list[str]:
    """The functions that have all parameters."""
    return [name for name, own in PARAMETERS.items() if {*parameters} <= {*own}]


def no(test: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda name: not test(name)


def joins(name: str) -> bool:
    return name == "merge_asof"


def pairs(name: str) -> bool:
    return name == "join_indices"


def has_sides(name: str) -> bool:
    return joins(name) or pairs(name)


X = da.from_array(np.arange(12.0) % 5, chunks=4)
ROWS = da.from_array(np.arange(12.0).reshape(4, 3) % 5, chunks=2)
WRONG = {
    "axis": [
        Wrong(2, AxisError, "use an axis from -2 to 1: axis 2 is out of bounds"),
        Wrong(-3, AxisError, "use an axis from -2 to 1: axis -3 is out of bounds"),
        Wrong(10**9, AxisError, "use an axis from -2 to 1: axis 1000000000 is out of bounds"),
        Wrong(0.5, TypeError, "axis must be an integer.*, not 0.5"),
        Wrong("time", TypeError, "axis must be an integer.*, not 'time'"),
        Wrong((0, 1), TypeError, r"axis must be an integer.*, not \(0, 1\)", no(takes_axes)),
        Wrong((0, 0), ValueError, "repeated axis.*once", takes_axes),
        Wrong((0, "x"), TypeError, "axis must be an integer, a tuple of them or None", takes_axes),
        Wrong(None, TypeError, "axis must be an integer, not None", no(flattens)),
    ],
    "q": [
        Wrong(2000, ValueError, r"in the range \[0, 10*\] \(got q=2000\)"),
        Wrong(float("nan"), ValueError, "in the range.*q=nan"),
        Wrong("half", TypeError, "q must be real numbers, not 'half'"),
        *(Wrong(wrong, TypeError, "q must be real numbers, not") for wrong in (None, "0.5", 0.5j)),
        Wrong(Fraction(1, 2), TypeError, "no quantiles of float64 .*: give q as floats"),
        Wrong(np.ma.masked_equal([0, 1], 1), TypeError, "q is masked.*fill them first"),
        Wrong(np.zeros((1, 1, 1)), ValueError, "q must be a scalar or 1d, not an array of 3 dimensions"),
    ],
    "k": [
        *(Wrong(wrong, TypeError, "k must be an integer, not") for wrong in (2.5, "3", None)),
        *(Wrong(w, ValueError, f"k must be from 0 to 3, .*got {w}", lambda name: name == "top_k") for w in (-1, 4)),
    ],
    "seed": [
        *(Wrong(wrong, TypeError, "seed must be an integer or None, not") for wrong in (2.5, "3", [1])),
        Wrong(-1, ValueError, "seed must be at least 0"),
    ],
    "kth": [
        Wrong([[1, 2]], ValueError, "kth must be .*array of 2 dimensions"),
        Wrong(np.ma.masked_equal([0, 1], 1), TypeError, "kth is masked.*fill them first"),
        Wrong(1.5, TypeError, "Partition index must be integer: kth is 1.5"),
        Wrong(True, ValueError, "Booleans unacceptable.*kth"),
        Wrong(100, ValueError, "kth.=100. out of bounds"),
    ],
    "split_every": [
        Wrong(1, ValueError, "split_every must be at least 2"),
        Wrong(2.5, TypeError, "split_every must be an integer or None, not 2.5"),
    ],
    "method": [
        Wrong("hazan", ValueError, "'hazan' is not a valid .* Did you mean 'hazen'.*'hazen', 'weibull'", is_statistic),
        Wrong(["linear"], ValueError, "not a valid method", is_statistic),
        *(Wrong(w, ValueError, "method must be one of 'a.*got", no(is_statistic)) for w in ("mean", None, ["auto"])),
    ],
    "kind": [
        *(Wrong(wrong, ValueError, f"kind.*'{wrong}'") for wrong in ("bubble", "", "\u00e4")),
        *(Wrong(w, TypeError, "kind must be str, not", lambda name: "isin" not in name) for w in (0, ["stable"], True)),
    ],
    "order": [
        Wrong("weight", ValueError, "Cannot specify order.*no fields.*leave"),
        *(Wrong(wrong, ValueError, "unsupported order value: .*: give the name of a field") for wrong in (1, {"a"})),
    ],
    "descending": [
        Wrong([True] * 5, ValueError, "5 directions in `descending` for 2 keys", lambda name: name == "lexsort"),
        Wrong([True] * 5, ValueError, "5 directions in `descending` for 1 keys", lambda name: name != "lexsort"),
    ],
    "key": [
        Wrong("a", TypeError, "key must be a function"),
        Wrong(lambda block: 3.0, ValueError, r"key must return an array.* of shape \(0,( 0)?\) it returned float"),
        *(
            Wrong(key, ValueError, r"key must return an array.* of shape \(0,( 0)?\) it returned an array of shape \(0")
            for key in (lambda block: block[..., None], lambda block: (block, block[..., None]))
        ),
        Wrong(np.max, ValueError, "zero-size array"),
    ],
    "less": [Wrong("a < b", TypeError, r"less of NumPy chunks must be a function.*numpy\.less, not str")],
    "chunks": [
        *(
            Wrong(wrong, ValueError, "chunks must be what rechunk takes")
            for wrong in ("many", 2.5, 0, -2, {0: "x"}, (5, 6, 2), ((3, 3),), {0: (-1, 5)}, {0: (-1, 13)})
        ),
        *(Wrong(wrong, (TypeError, ValueError), "chunks must be") for wrong in (object(), [[1, 2], {3}])),
        Wrong({"x": 3}, TypeError, "axis in chunks must be an integer, not 'x'"),
        Wrong({5: 3}, AxisError, "use an axis from -.* in chunks: axis 5"),
    ],
    "exchange": [Wrong(wrong, ValueError, "exchange must be one of 'auto'") for wrong in ("disk", "")],
    "device": [Wrong("gpu", ValueError, "device must be None or 'cuda'")],
    "strategy": [Wrong("fast", ValueError, "strategy must be one of")],
    "nan_policy": [Wrong("skip", ValueError, "nan_policy must be one of")],
    "side": [Wrong("middle", ValueError, "side must be 'left' or 'right'"), Wrong(1, TypeError, "side must be str")],
    "mode": [Wrong("cycle", ValueError, "mode must be .*'(raise|largest)'.*got 'cycle'")],
    "out": [Wrong(np.zeros(3), TypeError, "out= is .*lazy: leave it out, and assign")],
    "overwrite_input": [Wrong(True, TypeError, "overwrite_input= is .*leave it out")],
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
    "by": [
        Wrong(
            [1, 2], ValueError, r"by of shape \(2,\) does not fit a of shape \(4, 3\).*give labels of shape", no(joins)
        ),
        Wrong("month", ValueError, r"by of shape \(\) does not fit", no(joins)),
        Wrong(
            pd.Series(["b"] * 4, dtype="category"),
            TypeError,
            r"by must be an array, .*: give by\.cat\.codes",
            no(joins),
        ),
        Wrong(np.ma.masked_equal(np.ones((4, 3)), 2), TypeError, "by is masked.*fill them first", no(joins)),
        *(Wrong(one, TypeError, "by must be a pair of arrays: give", joins) for one in (3, [X], X, (X,) * 3)),
        Wrong((X, [1, 2]), ValueError, r"labels of shape \(2,\) for right, which has shape \(12,\)", joins),
        Wrong((X.astype(int), X.astype("u8")), TypeError, "labels of int64 and of uint64: give both as", joins),
        Wrong((X, X.astype("U3")), TypeError, "labels of float64 and of <U3: give both as", joins),
        Wrong(
            (X.astype(object), X.astype(object)),
            TypeError,
            "one dtype of at most 64 bits, dates or strings of fixed width",
            joins,
        ),
    ],
    "how": [Wrong(w, ValueError, "how must be one of 'inner', 'left', 'right', 'outer'") for w in ("cross", 3, None)],
    "direction": [Wrong("up", ValueError, "direction must be one of 'backward', 'forward', 'nearest'")],
    "tolerance": [
        *(Wrong(one, TypeError, "tolerance must be a real number, not") for one in ("1s", [1], np.timedelta64(1, "s"))),
        *(Wrong(one, ValueError, "tolerance must be 0 or more .*give a distance") for one in (-1, float("nan"))),
    ],
    **{
        name: [Wrong(w, TypeError, f"{name} is of labels, and there are none: give by=") for w in (3, [1], "a")]
        for name in ("groups", "window")
    },
    **{
        side: [
            *(
                Wrong(w, TypeError, f"{side} must be a real number.*, not", no(has_sides))
                for w in ("2", 1j, [1], da.ones(()))
            ),
            *(
                Wrong(X.astype(w), TypeError, "left of .* and right of .* must both be numbers.*: give", joins)
                for w in ("M8[s]", "U3", "c16", "g")
            ),
            *(
                Wrong(X.astype(w), TypeError, "left of .* and right of .* cannot be joined: give both as", pairs)
                for w in ("M8[s]", "U3", "c16", "g", "O")
            ),
            Wrong(
                da.ones((2, 2)),
                ValueError,
                f"{side} must have one dimension.*give {side}.ravel",
                lambda n, s=side: pairs(n) or (joins(n) and s == "right"),
            ),
            Wrong((X, X), ValueError, "left has . arrays and right .: give as many", pairs),
            Wrong((X, X[:5]), ValueError, rf"arrays of {side} have sizes \[12, 5\]: give arrays of one size", pairs),
            Wrong((X, ROWS), ValueError, rf"{side}\[1\] must have one dimension, got 2: give {side}\[1\].ravel", pairs),
            Wrong((X, pd.DataFrame()), TypeError, rf"{side}\[1\] must be an array, not DataFrame", pairs),
        ]
        for side in ("left", "right")
    },
    "period": [
        Wrong(0, ValueError, "period must be a non-zero value"),
        *(Wrong(wrong, TypeError, "period must be a real number, not") for wrong in ("day", 1j, [2], da.ones(()))),
    ],
    "sorter": [
        Wrong([0.5], TypeError, "sorter must only contain integers"),
        Wrong([0], ValueError, "sorter.size must equal a.size"),
    ],
    "values": [
        Wrong(
            [da.ones(5)], ValueError, r"values 0 of shape.*fit (keys|right) of shape", no(lambda name: "along" in name)
        ),
        Wrong(X.astype("U3"), TypeError, "values of <U3 have no NaN.*leave out values", joins),
        Wrong(np.ma.masked_equal([0, 1], 1), TypeError, "values is masked.*fill them", lambda name: "along" in name),
        Wrong(np.ones(5), ValueError, r"value array of shape \(5,\)", lambda name: "along" in name),
    ],
}
UNKNOWN, UNKNOWN_ROWS, OTHER_UNKNOWN = (ours.forget_sizes(one) for one in (X, ROWS, X.rechunk(3)))
NO_ROWS = ours.forget_sizes(da.zeros((4, 0), chunks=(2, (0, 0))), (0,))
SIZES = "compute_chunk_sizes"
RECORDS, RAGGED = da.from_array(np.zeros(3, ours.PLAIN_RECORD)), ([[1, 2], [3]], [X, None], [X, [1]])
UNCODED = ("S4", "U4", "c16", "O", "V3", np.longdouble, ours.PLAIN_RECORD)
BY_LESS = [name for name in having("less") if name != "sort_by_key"]
INVERTED = {"method": "inverted_cdf"}
#: Arguments that are wrong together, in place of valid ones, or of the valid "array": the functions, and the error.
TOGETHER: list[tuple[Any, dict[str, Any], Any, str]] = [
    *((having("stable"), {"kind": "q", "stable": one}, ValueError, "time: use only `stable`") for one in (False, True)),
    (having("order"), {"array": RECORDS, "order": "wait"}, ValueError, "unknown .*wait.*'name', 'weight', 'count'"),
    (having("order"), {"array": RECORDS, "order": ["name", "wait"]}, ValueError, "unknown field name.*wait"),
    (having("order"), {"array": RECORDS, "order": ["name", "name"]}, ValueError, "duplicate field"),
    *(
        (having("order", "key"), {"key": lambda b, as_=as_: (b, b.astype(as_)), "order": "key0"}, ValueError, "order")
        for as_ in (np.int32, np.float64, object)
    ),
    (BY_LESS, {"less": np.less, "key": np.abs}, ValueError, "less cannot be combined with key"),
    (BY_LESS, {"less": np.less, "order": "f"}, ValueError, "less cannot be combined with order"),
    (BY_LESS, {"less": np.less, "descending": True}, ValueError, "less cannot be combined with descending"),
    (having("less", "method"), {"less": np.less, "method": "radix"}, TypeError, "not a comparison: use method='auto'"),
    *(
        (having("chunks", "key"), {"array": zeros.rechunk(chunks), "method": "radix"}, TypeError, "radix.*'merge'")
        for zeros in (da.from_array(np.zeros(9, dtype), chunks=9, name=False) for dtype in UNCODED)
        for chunks in (3, -1)
    ),
    (having("chunks"), {"array": X, "exchange": "runs"}, ValueError, "runs.*Client.*exchange='auto'"),
    (["sort", "argsort", "sort_by_key", "lexsort"], {"array": UNKNOWN, "chunks": 5}, ValueError, SIZES),
    (["lexsort"], {"keys": (UNKNOWN, OTHER_UNKNOWN)}, ValueError, SIZES),
    (["lexsort"], {"keys": UNKNOWN_ROWS}, ValueError, SIZES),
    (["sort_by_key"], {"keys": UNKNOWN, "values": (OTHER_UNKNOWN,)}, ValueError, SIZES),
    (["sort_by_key"], {"keys": (UNKNOWN, OTHER_UNKNOWN)}, ValueError, f"key 1 and key 0, of unknown chunk .*{SIZES}"),
    *(
        (["sort_by_key"], {"keys": da.zeros(keys), "values": (da.zeros(values),)}, ValueError, "values 0 .*fit.*shape")
        for keys, values in (((4,), (5,)), ((4,), ()), ((2, 3), (2,)), ((2, 3), (3, 2)), ((4,), (1, 4)))
    ),
    (["sort_by_key"], {"values": (ROWS, da.zeros((4, 3, 1)))}, ValueError, "values 1 .*do not fit.*shape"),
    (["sort_by_key"], {"keys": ()}, TypeError, "need sequence of keys .* in sort_by_key: give at least one array"),
    *(
        (["sort_by_key"], {"keys": (X, X), **one}, ValueError, f"{next(iter(one))} cannot .* with several keys")
        for one in ({"key": np.negative}, {"less": np.less}, {"order": "a"})
    ),
    (["sort_by_key"], {"keys": (X, da.ones(5))}, ValueError, r"same shape: key 1 has shape \(5,\), key 0 \(12,\)"),
    (["sort_by_key"], {"keys": (X, X), "values": (da.ones(5),)}, ValueError, r"values 0 of shape \(5,\) do not fit"),
    *((["lexsort"], {"keys": no_keys}, TypeError, "need sequence of keys") for no_keys in ((), [], ROWS[:0], X[0])),
    *((["lexsort"], {"keys": names}, TypeError, "key 0 must be an array, not str") for names in (("a", "b"), "ab")),
    *(
        (["lexsort"], {"keys": one}, TypeError, r"keys must be several arrays, not one of .*: give \(a,\)")
        for one in (pd.Index(["a", "b"]), np.array(["a", "b"]), da.from_array(np.array(["a", "b"], object), chunks=1))
    ),
    (["lexsort"], {"keys": {"a": X}}, TypeError, "keys must be an array, not dict: give"),
    (["lexsort"], {"keys": b"ab"}, TypeError, "keys must be an array, not bytes: give"),
    *((["sort"], {"a": one}, ValueError, "^a must be an array, not a sequence of others") for one in RAGGED),
    *((["sort_by_key"], {"values": [one]}, ValueError, "^values 0 must be an array, not a sequence") for one in RAGGED),
    (["shuffle"], {"companions": (X,)}, ValueError, "companions 0 has 12 slices along axis 0, x has 4"),
    (["shuffle"], {"companions": (ROWS, UNKNOWN)}, ValueError, f"companions 1 has an unknown size .*{SIZES}"),
    (["shuffle"], {"array": ROWS, "companions": (X,), "axis": 1}, AxisError, "axis 1 is out of bounds"),
    (["merge_asof"], {"array": X.astype("M8[s]"), "tolerance": 1}, TypeError, "tolerance must be a time difference"),
    (["merge_asof"], {"array": X.astype("m8[s]"), "tolerance": np.timedelta64(-1, "ms")}, ValueError, "0 or more"),
    (["merge_asof"], {"left": X.astype("i8"), "right": X.astype("u8")}, TypeError, "int64 and right of uint64 must"),
    (["merge_asof"], {"values": X[:5]}, ValueError, "values of shape .5,. do not fit right of shape .12,."),
    (
        ["join_indices"],
        {"left": X.astype("i8"), "right": X.astype("u8")},
        TypeError,
        "int64 and right of uint64 cannot",
    ),
    (
        ["join_indices"],
        {"left": (X, X), "right": (X, X.astype("U3"))},
        TypeError,
        r"left.1. of float64 and right.1. of",
    ),
    (["join_indices"], {"left": UNKNOWN}, ValueError, rf"^left has an unknown size .*call left.{SIZES}"),
    (["join_indices"], {"right": (X, UNKNOWN)}, ValueError, rf"^right.1. has an unknown .*call right.1..{SIZES}"),
    (["merge_sorted"], {"arrays": ()}, TypeError, "at least one array"),
    (["merge_sorted"], {"arrays": (X, ROWS)}, ValueError, "array 1 has 2 dimensions"),
    (["merge_sorted"], {"arrays": (X.astype("M8[s]"), X.astype("m8[s]"))}, TypeError, "Cannot cast"),
    (["unique"], {"ar": da.from_array(np.zeros((3, 2), object), chunks=3), "axis": 0}, TypeError, "use axis=None"),
    (["unique"], {"ar": da.zeros((3, 2), dtype="i4,O", chunks=2), "axis": 0}, TypeError, "use axis=None"),
    (["unique"], {"ar": UNKNOWN_ROWS, "axis": 0}, ValueError, f"unknown shape.*{SIZES}"),
    (["unique"], {"ar": UNKNOWN_ROWS, "return_index": True}, ValueError, SIZES),
    (["intersect1d"], {"array": UNKNOWN, "return_indices": True}, ValueError, f"needs an ar1 of known .*{SIZES}"),
    (["sort", "argsort", "rank", "mode"], {"a": NO_ROWS, "axis": 1}, ValueError, f"has no elements, and .*{SIZES}"),
    (having("v"), {"a": ROWS}, ValueError, "one dimension"),
    (having("v"), {"a": da.asarray(3)}, ValueError, "one dimension"),
    (having("v"), {"v": np.array(["2020"], "M8[D]")}, TypeError, "DType"),
    (["isin", "explain_isin"], {"kind": "table"}, ValueError, "integer arrays"),
    (having("indices", "mode"), {"indices": [0, 7], "axis": 1}, IndexError, "index 7 is out .* for axis 1 with size 3"),
    *(
        (["put_along_axis"], {"values": np.ones(shape)}, ValueError, "shape mismatch: value array of shape")
        for shape in ((2, 4), (3, 3), (2, 2, 3))
    ),
    (["put_along_axis"], {"values": np.ones(1, "i4,f4")}, TypeError, "values of .* cannot be cast to float64"),
    (having("arr"), {"arr": UNKNOWN_ROWS, "indices": da.zeros((4, 3), dtype=int)}, ValueError, SIZES),
    (having("out", "strategy"), {"axis": 0, "strategy": "blocks"}, ValueError, "whole in their chunks"),
    *(
        (["topk"], {"a": X, "axis": -1, "by": np.ones(12), **one}, TypeError, message)
        for one, message in (({"values": [X]}, "take values at .* argtopk"), ({"split_every": 2}, "split_every is not"))
    ),
    (["topk"], {"a": X.astype("U3"), "axis": 0, "by": np.arange(12), "k": 2}, TypeError, "fewer than 2.*so often"),
    (["mode"], {"by": np.ones(4), "keepdims": True}, TypeError, "keepdims is not for groups"),
    (having("weights"), {"array": X.astype("U3"), "strategy": "samples", "method": "lower"}, ValueError, "needs num"),
    (having("weights"), {"weights": np.ones(4, complex), "axis": 0, **INVERTED}, TypeError, "real numbers"),
    (having("weights"), {"a": UNKNOWN, "weights": np.ones(12), **INVERTED}, ValueError, SIZES),
    *(
        (["quantile"], {"a": keys, "q": Fraction(1, 2), "method": "lower"}, TypeError, "give q as floats, or in a list")
        for keys in (X.astype(int), np.array([Fraction(1), Fraction(2)]))
    ),
    (["quantile"], {"a": X.astype("M8[s]"), "q": Fraction(1, 2)}, TypeError, "NumPy has no quantiles of datetime64"),
    (["quantile"], {"a": X.astype(int), "q": Fraction(1, 2), "strategy": "samples"}, ValueError, "use strategy='auto'"),
]
ONES, FIVE = np.ones((2, 3)), np.arange(5)
QUANTILES = ("quantile", "nanquantile", "percentile", "nanpercentile")
#: Calls that NumPy refuses, of arrays that become Dask arrays: names of functions, arguments, and options.
REFUSED = [
    *(("sort argsort", (ONES, axis), {}) for axis in (2, -3, 10**9, 1.0, "0")),
    *(("sort argsort", (FIVE,), {"kind": kind}) for kind in ("bubble", "", "\u00e4", 0, ["stable"], True)),
    *(("sort argsort", (FIVE,), {"kind": "stable", "stable": stable}) for stable in (False, True)),
    *(("partition argpartition", (FIVE, kth), {}) for kth in (5, -6, [1, 7], 2.0, [])),
    *([("partition argpartition", (FIVE, True), {})] if NumpyVersion(np.__version__) >= "2.3.0" else []),
    *(("partition argpartition", (FIVE, 0), options) for options in ({"axis": 2}, {"kind": "q"}, {"kind": None})),
    ("partition argpartition", (FIVE, 0, -1, "introselect", "x"), {}),
    *(("take", (FIVE, indices), {}) for indices in (np.array([1.0]), np.array(["a"]))),
    ("take", (ONES, np.array([0]), 2), {}),
    ("take", (FIVE, np.array([0]), 0), {"mode": "nearest"}),
    *(
        ("take_along_axis put_along_axis", arguments, {})
        for arguments in (
            (np.ones((2, 0)), np.zeros((2, 3), int), 1),
            (ONES, np.zeros((4, 3), int), 1),
            (ONES, np.zeros((2, 3)), 1),
            (ONES, np.zeros((2, 3), bool), 1),
            (ONES, np.zeros(2, int), 1),
            (ONES, np.zeros((2, 3), int), 2),
            (ONES, np.zeros((2, 3), int), None),
            (np.ones(()), np.zeros((), int), 0),
        )
    ),
    *(
        ("interp", arguments, options)
        for arguments, options in (
            ((ONES, np.ones((2, 2)), np.ones(4)), {}),
            ((ONES, np.ones(4), np.ones((2, 2))), {"period": 2}),
            ((ONES, np.ones(3), np.ones(2)), {}),
            ((ONES, np.ones(3), np.ones(2)), {"period": 2}),
            ((ONES, np.ones(0), np.ones(0)), {}),
            ((ONES, np.ones(2), np.ones(2)), {"period": 0}),
            ((ONES, np.ones(2), np.ones(2)), {"left": 1j}),
            ((ONES, np.ones(2), np.ones(2)), {"right": "a"}),
            *(
                (tuple(np.zeros(2, dtype if number == wrong else float) for number in range(3)), {})
                for wrong, dtypes in enumerate(["c8 g M8[s] U2", "c8 g m8[s] S2", "G g M8[s] U2"])
                for dtype in dtypes.split()
            ),
        )
    ),
    *(
        ("isin setdiff1d", (np.zeros(2, first), np.zeros(2, second)), {})
        for first, second in (("V3", "V5"), ("V3", "S3"), ("i4,i4", "i4"), ("i4,i4", "i4,i4,i4"), ("m8[s]", "m8[Y]"))
    ),
    ("union1d intersect1d setxor1d searchsorted", (np.zeros(2, "M8[s]"), np.zeros(2, "m8[s]")), {}),
    *(("quantile nanquantile", (ONES, q), {}) for q in (1.5, -0.1, np.nan, [0.1] * 12 + [2], np.zeros((1, 1, 1)))),
    ("percentile nanpercentile", (ONES, 101), {}),
    ("quantile nanquantile", (ONES, 0.5), {"method": "median"}),
    *(
        ("quantile nanquantile percentile nanpercentile", (ONES, 0.5, axis), {"weights": weights, **options})
        for axis, weights, options in (
            (None, np.ones(3), INVERTED),
            (0, np.ones(3), INVERTED),
            ((0, 1), np.ones((3, 2)), INVERTED),
            (0, np.ones((3, 2)), INVERTED),
            (0, np.ones(2), {}),
            (0, np.ones(2), {"method": "hazen"}),
        )
    ),
]


@functools.cache
def labelled() -> dict[str, Any]:
    """Labelled arrays, and collections that are no arrays."""
    xr, dd, bag = (pytest.importorskip(name) for name in ("xarray", "dask.dataframe", "dask.bag"))
    array, frame = xr.DataArray(np.arange(6.0), dims="t"), dd.from_pandas(pd.DataFrame({"a": np.arange(6.0)}))
    return {
        "DataArray": array,
        "DataArray of chunks": array.chunk(t=2),
        "Variable": array.variable,
        "Dataset": array.to_dataset(name="a"),
        "frame of dask": frame,
        "series of dask": frame["a"],
        "bag": bag.from_sequence([1, 2]),
        "delayed": dask.delayed(np.arange)(3),
    }


class OtherArray:
    """A chunk of an array library that is neither NumPy nor CuPy; enough of it to build a graph."""

    __array_priority__ = 100
    dtype, ndim, shape, size, nbytes = np.dtype("f8"), 1, (0,), 0, 0

    def __array_function__(self, *args, **kwargs):
        return NotImplemented


OTHER = da.zeros(4, chunks=2)
OTHER._meta = OtherArray()
#: What is no array: the object, None for one of `labelled`, and the message.
NO_ARRAYS = {
    "None": (None, "must be an array, not NoneType: give"),
    "str": ("abc", "must be an array, not str: give"),
    "generator": ((number for number in range(3)), r"must be an array, not generator: give list\(ITSELF\)"),
    "set": ({1, 2}, r"must be an array, not set: give list\(ITSELF\)"),
    "dict": ({"a": 1}, r"must be an array, not dict: give list\(ITSELF.values\(\)\)"),
    "series": (pd.Series([1]), r"must be an array, not Series of pandas: give ITSELF.to_numpy\(\)"),
    "frame": (pd.DataFrame({"a": [1]}), r"must be an array, not DataFrame of .*column.* ITSELF\[.*to_numpy\(\)"),
    "categorical": (pd.Categorical(["b", "a"]), r"must be an array, not Categorical of pandas: give ITSELF.codes"),
    "categories": (pd.Series(["b"], dtype="category"), r"must be an array, not Series .*: give ITSELF.cat.codes"),
    "masked": (da.ma.masked_equal(X, 3), r"is masked.*fill them first, with dask.array.ma.filled\(ITSELF, fill_value"),
    "masked objects": (
        da.ma.masked_equal(X, 3).astype(object),
        r"is masked.*fill them first.*filled\(ITSELF, fill_value",
    ),
    "another library": (OTHER, r"has chunks of .*OtherArray.* ITSELF\.map_blocks"),
    "DataArray": (None, r".*not DataArray of xarray: .*give ITSELF\.data"),
    "DataArray of chunks": (None, r".*not DataArray of xarray: .*give ITSELF\.data"),
    "Variable": (None, r".*not Variable of xarray: give ITSELF\.data"),
    "Dataset": (None, r".*not Dataset of xarray: .*give ITSELF\[.name.\]\.data"),
    "frame of dask": (None, r".*not DataFrame .* ITSELF\[.*to_dask_array\(lengths=True\)"),
    "series of dask": (None, r".*not Series .*give ITSELF\.to_dask_array\(lengths=True\)"),
    "bag": (None, r".*not Bag .*give ITSELF\.to_dataframe\(\)"),
    "delayed": (None, r".*not Delayed.*from_delayed\(ITSELF, shape, dtype\)"),
}
#: Of these, what is taken by its values where it is not what the function works on.
BY_VALUES = ("series", "DataArray", "Variable")
#: Arguments that may be masked, of numbers.
MASKED = {
    **dict.fromkeys(("median", "nanmedian", "quantile", "nanquantile", "percentile", "nanpercentile"), ("a",)),
    **dict.fromkeys(("sort", "argsort", "rank", "topk"), ("a",)),
    "unique": ("ar",),
    "searchsorted": ("v",),
}
#: Methods of the accessor for functions of other names.
METHODS = {
    **dict.fromkeys(("percentile", "nanpercentile"), "quantile"),
    "sort": "sort_values",
    **dict.fromkeys(("lexsort", "sort_by_key"), "sortby"),
    "nanmedian": "median",
    "nanquantile": "quantile",
}


@pytest.fixture(autouse=True)
def building_computes_nothing(raise_if_computes: Any) -> Iterator[None]:
    with raise_if_computes():
        yield


def arguments_of(name: str, array: Any = ROWS) -> dict[str, Any]:
    """Valid arguments of a function: those that it needs."""
    flat = "searchsorted" in name or name in ("merge_sorted", "merge_asof", "join_indices", "interp")
    one = X if flat and array.ndim != 1 else array
    needed = {
        **dict.fromkeys(
            ("a", "ar", "arr", "x", "ar1", "ar2", "element", "test_elements", "v", "xp", "fp", "left", "right"), one
        ),
        "keys": (one, one) if name == "lexsort" else one,
        "arrays": (one,),
        "companions": (),
        "indices": np.zeros((1,) * array.ndim, np.int64),
        "q": 0.5,
        "k": 2,
        "kth": 1,
        "axis": 0,
        "values": (one,) if name == "sort_by_key" else np.zeros((), array.dtype),
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
            positional += given.pop(parameter, ())
        elif parameter in given and has.kind is not inspect.Parameter.KEYWORD_ONLY:
            positional.append(given.pop(parameter))
        elif has.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and has.default is not inspect.Parameter.empty:
            positional.append(has.default)
    return FUNCTIONS[name](*positional, **given)


def refused(name: str, given: dict[str, Any], error: Any, message: str) -> None:
    """Assert that a call is refused, in one line."""
    with pytest.raises(error, match=message) as raised:
        call(name, given)
    assert "\n" not in str(raised.value)


def calls() -> Iterator[tuple[str, str, int]]:
    for parameter, rows in WRONG.items():
        for name in having(parameter):
            yield from ((name, parameter, number) for number, row in enumerate(rows) if row.only(name))


def test_every_parameter_has_rows() -> None:
    known = ARRAYS | FLAGS | set(WRONG)
    assert {parameter for own in PARAMETERS.values() for parameter in own} <= known
    wanted = {(name, parameter) for name, own in PARAMETERS.items() for parameter in own if parameter in WRONG}
    assert {case[:2] for case in calls()} == wanted


@for_each(FUNCTIONS)
def test_the_arguments_of_the_table_are_valid(name: str) -> None:
    call(name, arguments_of(name))


@for_each(calls())
def test_wrong_arguments(name: str, parameter: str, number: int) -> None:
    row = WRONG[parameter][number]
    more = {"axis": 0, **INVERTED} if parameter == "weights" else {}
    refused(name, {**arguments_of(name), **more, parameter: row.value}, row.error, row.message)


@for_each(TOGETHER)
def test_arguments_that_are_wrong_together(names: Any, given: dict[str, Any], error: Any, message: str) -> None:
    assert names
    for name in names:
        others = {parameter: value for parameter, value in given.items() if parameter != "array"}
        refused(name, {**arguments_of(name, given.get("array", ROWS)), **others}, error, message)


@for_each(REFUSED)
def test_what_numpy_refuses(names: str, arguments: Any, options: dict[str, Any]) -> None:
    for name in names.split():
        *given, last = (*arguments[:2], 1, *arguments[2:]) if name == "put_along_axis" else arguments
        with pytest.raises(Exception) as wanted:  # noqa: PT011
            getattr(np, name)(*given, last, **options)
        lazily = [da.from_array(one) if isinstance(one, np.ndarray) else one for one in (*given, last)]
        for ours_ in ([lazily[0], *given[1:], last], *([lazily] if name not in QUANTILES else [])):
            with pytest.raises(type(wanted.value)) as found:
                getattr(dask_gpusort, name)(*ours_, **options)
        words = str(wanted.value).partition(" Use one of")[0].rstrip(".")
        assert name not in QUANTILES or str(found.value).startswith(words)
        assert "partition" not in name or words in str(found.value)


def no_arrays() -> Iterator[tuple[str, str, str]]:
    for name, own in PARAMETERS.items():
        for parameter in (one for one in own if one in ARRAYS or (has_sides(name) and one in ("left", "right"))):
            element = parameter in ("element", "test_elements", "v") or (name, parameter) == (
                "put_along_axis",
                "values",
            )
            valid = ("None", "str") if element else ("None",) if parameter in ("sorter", "weights") else ()
            # Dask raises its own error where a tuple of keys that is not all of arrays is asked for its first one.
            valid += ("delayed",) if (name, parameter) == ("sort_by_key", "keys") else ()
            valid += ("masked",) if parameter in MASKED.get(name.removeprefix("explain_"), ()) else ()
            valid += BY_VALUES if parameter != own[0] else ()
            yield from ((name, parameter, kind) for kind in NO_ARRAYS if kind not in valid)


@for_each(no_arrays())
def test_what_is_no_array(name: str, parameter: str, kind: str) -> None:
    wrong, message = NO_ARRAYS[kind]
    wrong = wrong if kind == "None" or wrong is not None else labelled()[kind]
    given = arguments_of(name)
    several = parameter in ("keys", "arrays", "companions") or (parameter == "values" and name != "put_along_axis")
    if parameter == "weights":
        given |= INVERTED
    named = {"keys": "key", "arrays": "array"}.get(parameter, parameter) + (" 0" if several else "")
    others = (ROWS,) if parameter == "keys" else ()
    message = message.replace("ITSELF", re.escape(f"{parameter}[0]" if several else parameter))
    refused(name, {**given, parameter: (wrong, *others) if several else wrong}, TypeError, f"^{named} {message}")


class CupyArray(OtherArray):
    """The same of CuPy, for which no GPU is needed."""

    __module__ = "cupy"
    dtype = np.dtype("i8")


#: Parameters beside the array that a function works on, whose name is in the error.
BESIDE = {
    "a": ("v", "sorter", "weights", "indices"),
    "ar1": ("ar2",),
    "arr": ("indices", "values"),
    "element": ("test_elements",),
    "keys": ("values",),
    "x": ("xp", "fp"),
}


@for_each((one, other, name) for one, others in BESIDE.items() for other in others for name in having(one, other))
def test_arrays_of_two_libraries(first: str, other: str, name: str) -> None:
    array = da.zeros(12, dtype=int, chunks=4)
    array._meta = CupyArray()
    given = {**arguments_of(name, X), **({"axis": 0} if first == "arr" else INVERTED if other == "weights" else {})}
    given[other] = (array,) if name == "sort_by_key" else array
    named = f"{first} has numpy chunks and {other}( 0)? cupy chunks: move one of them, with map_blocks"
    refused(name, given, TypeError, named)


def test_merged_arrays_of_two_libraries() -> None:
    array = da.zeros(12, dtype=int, chunks=4)
    array._meta = CupyArray()
    refused("merge_asof", {"left": X, "right": array}, TypeError, "left has numpy chunks and right cupy chunks: move")
    refused("merge_asof", {"left": X, "right": X, "values": array}, TypeError, "numpy chunks and values cupy chunks")
    refused("merge_asof", {"left": array, "right": array, "by": (array, array)}, TypeError, "by is for NumPy chunks")
    refused("join_indices", {"left": X, "right": array}, TypeError, "left has numpy chunks and right cupy chunks: move")
    refused(
        "join_indices", {"left": (array, array), "right": (array, array)}, TypeError, "several arrays must have Num"
    )
    refused("merge_sorted", {"arrays": (X, array)}, TypeError, "array 0 has numpy chunks and array 1 cupy chunks: move")


@for_each(product(FUNCTIONS, ["DataArray", "Dataset"]))
def test_the_method_of_the_accessor_that_keeps_labels_is_named(name: str, kind: str) -> None:
    one, first = labelled()[kind], PARAMETERS[name][0]
    accessor = pytest.importorskip("dask_gpusort.xarray").__dict__[f"{kind}Accessor"]
    method = METHODS.get(name, name)
    remedy = rf"use (a|ar|keys)\.gpusort\.{method}\(" if hasattr(accessor, method) else r"^(?!.*gpusort\.).*data"
    refused(name, {**arguments_of(name), first: (one,) if first == "arrays" else one}, TypeError, remedy)


#: Arguments that are arrays beside the first one, of 12 elements of one dimension.
OTHER_ARRAYS = {
    **dict.fromkeys(("ar2", "test_elements", "v", "xp", "fp", "values", "companions", "weights"), np.arange(12.0)),
    "by": np.arange(12) % 3,
    "groups": np.array([2, 0]),
    "indices": np.array([3, 1]),
    "sorter": np.arange(12),
    "q": np.array([0.5, 0.1]),
    "kth": np.array([3, 1]),
}


@for_each((name, each, kind) for each in OTHER_ARRAYS for name in having(each) for kind in BY_VALUES)
def test_labels_in_memory_are_left_out(name: str, parameter: str, kind: str) -> None:
    seed, axis = {"seed": 0}, {"axis": 0}
    axis = {} if joins(name) else axis
    others = {"groups": {"by": OTHER_ARRAYS["by"], **axis}, "by": axis, "weights": INVERTED, "companions": seed}
    given = {**arguments_of(name, X), **others.get(parameter, {})}
    several = {"companions": 1, "values": name != "put_along_axis", "by": 2 * joins(name)}.get(parameter, 0)

    def built(array: Any) -> list[str]:
        found = call(name, {**given, parameter: (array,) * several if several else array})
        return [getattr(one, "name", str(one)) for one in (found if isinstance(found, tuple) else (found,))]

    array, xr = OTHER_ARRAYS[parameter], pytest.importorskip("xarray")
    wrapped = {"series": pd.Series, "DataArray": xr.DataArray, "Variable": functools.partial(xr.Variable, "t")}
    if (name, parameter) == ("put_along_axis", "values"):
        array = array[:1]
    assert built(wrapped[kind](array)) == built(array)


@for_each(["DataArray of chunks", "series of dask", "Dataset", "frame", "bag"])
def test_the_companions_of_topk_are_named(kind: str) -> None:
    message = f"^values {NO_ARRAYS[kind][1]}".replace("ITSELF", "values")
    wrong = labelled()[kind] if kind in labelled() else NO_ARRAYS[kind][0]
    refused("topk", {**arguments_of("topk"), "values": wrong}, TypeError, message)


def test_the_remedy_for_a_series_of_dask_works() -> None:
    with dask.config.set(scheduler="synchronous"):
        found = dask_gpusort.sort(labelled()["series of dask"].to_dask_array(lengths=True))
        assert found.compute().tolist() == [*range(6)]


def positional(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


@for_each(name for name in FUNCTIONS if hasattr(np, name))
def test_positional_arguments_are_those_of_numpy(name: str) -> None:
    if name == "lexsort" and NumpyVersion(np.__version__) < "2.4.0":
        pytest.skip("before, its signature is not told")
    without = ["out"] if name == "take" else []  # its `mode` has always been the fourth argument
    assert positional(FUNCTIONS[name]) == [each for each in positional(getattr(np, name)) if each not in without]


DTYPES = ["?", "M8[s]", "m8[s]", "S3", "U3", "V3", "c8", "g", "O", [("a", "i4"), ("b", "f4")], np.dtypes.StringDType()]


@for_each(product(FUNCTIONS, DTYPES))
def test_dtypes_without_the_arithmetic(name: str, dtype: Any) -> None:
    x = da.from_array(np.zeros(6, dtype), chunks=2, name=False)
    try:
        call(name, arguments_of(name, x))
    except TypeError as error:
        refused = str(error)
        assert re.search(r"give |use ", refused) or "real numbers, not" in refused
        assert str(x.dtype) in refused
        assert name in (*STATISTICS, "interp", "merge_asof", "join_indices")


#: Functions that take lanes in several chunks of unknown sizes.
OF_ANY_SIZES = ("topk", "argtopk", "is_sorted")


@for_each(product(having("axis"), [None, 0, 1]))
def test_unknown_sizes_in_several_dimensions(name: str, axis: int | None) -> None:
    if axis is None and not flattens(name):
        return
    indices = {"indices": da.zeros((1, 1) if axis is not None else 1, dtype=int)} if "along" in name else {}
    given = {**arguments_of(name, UNKNOWN_ROWS), **indices, "axis": axis}
    if name in (OF_ANY_SIZES if axis is not None else (*STATISTICS, "unique", "explain_unique", "nunique", "mode")):
        call(name, given)
    else:
        refused(name, given, ValueError, r"^(a|ar|arr|x|an array|the array) .*compute_chunk_sizes\(\)")


#: Functions that need the length of an array of one dimension.
OF_KNOWN_LENGTH = ("partition", "argpartition", "top_k", "shuffle", "merge_asof", "join_indices", *having("indices"))


@for_each(FUNCTIONS)
def test_unknown_sizes_in_one_dimension(name: str) -> None:
    given = arguments_of(name, UNKNOWN)
    if name in OF_KNOWN_LENGTH:
        refused(name, given, ValueError, r"^(a|ar|arr|x|left|right|an array|the array) .*compute_chunk_sizes\(\)")
    else:
        call(name, given)


@for_each(product(having("axis"), [-2, -1, 0, 1]))
def test_arrays_without_dimensions(name: str, axis: int) -> None:
    """Positions are found, and elements taken, along the axes -1 and 0, as by NumPy; nothing else."""
    given = {**arguments_of(name, da.from_array(np.array(1.0))), "axis": axis}
    if name in ("take", "explain_take"):
        given["indices"] = [0, -1]
    if "kth" in given:
        given["kth"] = 0
    if name in ("argsort", "argpartition", "lexsort") and axis in (-1, 0):
        wanted = np.int64(0) if name == "lexsort" else np.argsort(1.0, axis)
        np.testing.assert_array_equal(computed(call(name, given)), wanted, strict=True)
    elif "take" in name and "along" not in name and axis in (-1, 0):
        found = call(name, given)
        assert name != "take" or computed(found).tolist() == np.take(1.0, [0, -1], axis).tolist()
    else:
        remedy = r"(use axis=None to flatten it|give it one, with reshape\(1\))"
        refused(name, given, np.exceptions.AxisError, f"out of bounds.*{remedy}")


@for_each(product(["linear", "lower", "inverted_cdf"], [None, 0, (0, 1)]))
def test_quantiles_of_nothing(method: str, axis: Any) -> None:
    empty = da.zeros((0, 3), chunks=2)
    for function in (dask_gpusort.quantile, dask_gpusort.percentile):
        with pytest.raises(IndexError, match="size 0: a has no elements along the reduced axes"):
            function(empty, [0.5], axis=axis, method=method)
    assert dask_gpusort.quantile(empty, 0.5, axis=1).shape == (0,)


@for_each([{"exchange": "pigeon"}, *({"groups": wrong} for wrong in (0, -1, "many", 2.5))])
def test_wrong_settings(setting: dict[str, Any]) -> None:
    ((name, wrong),) = setting.items()
    with dask.config.set({f"gpusort.{name}": wrong}):
        refused("sort", {"a": X}, (TypeError, ValueError), "exchange.*'gather'.*pigeon|gpusort.groups")


def test_an_axis_may_be_any_integer_type() -> None:
    assert dask_gpusort.sort(ROWS, np.int8(0)).name == dask_gpusort.sort(ROWS, 0).name


@for_each([0.5, np.zeros(1), [0]])
def test_an_axis_of_an_array_without_dimensions_is_an_integer(wrong: Any) -> None:
    x = da.from_array(np.array(1.0))
    for name in ("sort", "argsort", "topk"):
        refused(name, {**arguments_of(name, x), "axis": wrong}, TypeError, "axis must be an integer")


def test_a_function_of_a_key_that_fails_is_told_why_it_was_called() -> None:
    with pytest.raises(ValueError, match="zero-size") as found:
        dask_gpusort.sort(X, key=np.max)
    assert found.value.__notes__ == ["key was called with an empty chunk, to find the dtype of its result."]


@for_each(
    [
        *(((wrong,), TypeError, "n must be an integer, not") for wrong in (2.5, "3", None)),
        ((-1,), ValueError, "n must be at least 0"),
        ((5, (3, 3)), ValueError, "chunks must be what rechunk takes"),
        ((5, "auto", -1), ValueError, "seed must be at least 0"),
        ((5, "auto", 0.5), TypeError, "seed must be an integer or None"),
    ],
)
def test_wrong_permutations(given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        dask_gpusort.permutation(*given)
