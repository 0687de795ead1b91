"""What every function promises: the reference's results from any chunks, by any exchange, built without computing.

A row of `FUNCTIONS` draws the arguments of one function for a shape, each on its own, and says what it must give. New
functions need a row; the other files of this folder have what is particular to a function.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any
from unittest import mock

import dask
import dask.array as da
import dask.threaded
import numpy as np
import pytest
from dask.callbacks import Callback
from dask.utils import parse_bytes
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.dtypes import StringDType
from support import as_of, grouped, oracle, pairs
from support import positions as at
from support import strategies as ours
from support.oracle import assert_same_values
from support.ranks import ranks_of_lanes
from support.sorting import check_sizes, computed_in_chunks, groups, no_computation
from support.statistics import TAKES_Q_AS_GIVEN, given_to_numpy, where_sums_fit, without_extremes
from support.weights import quantiles_of_weights, weights_of

import dask_gpusort
from dask_gpusort.builders import partitions, sort_last
from dask_gpusort.chunk.tie_groups import METHODS, NAN_POLICIES
from dask_gpusort.plan import counting, division, search, select
from dask_gpusort.table import quantiles


@dataclass(frozen=True)
class Case:
    """A call, and what it must give."""

    arrays: list[np.ndarray]  # its arrays, which become Dask arrays in chunks of their own
    call: Callable[..., Any]
    wanted: list[Any]  # arrays, or errors
    like: int | None = None  # the array whose chunks the results have
    same: Callable[[Any, Any], None] = oracle.assert_same_bits


@dataclass(frozen=True)
class Function:
    """A row of the table."""

    draw: Callable[[Any, tuple[int, ...]], Case]
    several: bool = True  # whether arrays may have several dimensions
    unknown: bool = True  # whether chunk sizes of one-dimensional arrays may be unknown
    aligned: bool = False  # whether arrays of unknown chunk sizes need the same chunks
    exchanges: Any = ours.exchanges
    chunks: bool = False  # whether it takes the chunks of the result


#: Arguments of `make`: keys; a third of the arrays hold some that are equal although their bits differ.
KEYS = st.sampled_from(
    [
        (ours.EVERY,),
        ([dtype for dtype in ours.WITH_TIES if dtype in ours.EVERY], ["special"]),
        # With query planning, Dask packs padded records and swaps byte orders.
        (ours.RECORDS if ours.PADDED_RECORD in ours.EVERY else [ours.PLAIN_RECORD],),
    ]
)


def make(draw: Any, shape: tuple[int, ...], dtypes: Any = ours.EVERY, distributions: Any = ours.DISTRIBUTIONS) -> Any:
    """An array of a shape."""
    dtype, spread, seed = draw(st.sampled_from(dtypes)), draw(st.sampled_from(distributions)), draw(st.integers(0, 999))
    return ours.make(dtype, math.prod(shape), spread, seed).reshape(shape)


def axis_of(draw: Any, shape: tuple[int, ...]) -> int | None:
    return draw(st.sampled_from([None, *range(-len(shape), len(shape))]))


def like_of(axis: int | None, shape: tuple[int, ...]) -> int | None:
    return None if axis is None and len(shape) > 1 else 0


def order_of(draw: Any, array: np.ndarray) -> dict[str, Any]:
    """A direction, and fields of records."""
    names = array.dtype.names
    fields = st.sampled_from(names) | st.lists(st.sampled_from(names), unique=True) if names else st.none()
    return {"descending": draw(st.booleans()), "order": draw(fields)}


def sort(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis, stable = make(draw, shape, *draw(KEYS)), axis_of(draw, shape), draw(st.booleans())
    how, method = order_of(draw, array), draw(ours.options(array.dtype))["method"]

    def same(got: Any, wanted: Any) -> None:
        oracle.assert_same_bits(got, wanted) if stable else oracle.assert_sorts(got, array, axis, **how)

    return Case(
        [array],
        lambda x, **more: dask_gpusort.sort(x, axis, stable=stable, method=method, **how, **more),
        [oracle.sort(array, axis, **how)],
        like_of(axis, shape),
        same,
    )


def argsort(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis = make(draw, shape, *draw(KEYS)), axis_of(draw, shape)
    how, method = order_of(draw, array), draw(ours.options(array.dtype))["method"]
    return Case(
        [array],
        lambda x, **more: dask_gpusort.argsort(x, axis, method=method, **how, **more),
        [oracle.argsort(array, axis, **how)],
        like_of(axis, shape),
    )


def moved_by(positions: np.ndarray, axis: int, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays, or rows of values, in the order of positions."""
    return [one[positions] if positions.ndim == 1 else np.take_along_axis(one, positions, axis) for one in arrays]


def key(draw: Any, shape: tuple[int, ...]) -> Case:
    """By parts of any dtypes that a function finds for each key."""
    parts, axis = draw(ours.several(shape=st.just(shape))), draw(st.integers(-len(shape), len(shape) - 1))
    how: dict[str, Any] = {"descending": draw(st.booleans())}
    array, values = np.arange(math.prod(shape)).reshape(shape), make(draw, shape, distributions=["bits"])
    positions = oracle.lexsort(parts[::-1], axis, [how["descending"]] * len(parts))
    keys, moved = moved_by(positions, axis, array, values)

    def find(block: Any) -> Any:
        found = tuple(part.reshape(-1)[block] for part in parts)
        return found if len(found) > 1 else found[0]

    # Of rows, which are sorted one by one, one function is called.
    one = draw(st.integers(0, 2)) if len(shape) > 1 else None

    def call(x: Any, y: Any, **more: Any) -> Any:
        more |= {"axis": axis, "key": find, **how}
        calls = (dask_gpusort.sort, (x,)), (dask_gpusort.argsort, (x,)), (dask_gpusort.sort_by_key, (x, y))
        found = [function(*given, **more) for function, given in (calls if one is None else calls[one : one + 1])]
        return [*found[:-1], *(found[-1] if isinstance(found[-1], tuple) else found[-1:])]

    wanted = [[keys], [positions], [keys, moved]]
    return Case([array, values], call, list(chain(*wanted) if one is None else wanted[one]), 0)


def by_last_digit(a: Any, b: Any) -> Any:
    return a % 10 < b % 10


def less(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis = make(draw, shape, ["i4", "i8", "u1"]), draw(st.integers(-len(shape), len(shape) - 1))
    positions, values = np.argsort(array % 10, axis, kind="stable"), np.arange(array.size).reshape(shape)

    def call(x: Any, y: Any) -> Any:
        how = {"axis": axis, "less": by_last_digit}
        return dask_gpusort.sort(x, **how), dask_gpusort.argsort(x, **how), *dask_gpusort.sort_by_key(x, y, **how)

    keys, moved = moved_by(positions, axis, array, values)
    return Case([array, values], call, [keys, positions, keys, moved], 0)


def lexsort(draw: Any, shape: tuple[int, ...]) -> Case:
    keys = draw(ours.several(shape=st.just(shape)))
    axis, directions = draw(st.integers(-len(shape), len(shape) - 1)), [draw(st.booleans()) for _ in keys]
    return Case(
        keys,
        lambda *arrays, **more: dask_gpusort.lexsort(arrays, axis, descending=directions, **more),
        [oracle.lexsort(keys, axis, directions)],
        len(keys) - 1,
    )


def sort_by_key(draw: Any, shape: tuple[int, ...]) -> Case:
    keys, axis = make(draw, shape), draw(st.integers(-len(shape), len(shape) - 1))
    down, count = draw(st.booleans()), draw(st.integers(0, 2))
    values = [make(draw, shape, distributions=["bits"]) for _ in range(count)]
    if len(shape) == 1 and draw(st.booleans()):
        rows = draw(st.sampled_from([(3,), (2, 2), (0,), (1, 4)]))
        values.append(np.arange(math.prod((*shape, *rows))).reshape(*shape, *rows))
    return Case(
        [keys, *values],
        lambda *arrays, **more: dask_gpusort.sort_by_key(*arrays, axis=axis, descending=down, **more),
        moved_by(oracle.argsort(keys, axis, descending=down), axis, keys, *values),
        0,
    )


def sort_by_keys(draw: Any, shape: tuple[int, ...]) -> Case:
    keys, axis = draw(ours.several(shape=st.just(shape))), draw(st.integers(-len(shape), len(shape) - 1))
    directions = draw(st.booleans() | st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)).map(tuple))
    down = [directions] * len(keys) if isinstance(directions, bool) else list(directions)
    values = np.arange(math.prod(shape)).reshape(shape)

    def call(*arrays: Any, **more: Any) -> Any:
        return dask_gpusort.sort_by_key(arrays[:-1], arrays[-1], axis=axis, descending=directions, **more)

    return Case([*keys, values], call, moved_by(oracle.lexsort(keys[::-1], axis, down[::-1]), axis, *keys, values), 0)


def topk(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis = make(draw, shape), draw(st.integers(-len(shape), len(shape) - 1))
    k, split = draw(st.integers(-130, 130)), draw(st.none() | st.integers(2, 4))
    rows = (*shape, *draw(st.sampled_from([(), (3,), (2, 2)]))) if len(shape) == 1 else shape
    values, form = np.arange(math.prod(rows)).reshape(rows), draw(st.sampled_from([list, tuple, next]))

    def call(x: Any, y: Any) -> Any:
        found = dask_gpusort.topk(x, k, axis, values=form(iter([y])), split_every=split)
        both = (*found, dask_gpusort.argtopk(x, k, axis, split_every=split))
        assert {one.numblocks[axis] for one in both} == {1}
        return both

    first = oracle.argsort(array, axis, descending=k > 0).take(range(min(abs(k), shape[axis])), axis=axis)
    return Case([array, values], call, [*moved_by(first, axis, array, values), first])


def top_k(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis = make(draw, shape), draw(st.integers(-len(shape), len(shape) - 1))
    k, mode = draw(st.integers(0, shape[axis])), draw(st.sampled_from(["largest", "smallest"]))
    first = oracle.argsort(array, axis, descending=mode == "largest").take(range(k), axis=axis)

    def call(x: Any) -> Any:
        found = dask_gpusort.top_k(x, k, axis=axis, mode=mode)
        assert found.values.shape == found.indices.shape == first.shape
        assert found == (found.values, found.indices)
        return found

    return Case([array], call, [np.take_along_axis(array, first, axis), first])


#: Dtypes whose keys at ranks are searched by samples.
SEARCHED = [np.dtype(name) for name in ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "M8[ns]", "m8[s]")]
if not da.array_expr_enabled():
    SEARCHED += [np.dtype(">f8")]


def partition(draw: Any, shape: tuple[int, ...]) -> Case:
    strategy = draw(st.sampled_from([None, "samples", "sort"]))
    spreads = draw(st.sampled_from([ours.DISTRIBUTIONS, ["special"]]))
    array, axis = make(draw, shape, SEARCHED if strategy == "samples" else ours.EVERY, spreads), axis_of(draw, shape)
    size = array.size if axis is None else shape[axis]
    one = st.integers(-size, size - 1) if array.size else st.integers(-1, 9)  # of no keys, any rank is taken
    kth = draw(one | st.lists(one, max_size=4).map(np.intp) | st.lists(one, min_size=18, max_size=30))

    def call(x: Any) -> Any:
        # As if the sizes had chosen the strategy.
        chosen = {"choose": lambda *_: ("samples", ""), "cuts_by_samples": lambda *_: strategy == "samples"}
        with mock.patch.multiple(partitions, **chosen) if strategy else nullcontext():
            return dask_gpusort.partition(x, kth, axis), dask_gpusort.argpartition(x, kth, axis)

    def same(got: Any, wanted: Any) -> None:
        keys, dim = (array.ravel(), 0) if axis is None else (array, axis)
        if wanted is positions:
            assert got.dtype == np.int64
            assert (np.sort(got, dim) == wanted).all()
            got = np.take_along_axis(keys, got, dim)
        oracle.assert_partitions(got, array, kth, axis)

    flat = array.ravel() if axis is None else array
    positions = np.argsort(np.zeros(flat.shape), -1 if axis is None else axis, kind="stable")
    return Case([array], call, [flat, positions], like_of(axis, shape), same)


WITH_NAN = [*ours.FLOATS, ">f8", *ours.TIMES]
#: Strings and objects, some of them missing.
NAMED = [*ours.LONG_STRINGS, *ours.OBJECTS]
#: Arguments of `make`: keys that NumPy compares by value; half of the arrays hold NaN or NaT.
RANKED = st.sampled_from(
    [([*ours.INTEGERS, *WITH_NAN, "U3", "S2"],), (WITH_NAN, ["special"]), (NAMED, ["few", "special"])]
)


def rank(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis = make(draw, shape, *draw(RANKED)), axis_of(draw, shape)
    method, pct, down = draw(st.sampled_from(METHODS)), draw(st.booleans()), draw(st.booleans())
    # Errors of NaN have tests of their own.
    plain = array.dtype.kind not in "OT" and not (array != array).any()
    policy = draw(st.sampled_from(NAN_POLICIES if plain else ("omit", "propagate")))
    wanted = oracle.by_numbers(lambda keys: ranks_of_lanes(keys, axis, method, policy, pct, down), array, values=False)
    if not (method == "average" or pct or (policy != "raise" and oracle.may_be_nan(array.dtype))):
        wanted = wanted.astype(np.int64)
    return Case(
        [array],
        lambda x: dask_gpusort.rank(x, axis, method=method, nan_policy=policy, pct=pct, descending=down),
        [wanted],
        like_of(axis, shape),
        assert_same_values,
    )


def some_with_nan(dtypes: Any) -> Any:
    """Arguments of `make`: a third of the arrays hold NaN, where some dtypes have them."""
    return st.sampled_from([(dtypes,), (dtypes,), ([np.dtype(name) for name in ("f4", "f8", "c8")], ["special"])])


def unique(draw: Any, shape: tuple[int, ...]) -> Case:
    # NumPy finds no inverse of records of several dimensions.
    array, axis = (
        make(draw, shape, *draw(some_with_nan(ours.EVERY if len(shape) == 1 else [*ours.CODED, *NAMED]))),
        None,
    )
    if len(shape) > 1 and draw(st.booleans()):
        # Subarrays.
        array = make(draw, shape, ["i4", "f8", "M8[D]", "U2", "?"], ["few"])
        axis = draw(st.integers(-len(shape), len(shape) - 1))
    names, equal_nan = ("return_index", "return_inverse", "return_counts"), draw(st.booleans())
    options = {name: draw(st.booleans()) for name in names}
    options |= {"axis": axis, "equal_nan": equal_nan}
    # Without the indices NumPy's sort is not stable, and NaN that differ are in any order.
    every = {**options, **dict.fromkeys(names, True)}
    values, *others = oracle.by_numbers(lambda keys: np.unique(keys, **every), array)
    wanted = [values, *(other for name, other in zip(names, others, strict=True) if options[name])]

    def same(got: Any, wanted: Any) -> None:
        # Of several dimensions, NaN that differ are numbered in the order of the chunks.
        if axis is None and got.shape == array.shape and got.ndim > 1 and not options["return_index"]:
            nans, got = ~np.asarray(array == array, bool), got.copy()
            got[nans] = np.sort(got[nans])
        assert_same_values(got, wanted)

    return Case([array], lambda x: dask_gpusort.unique(x, **options), wanted, None, same)


def nunique(draw: Any, shape: tuple[int, ...]) -> Case:
    dtypes = [dtype for dtype in ours.EVERY if dtype.names is None]
    array, equal_nan, axis = make(draw, shape, dtypes), draw(st.booleans()), axes_of(draw, shape)
    axis = None if len(shape) == 1 else axis  # sizes may be unknown
    count = functools.partial(count_distinct, equal_nan=equal_nan)
    wanted = oracle.by_numbers(lambda keys: of_lanes(count, keys, axis, np.int64), array, values=False)
    return Case([array], lambda x: dask_gpusort.nunique(x, axis, equal_nan=equal_nan), [wanted], None, same_scalars)


def count_distinct(lane: np.ndarray, equal_nan: bool) -> int:
    # Without the counts, NumPy takes all NaT as equal.
    return len(np.unique(lane, return_counts=True, equal_nan=equal_nan)[0])


def of_lanes(function: Callable[[np.ndarray], Any], array: np.ndarray, axis: Any, dtype: Any) -> np.ndarray:
    """What a function finds of each lane along some axes."""
    axes = range(array.ndim) if axis is None else [one % array.ndim for one in np.atleast_1d(axis)]
    lanes = np.moveaxis(array, [*axes], range(len(axes)))
    lanes = lanes.reshape(math.prod(lanes.shape[: len(axes)]), *lanes.shape[len(axes) :])
    found = np.empty(lanes.shape[1:], dtype)
    for index in np.ndindex(found.shape):
        found[index] = function(lanes[(slice(None), *index)])
    return found


def mode_of(lane: np.ndarray, policy: str) -> tuple[Any, int]:
    """The smallest of the most common elements, and its count."""
    values, counts = np.unique(lane, return_counts=True)
    if policy == "omit" and lane.dtype.kind in "fcmM":
        counts = np.where(np.isnan(values), 0, counts)
    if len(values) == 0:
        return ("NaT" if lane.dtype.kind in "mM" else np.nan), 0
    return values[counts.argmax()], counts.max()


def mode(draw: Any, shape: tuple[int, ...]) -> Case:
    # NumPy's scalars of strings and objects have another dtype than their array.
    dtypes = [dtype for dtype in ours.EVERY if dtype.kind not in "OSTU"]
    array, axis = make(draw, shape, dtypes), axes_of(draw, shape)
    policy, keepdims = draw(st.sampled_from(["propagate", "omit"])), draw(st.booleans())
    # Of no elements, the mode is NaN.
    sizes = [shape[dim] for dim in np.atleast_1d(range(len(shape)) if axis is None else axis)]
    dtype = np.dtype("f8") if 0 in sizes and array.dtype.kind not in "fcmM" else array.dtype
    wanted = [of_lanes(lambda lane: mode_of(lane, policy)[0], array, axis, dtype)]
    wanted += [of_lanes(lambda lane: mode_of(lane, policy)[1], array, axis, np.int64)]
    if keepdims:
        wanted = [np.expand_dims(one, tuple(range(len(shape))) if axis is None else axis) for one in wanted]
    call = functools.partial(dask_gpusort.mode, axis=axis, nan_policy=policy, keepdims=keepdims)
    return Case([array], call, wanted, None, same_but_for_byte_order)


IN_SETS = [np.dtype(name) for name in ("i1", "i8", "f4", "f8", "c8", "M8[D]", "S3", "U2", "?", ">i8", ">f4", ">m8[s]")]
IN_SETS = [dtype for dtype in [*IN_SETS, *NAMED] if dtype.isnative or not da.array_expr_enabled()]


def two(draw: Any, shape: tuple[int, ...]) -> list[Any]:
    first = make(draw, shape, *draw(some_with_nan(IN_SETS)))
    return [first, make(draw, (draw(st.integers(0, 60)),), [first.dtype], ["few", "small", "special", "bits"])]


def set_function(name: str) -> Callable[[Any, tuple[int, ...]], Case]:
    def draw_sets(draw: Any, shape: tuple[int, ...]) -> Case:
        arrays, options = two(draw, shape), {}
        if name != "union1d" and draw(st.booleans()):
            rng, options = np.random.default_rng(draw(st.integers(0, 99))), {"assume_unique": True}
            arrays = [rng.permutation(oracle.by_numbers(np.unique, array)) for array in arrays]
        wanted = oracle.by_numbers(functools.partial(getattr(np, name), **options), *arrays)
        call = functools.partial(getattr(dask_gpusort, name), **options)
        return Case(arrays, call, [wanted], None, assert_same_values)

    return draw_sets


def intersect1d_with_positions(draw: Any, shape: tuple[int, ...]) -> Case:
    arrays = two(draw, shape)
    return Case(
        arrays,
        lambda x, y: dask_gpusort.intersect1d(x, y, return_indices=True),
        list(oracle.by_numbers(functools.partial(np.intersect1d, return_indices=True), *arrays)),
        None,
        assert_same_values,
    )


NEEDLES = st.sampled_from([(0,), (1,), (3, 0, 2), (), *[(40,), (6, 7), (2, 3, 4)] * 3])


def ranks_by_definition(keys: Any, needles: Any, side: str) -> Any:
    """Ranks by the stable order of keys and needles together: of equals, needles come first for the left side."""
    joined = (needles, keys) if side == "left" else (keys, needles)
    first_key, first_needle = (len(needles), 0) if side == "left" else (0, len(keys))
    order = oracle.argsort(np.concatenate(joined))
    is_key = (order >= first_key) & (order < first_key + len(keys))
    ranks = np.empty(len(needles), np.int64)
    ranks[order[~is_key] - first_needle] = np.cumsum(is_key)[~is_key]
    return ranks


#: Numbers, of which keys and needles of other dtypes are promoted.
PROMOTED = [dtype for dtype in ours.EVERY if dtype.kind in "biufc" and dtype.char not in "gG"]


def needles_for(draw: Any, keys: Any) -> Any:
    """Needles of the dtype of some keys, half of which are among these, or of another one of numbers or text."""
    alike = PROMOTED if keys.dtype in PROMOTED else [one for one in ours.EVERY if one.kind == keys.dtype.kind in "SU"]
    needles = make(draw, draw(NEEDLES), [draw(st.just(keys.dtype) | st.sampled_from([keys.dtype, *alike]))])
    if keys.size and needles.dtype == keys.dtype:
        needles.reshape(-1)[::2] = keys.reshape(-1)[np.arange(needles.size)[::2] % keys.size]
    return needles


def searchsorted(draw: Any, shape: tuple[int, ...]) -> Case:
    keys = oracle.sort(make(draw, shape, ours.EVERY, draw(st.sampled_from([ours.DISTRIBUTIONS, ["few", "small"]]))))
    side = draw(st.sampled_from(["left", "right"]))
    needles = needles_for(draw, keys)
    wanted = ranks_by_definition(keys, needles.reshape(-1), side).reshape(needles.shape)
    if keys.dtype.kind in "?buifcmMS":
        np.testing.assert_array_equal(wanted, np.searchsorted(keys, needles, side))
    return Case([keys, needles], lambda x, v: dask_gpusort.searchsorted(x, v, side), [wanted], 1, assert_same_values)


#: Numbers that NumPy converts safely to float64.
REAL = [np.dtype(name) for name in (*ours.INTEGERS, *ours.FLOATS, ">i4", ">f8")]
REAL = [dtype for dtype in REAL if dtype in ours.EVERY]
NUMBERS = st.none() | st.integers(-9, 9) | st.floats(allow_nan=False, width=32)


def interp_with_period(x: Any, xp: Any, fp: Any, period: float) -> Any:
    """NumPy's, where a stable sort orders the points that are equal modulo the period."""
    period, (x, xp) = abs(period), (one.astype(float) % abs(period) for one in (x, xp))
    order = np.argsort(xp, kind="stable")
    at = np.concatenate([order[-1:], order, order[:1]])
    points = xp[at]
    points[0] -= period
    points[-1] += period
    return np.interp(x, points, fp[at])


def interp(draw: Any, shape: tuple[int, ...]) -> Case:
    size = (max(shape[0], 1),)
    xp, period = make(draw, size, REAL), draw(st.none() | st.sampled_from([7, -3, 0.5, np.float32(360)]))
    if xp.dtype.kind == "f":
        xp = np.where(np.isfinite(xp) if period else ~np.isnan(xp), xp, xp.dtype.type(0))
    xp = xp if period else np.sort(xp)
    fp, x = make(draw, size, [*REAL, *(np.dtype(name) for name in ("c8", "c16"))]), make(draw, draw(NEEDLES), REAL)
    x.reshape(-1)[::2] = xp.astype(x.dtype)[np.arange(x.size)[::2] % len(xp)]
    how = {"left": draw(NUMBERS), "right": draw(NUMBERS | st.just(2 - 1j)) if fp.dtype.kind == "c" else draw(NUMBERS)}
    wanted = interp_with_period(x, xp, fp, period) if period else np.interp(x, xp, fp, **how)
    if period and len(np.unique(xp.astype(float) % abs(period))) == len(xp):
        np.testing.assert_array_equal(wanted, np.interp(x, xp, fp, period=period))
    call = functools.partial(dask_gpusort.interp, **how, period=period)
    return Case([x, xp, fp], call, [np.asarray(wanted)], 0, assert_same_values)


def merge_asof(draw: Any, shape: tuple[int, ...]) -> Case:
    kinds = draw(st.sampled_from([as_of.NUMBERS, as_of.DATES, as_of.TIMES]))
    right, labels = make(draw, draw(NEEDLES.filter(lambda one: len(one) == 1)), kinds, as_of.DISTRIBUTIONS), None
    left = make(draw, shape, kinds, as_of.DISTRIBUTIONS)
    if draw(st.booleans()):
        first, second = draw(st.permutations(draw(as_of.LABELS)))
        labels = [make(draw, shape, [np.dtype(first)], ["few"]), make(draw, right.shape, [np.dtype(second)], ["few"])]
    else:
        right = np.sort(right)
    some = np.arange(left.size)[::2]
    if right.size:
        left.reshape(-1)[::2] = right.astype(left.dtype)[some % right.size]
    joined = np.result_type(left, right)
    for one in (left, right):  # dates of other units may not fit
        assume(np.array_equal(one.astype(joined).astype(one.dtype), one, equal_nan=True))
    number = draw(st.none() | st.sampled_from([0, 1, 3, 1000]))
    tolerance = number if number is None or joined.kind not in "mM" else np.timedelta64(number, "h")
    in_units = isinstance(tolerance, np.timedelta64)
    most = int(tolerance.astype(joined.str.replace("M8", "m8")).astype(int)) if in_units else tolerance
    how = {"direction": draw(st.sampled_from(["backward", "forward", "nearest"])), "tolerance": tolerance}
    how["allow_exact_matches"] = draw(st.booleans())
    rows = as_of.rows_of(left, right, labels, how["direction"], most, how["allow_exact_matches"])
    values = make(draw, (*right.shape, *draw(st.sampled_from([(), (), (2,)]))), as_of.VALUES, ["bits"])
    missing = values.dtype if values.dtype.kind in "fmM" else np.dtype(float)
    picked = np.zeros((*rows.shape, *values.shape[1:]), missing)
    picked[rows >= 0] = values[rows[rows >= 0]]
    picked[rows < 0] = np.array("NaT" if picked.dtype.kind in "mM" else np.nan, picked.dtype)

    def call(x: Any, y: Any, z: Any, *by: Any) -> Any:
        by = by or None
        return dask_gpusort.merge_asof(x, y, by=by, **how), dask_gpusort.merge_asof(x, y, z, by, **how)

    return Case([left, right, values, *(labels or ())], call, [rows, picked], None, assert_same_values)


def join_indices(draw: Any, shape: tuple[int, ...]) -> Case:
    count, how = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.sampled_from(pairs.HOW))
    sizes = shape, draw(st.sampled_from([(0,), (1,), (7,), (40,), (90,)]))
    kinds = [draw(st.sampled_from(pairs.KINDS)) for _ in range(count)]
    spreads = pairs.DISTRIBUTIONS if count == 1 else ["constant", "few", "few", "special"]
    left, right = ([make(draw, own, kind, spreads) for kind in kinds] for own in sizes)
    some = np.arange(shape[0])[:: draw(st.integers(1, 3))]
    for one, other in zip(left, right, strict=True):
        if other.size:
            with np.errstate(all="ignore"):
                one[some] = other.astype(one.dtype)[some % other.size]
        joined = np.result_type(one, other)
        for each in (one, other):  # dates of other units may not fit
            equal_nan = each.dtype.kind not in "SU"
            assume(np.array_equal(each.astype(joined).astype(each.dtype), each, equal_nan=equal_nan))

    def call(*arrays: Any) -> Any:
        sides = (arrays[:count], arrays[count:]) if count > 1 else arrays
        return dask_gpusort.join_indices(*sides, how)

    return Case([*left, *right], call, pairs.pairs_of(left, right, how))


def isin(draw: Any, shape: tuple[int, ...]) -> Case:
    test, invert = make(draw, shape), draw(st.booleans())
    elements = needles_for(draw, test)
    with np.errstate(invalid="ignore"):
        inside = (elements.reshape(-1, 1) == test.reshape(1, -1)).any(1).reshape(elements.shape)
    numbers = [*elements.reshape(-1).tolist(), *test.reshape(-1).tolist(), 0]
    tables = elements.dtype.kind in "biu" and test.dtype.kind in "biu" and max(numbers) - min(numbers) < 1 << 16
    kind = draw(st.sampled_from([None, "sort", "table"])) if tables else None
    call = functools.partial(dask_gpusort.isin, invert=invert, kind=kind)
    return Case([elements, test], call, [inside != invert], 0, assert_same_values)


#: Where a lane in several chunks is joined, Dask makes swapped byte orders native and padded records packed.
TAKEN = [dtype for dtype in ours.EVERY if dtype.names is None]


def take(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis = make(draw, shape, TAKEN, ["bits"]), axis_of(draw, shape)
    mode, size = draw(st.sampled_from(("raise", "wrap", "clip"))), array.size if axis is None else shape[axis]
    own = draw(st.sampled_from([(0,), (5,), (90,), (3, 4), (2, 3, 2), ()])) if size else (0,)
    dtype, spread = draw(st.sampled_from(at.INDEX_DTYPES)), draw(st.sampled_from(at.SPREADS))
    indices = at.indices_below(size if mode == "raise" else 3 * size, own, dtype, 3, spread)
    held = draw(st.sampled_from([indices, indices.tolist() if indices.size else indices]))
    # NumPy makes swapped byte orders native in its scalars.
    return Case(
        [array, indices] if draw(st.booleans()) else [array],
        lambda x, i=held: dask_gpusort.take(x, i, axis, mode=mode),
        [np.asarray(np.take(array, indices, axis, mode=mode), array.dtype)],
    )


def take_along_axis(draw: Any, shape: tuple[int, ...]) -> Case:
    array, indices, axis = draw(at.lanes(shape))
    return Case(
        [array, indices],
        lambda x, i: dask_gpusort.take_along_axis(x, i, axis),
        [np.take_along_axis(array, indices, axis)],
    )


def put_along_axis(draw: Any, shape: tuple[int, ...]) -> Case:
    array, indices, axis = draw(at.lanes(shape))
    own = [draw(st.sampled_from([1, size])) for size in np.take_along_axis(array, indices, axis).shape]
    own = own[draw(st.integers(0, 1)) * (len(own) > 1) :]
    values, wanted = ours.make(array.dtype, math.prod(own), "bits", 100).reshape(own), array.copy()
    np.put_along_axis(wanted, indices, values, axis)
    return Case([array, indices, values], lambda x, i, v: dask_gpusort.put_along_axis(x, i, v, axis), [wanted], 0)


def merge_sorted(draw: Any, shape: tuple[int, ...]) -> Case:
    dtype, spread, down = (
        draw(st.sampled_from(ours.EVERY)),
        draw(st.sampled_from(ours.DISTRIBUTIONS)),
        draw(st.booleans()),
    )
    arrays = [ours.make(dtype, draw(st.integers(0, 60)), spread, seed) for seed in range(draw(st.integers(1, 4)))]
    arrays = [oracle.sort(array, descending=down) for array in arrays]
    return Case(
        arrays,
        lambda *arrays, **more: dask_gpusort.merge_sorted(*arrays, descending=down, **more),
        [oracle.sort(np.concatenate(arrays), descending=down)],
    )


def is_sorted(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis, down = make(draw, shape), axis_of(draw, shape), draw(st.booleans())
    if draw(st.booleans()):
        array = oracle.sort(array, axis, descending=down).reshape(shape)
        if array.size and draw(st.booleans()):
            flat, (one, other) = array.reshape(-1), [draw(st.integers(0, array.size - 1)) for _ in range(2)]
            flat[[one, other]] = flat[[other, one]]
    # By definition: a stable sort moves no element.
    wanted = (np.diff(oracle.argsort(array, axis, descending=down), axis=-1 if axis is None else axis) > 0).all()
    return Case([array], lambda x: dask_gpusort.is_sorted(x, axis, descending=down), [wanted], None, assert_same_values)


def axes_of(draw: Any, shape: tuple[int, ...]) -> Any:
    several = st.permutations(range(len(shape))).flatmap(
        lambda axes: st.integers(1, len(axes)).map(lambda count: tuple(axes[:count]))
    )
    return draw(st.none() | st.integers(-len(shape), len(shape) - 1) | several)


def in_rounds(rounds: int) -> Any:
    """Plan so many rounds of samples, if there are as many keys."""
    fetched = select.FETCHED_BYTES if rounds == 1 else 0
    return mock.patch.multiple(select, FETCHED_BYTES=fetched, LEAST_SAMPLES=1 << 9, MOST_ROUNDS=rounds)


def quantile(draw: Any, shape: tuple[int, ...]) -> Case:
    shape = tuple(max(size, 1) for size in shape)
    shape = (shape[0] * draw(st.sampled_from([1, 40])),) if len(shape) == 1 else shape
    dtypes = ["i1", "i4", "u8", "i8", "f2", "f4", "f8", "m8[s]"]
    dtypes += [] if da.array_expr_enabled() else [">f2", ">f4", ">i8"]
    name = draw(st.sampled_from(("quantile", "nanquantile", "percentile", "nanpercentile", "median", "nanmedian")))
    array = make(draw, shape, [*dtypes, "?" if name.endswith("median") else "M8[ns]"])
    axis = axes_of(draw, shape)
    options, arguments = {"keepdims": draw(st.booleans())}, [axis]
    if name == "nanmedian":
        array = without_extremes(array)
    if not name.endswith("median"):
        options["method"] = draw(st.sampled_from(list(quantiles.METHODS)))
        several = st.lists(st.floats(0, 1), min_size=1, max_size=4) | st.just(np.linspace(0, 1, 40))
        q = np.array(draw(st.floats(0, 1) | several))
        # Of two-dimensional q, NumPy's functions that skip NaN put only the first dimension in front.
        q = np.stack([q, q]) if q.ndim and "nan" not in name and draw(st.booleans()) else q
        arguments = [given_to_numpy((q * 100 if "percent" in name else q).tolist()), axis]
    strategy = draw(st.sampled_from(("auto", "samples", "rechunk", "join")))
    rounds, most, inside = (draw(st.sampled_from(values)) for values in ([1, 1, 2, 4], [0, 16], [0, 1e9]))

    def call(x: Any) -> Any:
        with in_rounds(rounds), mock.patch.multiple(select, MOST_COMPARED=most, MOST_INSIDE=inside):
            return getattr(dask_gpusort, name)(x, *arguments, strategy=strategy, **options)

    wanted, array = where_sums_fit(lambda keys: np.asarray(getattr(np, name)(keys, *arguments, **options)), array)
    if "nan" in name or not TAKES_Q_AS_GIVEN:
        # NumPy gives all lanes the dtype of the first, which differs if that has only NaN to skip; before 2.4, any NaN.
        wanted = wanted.astype(np.asarray(getattr(np, name)(np.ones_like(array), *arguments, **options)).dtype)
    return Case(
        [array],
        call,
        [wanted],
        None,
        same_scalars if array.dtype.isnative else same_but_for_byte_order,
    )


def same_scalars(got: Any, wanted: Any) -> None:
    assert_same_values(np.asarray(got), wanted)


def same_but_for_byte_order(got: Any, wanted: Any) -> None:
    """Elements that NumPy takes one by one have the native byte order."""
    assert_same_values(*(np.asarray(one, one.dtype.newbyteorder("=")) for one in (got, wanted)))


def weighted_quantile(draw: Any, shape: tuple[int, ...]) -> Case:
    shape = tuple(max(size, 1) for size in shape)
    array = make(draw, shape, ["?", "i1", "u8", "i8", "f2", "f4", "f8", ">f4", "M8[D]", "m8[s]"])
    name, axis = draw(st.sampled_from(("quantile", "nanquantile", "percentile", "nanpercentile"))), axes_of(draw, shape)
    q = draw(st.sampled_from([0, 1, 0.5, True, np.float32(0.2), np.float16(0.7), [], [0, 1], [0.25, 0.75, 0.3]]))
    if "percent" in name:
        q = np.minimum(np.multiply(q, 100), type(q)(100)) if isinstance(q, np.generic) else np.multiply(q, 100).tolist()
    q = given_to_numpy(q)
    along = axis is not None and draw(st.booleans())
    weights = draw(weights_of([shape[one] for one in np.atleast_1d(axis)] if along else shape))
    options = {"keepdims": draw(st.booleans()), "method": "inverted_cdf"}
    strategy = draw(st.sampled_from(("auto", "samples", "rechunk")))

    def call(x: Any, w: Any) -> Any:
        return getattr(dask_gpusort, name)(x, q, axis, weights=w, strategy=strategy, **options)

    wanted = quantiles_of_weights(name, array, q, axis, weights, **options)
    return Case([array, weights], call, [wanted], None, same_but_for_byte_order)


def listed(axis: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(len(shape))) if axis is None else tuple(one % len(shape) for one in np.atleast_1d(axis))


def grouped_quantile(draw: Any, shape: tuple[int, ...]) -> Case:
    array, name, arguments, options = draw(grouped.keys_of(shape))
    axis = axes_of(draw, shape)
    axes = listed(axis, shape)
    labels = draw(grouped.labels_of(tuple(shape[dim] for dim in axes)))
    window = draw(st.sampled_from([None, 1, 3, 5, 301])) if len(axes) == 1 else None
    # Of strings and objects there is no NaN, which is the result of a group that may be empty.
    lazy, has_nan = draw(st.booleans()), array.dtype.kind not in "UO"
    wanted = draw(grouped.groups_of(labels, absent=has_nan)) if has_nan or not lazy else None
    about = axes, labels, wanted, window or 1

    def of_group(lanes: np.ndarray) -> Any:
        return getattr(np, name)(lanes, *arguments, axis=0, **options)

    (result, empty), array = where_sums_fit(lambda keys: grouped.expected(of_group, keys, *about), array)
    assume(has_nan or not empty)
    # With query planning, Dask computes no chunks of unknown sizes.
    assume(not (lazy and wanted is None and da.array_expr_enabled()))
    if lazy and wanted is not None and result.dtype.kind in "biu":
        result = result.astype(np.float64)
    strategy = draw(
        st.sampled_from(("auto", "rechunk", "sort") if array.dtype.kind not in "UO" else ("auto", "rechunk"))
    )
    # The sort of labels that are objects compares all of them.
    assume(labels.dtype.kind != "O" or not lazy or wanted is not None or strategy == "rechunk" or None not in labels)

    def call(x: Any, by: Any = labels) -> Any:
        refused = strategy == "sort" and x.dtype.kind == "c" and not isinstance(x._meta, np.ndarray)
        chosen = "auto" if refused else strategy
        return getattr(dask_gpusort, name)(
            x, *arguments, axis, by=by, groups=wanted, window=window, strategy=chosen, **options
        )

    return Case([array, labels] if lazy else [array], call, [result], None, same_but_for_byte_order)


#: Arguments of `make`: keys of groups; a third of the arrays hold many NaN or NaT.
IN_GROUPS = st.sampled_from(
    [(["?", "i1", "u2", "i8", "U3", "S3"],), (["f8", ">f4", "c16", "M8[D]"],), (["f2", "f4", "m8[s]"], ["special"])]
)


def where_groups_fit(function: Callable[..., Any], labels: np.ndarray, window: int | None = None) -> Callable[..., Any]:
    """The function, with larger chunks where it refuses lanes that are not whole in a chunk, nor are their groups."""
    largest = max(map(len, grouped.members_of(labels, None, window or 1)), default=0)

    def call(*given: Any) -> Any:
        limit = parse_bytes(dask.config.get("array.chunk-size"))
        try:
            with dask.config.set({"array.chunk-size": max(limit, largest * given[0].dtype.itemsize)}):
                return function(*given)
        except ValueError as error:
            if "do not fit a chunk" not in str(error):
                raise
        with dask.config.set({"array.chunk-size": "128MiB"}):
            return function(*given)

    return call


def reducer_of_groups(name: str) -> Callable[[Any, tuple[int, ...]], Case]:
    """A row of a function that finds something of groups along axes."""

    def draw_groups(draw: Any, shape: tuple[int, ...]) -> Case:
        array, k, equal_nan = make(draw, shape, *draw(IN_GROUPS)), draw(st.integers(-4, 4)), draw(st.booleans())
        policy, has_nan = draw(st.sampled_from(["propagate", "omit"])), array.dtype.kind not in "US"
        top = name in ("topk", "argtopk")
        axis = draw(st.integers(-len(shape), len(shape) - 1)) if top else axes_of(draw, shape)
        axes, lazy = listed(axis, shape), draw(st.booleans())
        labels = draw(grouped.labels_of(tuple(shape[dim] for dim in axes)))
        wanted = draw(grouped.groups_of(labels, absent=has_nan)) if has_nan or not lazy else None
        window = draw(st.sampled_from([None, 3, 301])) if len(axes) == 1 and name != "argtopk" else None

        def first(lanes: np.ndarray) -> np.ndarray:
            order = oracle.argsort(lanes, 0, descending=k > 0)[: abs(k)]
            return np.take_along_axis(lanes, order, 0) if name == "topk" else order

        def along(function: Callable[[np.ndarray], Any], dtype: Any = None) -> Callable[[np.ndarray], np.ndarray]:
            return lambda lanes: of_lanes(function, lanes, 0, dtype or lanes.dtype)

        functions, least, fill = {
            "topk": ([first], abs(k), None),
            "argtopk": ([first], abs(k), -1),
            "nunique": ([along(functools.partial(count_distinct, equal_nan=equal_nan), int)], 1, 0),
            "mode": (
                [along(lambda lane: mode_of(lane, policy)[0]), along(lambda lane: mode_of(lane, policy)[1], int)],
                1,
                None,
            ),
        }[name]
        about = array, axes, labels, wanted, window or 1
        results = [
            grouped.expected(function, *about, least=least, fill=0 if number else fill)
            for number, function in enumerate(functions)
        ]
        occur = lazy and wanted is None and least <= 1
        may_lack = results[0][1] if not lazy else least > 0 and not occur
        assume(has_nan or fill is not None or not may_lack)
        assume(not (lazy and wanted is None and da.array_expr_enabled()))
        found = [one for one, _ in results]
        if may_lack and fill is None and found[0].dtype.kind in "biu":
            found[0] = found[0].astype(np.float64)
        if name == "argtopk":
            found = [grouped.positions_of_members(found[0], labels, wanted, axes[0])]
        options = {"nunique": {"equal_nan": equal_nan}, "mode": {"nan_policy": policy}}.get(name, {"k": k})
        options |= {} if name == "argtopk" else {"window": window}

        def call(x: Any, by: Any = labels) -> Any:
            return getattr(dask_gpusort, name)(x, axis=axis, by=by, groups=wanted, **options)

        call = where_groups_fit(call, labels, window)
        return Case([array, labels] if lazy else [array], call, found, None, same_but_for_byte_order)

    return draw_groups


GROUPED = ("topk", "argtopk", "nunique", "mode")


def grouped_rank(draw: Any, shape: tuple[int, ...]) -> Case:
    array, axis = make(draw, shape, *draw(RANKED)), axis_of(draw, shape)
    method, pct, down = draw(st.sampled_from(METHODS)), draw(st.booleans()), draw(st.booleans())
    policy, lazy = draw(st.sampled_from(["omit", "propagate"])), draw(st.booleans())
    axes = listed(axis, shape)
    labels = draw(grouped.labels_of(tuple(shape[dim] for dim in axes)))
    wanted = draw(grouped.groups_of(labels, absent=True))
    window = draw(st.sampled_from([1, 3, 5])) if len(axes) == 1 and method != "ordinal" else 1
    lanes = array if array.dtype.kind not in "OT" else oracle.as_numbers(array)[0][0]
    lanes = lanes.reshape(-1) if axis is None else lanes
    dim, ranks = (axis or 0) % lanes.ndim, np.full(lanes.shape, np.nan)
    for own, members in zip(*(grouped.members_of(labels, wanted, each) for each in (1, window)), strict=True):
        found = ranks_of_lanes(lanes.take(members, dim), dim, method, policy, pct, down)
        ranks[(slice(None),) * dim + (own,)] = found.take([members.index(each) for each in own], dim)
    known = [
        None if wanted is not None and one not in grouped.plain(wanted) else one
        for one in grouped.plain(labels.reshape(-1))
    ]
    missing = (wanted is not None or labels.dtype.kind in "fcmMOT") if lazy else None in known
    if not (method == "average" or pct or oracle.may_be_nan(array.dtype) or missing):
        ranks = ranks.astype(np.int64)

    def call(x: Any, by: Any = labels) -> Any:
        options = {"method": method, "nan_policy": policy, "pct": pct, "descending": down}
        return dask_gpusort.rank(x, axis, by=by, groups=wanted, window=window, **options)

    call = where_groups_fit(call, labels, window)
    return Case([array, labels] if lazy else [array], call, [ranks], like_of(axis, shape), assert_same_values)


def shuffle(draw: Any, shape: tuple[int, ...]) -> Case:
    axis, seed = draw(st.integers(0, len(shape) - 1)), draw(st.integers(0, 1 << 70))
    other = tuple(size if dim == axis else draw(st.integers(0, 3)) for dim, size in enumerate((*shape, 2)))
    arrays = [make(draw, shape), make(draw, other)]
    keys = np.random.Philox(np.random.SeedSequence(seed)).random_raw(shape[axis])
    order = np.argsort(keys, kind="stable")

    def call(*given: Any) -> Any:
        found = dask_gpusort.shuffle(*given, axis=axis, seed=seed)
        assert [one.chunks for one in found] == [one.chunks for one in given]
        return *found, dask_gpusort.permutation(shape[axis], (given[1].chunks[axis],), seed)

    return Case(arrays, call, [*(one.take(order, axis) for one in arrays), order])


FUNCTIONS = {
    "sort": Function(sort, chunks=True),
    "argsort": Function(argsort, chunks=True),
    "key": Function(key, aligned=True, chunks=True),
    "less": Function(less, aligned=True),
    "lexsort": Function(lexsort, aligned=True, chunks=True),
    "sort_by_key": Function(sort_by_key, aligned=True, chunks=True),
    "sort_by_keys": Function(sort_by_keys, aligned=True, chunks=True),
    "topk": Function(topk, aligned=True),
    "top_k": Function(top_k, unknown=False),
    "partition": Function(partition, unknown=False),
    "rank": Function(rank),
    "unique": Function(unique),
    "nunique": Function(nunique),
    "mode": Function(mode, unknown=False),
    "union1d": Function(set_function("union1d")),
    "intersect1d": Function(set_function("intersect1d")),
    "setdiff1d": Function(set_function("setdiff1d")),
    "setxor1d": Function(set_function("setxor1d")),
    "positions of intersect1d": Function(intersect1d_with_positions, unknown=False),
    "searchsorted": Function(searchsorted, several=False),
    "interp": Function(interp, several=False, unknown=False),
    "isin": Function(isin),
    "merge_asof": Function(merge_asof, unknown=False),
    "join_indices": Function(join_indices, several=False, unknown=False),
    "take": Function(take, unknown=False, exchanges=at.exchanges),
    "take_along_axis": Function(take_along_axis, unknown=False, exchanges=at.exchanges),
    "shuffle": Function(shuffle, unknown=False, exchanges=at.exchanges),
    "put_along_axis": Function(put_along_axis, unknown=False, exchanges=at.exchanges),
    "merge_sorted": Function(merge_sorted, several=False, chunks=True),
    "is_sorted": Function(is_sorted),
    "quantile": Function(quantile, unknown=False),
    "weighted quantile": Function(weighted_quantile, unknown=False),
    "grouped quantile": Function(grouped_quantile, unknown=False),
    **{f"grouped {name}": Function(reducer_of_groups(name), unknown=False) for name in GROUPED},
    "grouped rank": Function(grouped_rank, unknown=False),
}


def chunks_of(draw: Any, shape: tuple[int, ...], like: Any) -> tuple[Any, Any]:
    """Chunks as `rechunk` takes them, and the sizes that they name in place of others, if these are known."""
    sizes, dim = draw(ours.chunkings(shape)), draw(st.integers(-len(shape), len(shape) - 1))
    if like is None:
        return draw(st.sampled_from([sizes, {0: sizes[0]}])), sizes
    one = draw(st.integers(1, 1 + max(shape)))
    some = tuple(draw(st.sampled_from([None, -1, one, own])) for own in sizes)
    chunks = draw(st.sampled_from([one, -1, sizes, some, {dim: one}, {dim: sizes[dim]}, {dim: None}]))
    found = da.zeros(shape, chunks=like).rechunk(chunks).chunks
    return list(chunks) if chunks is some and draw(st.booleans()) else chunks, found


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def from_the_end(array: np.ndarray) -> np.ndarray:
    return np.flip(np.flip(array).copy())


#: How chunks lie in memory.
LAYOUTS = [np.asarray, np.asfortranarray, read_only, from_the_end]


def refuse(*_: Any) -> None:
    """In place of the start of a computation by any local scheduler, also one that is named in a call."""
    raise AssertionError("chunks were computed while a graph was built")


def in_numpy(found: Any) -> Any:
    """A result, of CuPy too, in NumPy."""
    return found.get() if hasattr(found, "get") else found


#: Kinds of dtypes that CuPy lacks, and dtypes in their place.
IN_PLACE = {"M": "i8", "m": "i4", "S": "u1", "U": "u4", "V": "u8", "T": "f8", "O": "f4", "f": "f8"}


def of_cupy(dtype: Any) -> Any:
    """A dtype, or one that CuPy has in its place."""
    dtype = np.dtype(dtype)
    known = dtype.kind in "biufc" and dtype.char not in "gG"
    return dtype.newbyteorder("=") if known else np.dtype(IN_PLACE[dtype.kind])


def has_subnormals(array: np.ndarray) -> bool:
    return array.dtype.char == "f" and bool(((array != 0) & (np.abs(array) < np.finfo("f4").tiny)).any())


GETS = {"sync": dask.get, "threads": dask.threaded.get}


def check(
    data: Any,
    function: Function,
    shape: tuple[int, ...],
    *,
    scheduler: str | None = "sync",
    within: Callable[[], Any] = nullcontext,
    library: Any = np,
    least: int = 1,
) -> None:
    """Draw a case and its chunks, and assert that the results are right, and of the chunks and dtypes that they say.

    All is done `within` a context, with chunks of a `library` where it has their dtypes, `least` 1 or 2 of them.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        case = function.draw(data.draw, shape)
        # The pickles of NumPy lose the byte order of dates, and clusters get arrays in such pickles.
        assume(scheduler or all(array.dtype.isnative for array in case.arrays if array.dtype.kind in "mM"))
        # With query planning, Dask computes no chunks of unknown sizes.
        may_be_unknown = function.unknown and len(shape) == 1 and not da.array_expr_enabled()
        unknown = may_be_unknown and data.draw(st.booleans())
        chunks = [data.draw(ours.chunkings(array.shape, least)) for array in case.arrays]
        if unknown and function.aligned:
            chunks = [(*chunks[0], *array.shape[1:]) for array in case.arrays]
        held = [data.draw(st.sampled_from(LAYOUTS))(one) if one.ndim else one for one in case.arrays]
        if library is not np:
            # CuPy's conversions make subnormal float32 zeros.
            assume(len({one.dtype for one in held}) == 1 or not any(map(has_subnormals, held)))
            held = [library.asarray(one) if of_cupy(one.dtype) == one.dtype else one for one in held]
        before = [in_numpy(one).copy() for one in held]
        arrays = [ours.dask_array(one, own) for one, own in zip(held, chunks, strict=True)]
        arrays = [ours.forget_sizes(one, (0,)) if unknown and one.ndim else one for one in arrays]
        # A small limit makes rows too long for one chunk: each is then sorted globally.
        limit = data.draw(st.sampled_from(("128MiB", "128MiB", "8B")))
        config = {"gpusort.exchange": data.draw(function.exchanges), "array.chunk-size": limit}
        config["num_workers"] = data.draw(st.integers(1, 5))
        # Always sorted afresh, measured, and always merged.
        config["gpusort.merged_runs"] = data.draw(st.sampled_from([0, None, 1 << 20]))
        with (
            groups(data.draw(ours.groups)),
            dask.config.set(config),
            # Runs of single chunks, or of several.
            mock.patch.object(division, "RUN_BYTES", data.draw(st.sampled_from([1, 64, 1 << 20]))),
            # Of few samples, groups receive keys of their neighbours too; of fewer, kept runs count twice.
            mock.patch.object(counting, "SAMPLES_PER_GROUP", data.draw(st.sampled_from([256, 1]))),
            mock.patch.object(counting, "MOST_TASK_SAMPLES", data.draw(st.sampled_from([1 << 20, 1]))),
            # Of few samples, cuts are far from their ranks.
            mock.patch.object(sort_last, "SAMPLED_KEYS", data.draw(st.sampled_from([128, 1, 0.01]))),
            mock.patch.object(search, "is_small", return_value=data.draw(st.booleans())),
            within(),
        ):
            like, more = None if case.like is None else chunks[case.like], {}
            if function.chunks and not unknown and data.draw(st.booleans()):
                more["chunks"], like = chunks_of(data.draw, case.wanted[0].shape, like)
            with no_computation() if scheduler else nullcontext(), Callback(start=refuse):
                found = case.call(*arrays, **more)
            found = list(found) if isinstance(found, (tuple, list)) else [found]
            if scheduler and not da.array_expr_enabled():
                got, blocks = computed_in_chunks(found, GETS[scheduler])
            else:
                got, blocks = dask.compute(*found, scheduler=scheduler), [None] * len(found)
            for array, copy in zip(held, before, strict=True):
                oracle.assert_same_bits(in_numpy(array), copy)
            for darr, given, own, wanted in zip(found, got, blocks, case.wanted, strict=True):
                assert hasattr(given, "get") == hasattr(darr._meta, "get")
                mine = in_numpy(given)
                if mine.dtype != darr.dtype:
                    # NumPy's scalars have the native byte order, and so have chunks that Dask joins on a cluster.
                    assert scheduler is None or not isinstance(mine, np.ndarray)
                    assert mine.dtype == darr.dtype.newbyteorder("=")
                    mine = mine.astype(darr.dtype)
                case.same(mine, wanted)
                known = darr.chunks if like is None else (*like, *darr.chunks[len(like) :])
                assert unknown or known == darr.chunks
                if scheduler and not np.isnan(list(map(sum, known))).any():
                    check_sizes(darr, known, own)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data(), size=st.integers(0, 120))
def test_one_dimension(name, data, size):
    check(data, FUNCTIONS[name], (size,))


SHAPES = st.sampled_from([(5, 7), (1, 9), (4, 0), (0, 4), (3, 4, 5), (2, 6, 3)])


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.several])
@given(data=st.data(), shape=SHAPES)
def test_several_dimensions(name, data, shape):
    check(data, FUNCTIONS[name], shape)


#: Strings and objects, some of them missing, and functions whose reference takes them.
MISSING = [*(StringDType(na_object=one) for one in (math.nan, ours.UNKNOWN, np.datetime64("NaT"))), np.dtype(object)]
OF_STRINGS = [
    *("sort", "argsort", "sort_by_key", "sort_by_keys", "lexsort", "topk", "top_k", "merge_sorted", "is_sorted"),
    *("unique", "nunique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "positions of intersect1d", "rank"),
    *("searchsorted", "isin", "take"),
]


@pytest.mark.parametrize("name", OF_STRINGS)
@given(data=st.data(), size=st.integers(0, 30), dtype=st.sampled_from(MISSING))
def test_missing_strings(name, data, size, dtype):
    """They are as NaN of floats. What sorts Python objects compares none of them."""
    many = {"_dtype": lambda _: dtype, "random_bits": lambda _, dtype, __: ours.special(dtype)}
    with mock.patch.multiple(ours, **many):
        check(data, FUNCTIONS[name], (size,))


SEVERAL_CHUNKS = st.tuples(st.integers(2, 120)) | SHAPES


#: Functions with gangs of their own, which many arguments have none of: each example has several cases of them.
WITH_GANGS = ("unique", "rank", "setdiff1d", "searchsorted", "isin", "take", "take_along_axis", "quantile")


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data(), shape=SEVERAL_CHUNKS)
def test_in_a_gang(name, data, shape):
    cluster = pytest.importorskip("support.without_cluster")
    function = replace(FUNCTIONS[name], exchanges=st.just("gang"))
    assume(function.several or len(shape) == 1)
    workers = data.draw(st.integers(2, 5))
    holders = data.draw(st.just([]) | st.lists(st.integers(0, workers - 1), min_size=1, max_size=5))
    broken = data.draw(st.integers(-1, 3))
    within = functools.partial(cluster.gangs_of_threads, workers, holders=holders, broken=broken)
    for _ in range(4 if name in WITH_GANGS else 1):
        check(data, function, shape, scheduler="threads", within=within, least=1 + (name in WITH_GANGS))


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data(), shape=SEVERAL_CHUNKS)
def test_kept_runs(name, data, shape):
    cluster = pytest.importorskip("support.without_cluster")
    function = replace(FUNCTIONS[name], exchanges=st.just("runs"))
    assume(function.several or len(shape) == 1)
    options = {
        "memory": data.draw(st.sampled_from([0, 1 << 20])),
        "capacity": data.draw(st.sampled_from([0, math.inf])),
        "portion": data.draw(st.sampled_from([7, 1 << 19])),
    }
    within = functools.partial(cluster.runs_of_threads, data.draw(st.integers(1, 3)), **options)
    check(data, function, shape, scheduler="threads", within=within)


#: `key` and `less` call functions of NumPy chunks; the device's sums of `interp` are rounded once for two operations.
ON_HOSTS = ("key", "less", "interp")


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ON_HOSTS])
@given(data=st.data(), shape=SEVERAL_CHUNKS)
def test_on_a_gpu(name, data, shape):
    cupy = pytest.importorskip("cupy")
    assume(FUNCTIONS[name].several or len(shape) == 1)
    with mock.patch.object(ours, "_dtype", of_cupy):
        try:
            check(data, FUNCTIONS[name], shape, scheduler="threads", library=cupy)
        except TypeError as error:
            # `unique` compares subarrays of NumPy alone, `merge_asof` its labels, and `join_indices` several arrays.
            assume("subarrays of cupy" not in str(error) and "by is for NumPy chunks" not in str(error))
            assume("several arrays must have NumPy chunks" not in str(error))
            raise


#: Few examples, because a graph takes some tenths of a second on a cluster.
@pytest.mark.parametrize(
    ("name", "exchange"),
    [
        *product(("sort", "argsort", "sort_by_key", "lexsort", "key", "less"), ("runs", "tasks", "gather", "gang")),
        *product(("take_along_axis", "put_along_axis", "grouped quantile"), ("runs",)),
    ],
)
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(data=st.data(), size=st.integers(20, 120))
def test_on_a_cluster(on_cluster, name, exchange, data, size):
    check(data, replace(FUNCTIONS[name], exchanges=st.just(exchange)), (size,), scheduler=None)


#: Functions of masked arrays (see test_masked.py), with the numbers of these arguments.
OF_MASKED = {*product(("sort", "argsort", "rank", "unique", "quantile"), (0, -1)), ("searchsorted", -1)}


@pytest.mark.parametrize(("name", "number"), sorted({*product(FUNCTIONS, (0, -1))} - OF_MASKED))
@settings(max_examples=1)
@given(data=st.data())
def test_masked_arrays_are_refused(name, number, data):
    case = FUNCTIONS[name].draw(data.draw, (6,))
    arrays = [da.from_array(array, name=False) for array in case.arrays]
    arrays[number] = da.ma.masked_array(arrays[number], False)
    with pytest.raises(TypeError, match="masked"):
        case.call(*arrays)
