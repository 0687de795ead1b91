"""Functions of `scipy.stats` for Dask arrays: ranks, quantiles, and what SciPy leaves out for these: axis and NaN.

SciPy's functions get other code, so that they serve Dask arrays under all names by which they were imported.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any

import dask.array as da
import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from tlz import concat

from .. import api
from ..arguments.arrays import in_memory, known_size, refuse_masked
from ..arguments.packages import for_both_packages, is_of_dask_array, map_arrays
from ..arguments.table import ALTERNATIVE, NAN_POLICY
from ..graph.inputs import without_empty_chunks

Function = Callable[..., Any]

#: Functions whose samples a decorator of SciPy brings to the last axis. Paired ones are broadcast along it too.
PAIRED = ("spearmanrho", "chatterjeexi", "wilcoxon", "friedmanchisquare")
UNPAIRED = ("mannwhitneyu", "ansari", "fligner", "mood", "kruskal", "brunnermunzel", "iqr", "median_abs_deviation")
_METHODS = {"linear", "hazen", "weibull", "median_unbiased", "normal_unbiased", "inverted_cdf", "averaged_inverted_cdf"}
_METHODS |= {"closest_observation", "interpolated_inverted_cdf", "_lower", "_higher", "_midpoint", "_nearest"}
#: Whether SciPy runs within `along_last_axis`.
_prepared: ContextVar[bool] = ContextVar("prepared", default=False)


def average_ranks(previous: Function, x: Any, method: str, return_ties: bool = False, xp: Any = None) -> Any:
    """Rank along the last axis as SciPy's tests do: NaN are last, and differ from each other.

    Ties are in sorted order: at the first of equal elements their number, otherwise 0.
    """
    if method != "average":  # only of `rankdata`
        return previous(x, method, return_ties, xp)
    ranks = filled = api.rank(x, -1, nan_policy="omit")
    if x.dtype.kind == "f":
        missing = da.isnan(x)
        filled = da.where(missing, (~missing).sum(axis=-1, keepdims=True) + da.cumsum(missing, axis=-1), ranks)
    if not return_ties:
        return filled
    ordered = api.sort(ranks)
    before = da.concatenate([da.full_like(ordered[..., :1], np.nan), ordered[..., :-1]], axis=-1)
    # The average rank of equal elements at the positions i to j is (i + j) / 2.
    numbers = 2 * (ordered - da.arange(1, x.shape[-1] + 1, chunks=(ordered.chunks[-1],))) + 1
    numbers = da.where(da.isnan(ordered), 1.0, numbers)
    return filled, da.where(ordered != before.rechunk(ordered.chunks), numbers, 0.0)


def check_ranks(given: dict[str, Any]) -> None:
    """Give the ranks of `rankdata` the dtype that they have in SciPy: floats if there are NaN, which it computes."""
    # To its own functions both dtypes are the same.
    exact = given["method"] == "average" or given["a"].dtype.kind not in "fc" or _prepared.get()
    if not exact and given["nan_policy"] != "raise" and not da.isnan(given["a"]).any():
        given["nan_policy"] = "raise"


def quantile(previous: Function, x: Any, p: Any, **options: Any) -> Any:
    """`scipy.stats.quantile`; SciPy's own, which sorts, where it refuses or series have probabilities of their own."""
    defaults: dict[str, Any] = {"method": "linear", "axis": 0, "nan_policy": "propagate"}
    given = defaults | {"keepdims": None, "weights": None} | options
    method, axis, keepdims = given["method"], given["axis"], given["keepdims"]
    function = {"propagate": api.quantile, "omit": api.nanquantile}.get(given["nan_policy"])
    array, axis = (x.reshape(-1), -1) if axis is None and not keepdims else (x, axis)
    q = np.asarray(in_memory(p, "p"))
    fits = q.ndim == 0 or (q.ndim == 1 and axis in (-1, array.ndim - 1) and (keepdims is not False or q.size == 1))
    fits = fits and isinstance(axis, int) and -array.ndim <= axis < array.ndim and array.shape[axis] > 0
    fits = fits and array.dtype.kind in "iuf" and q.dtype.kind == "f" and bool(np.all((q >= 0) & (q <= 1)))
    if method == "harrell-davis":
        raise NotImplementedError(
            f"quantile of Dask arrays has no method {method!r}: give 'linear', or x.compute() and scipy.stats.quantile"
        )
    if function is None or not fits or method not in _METHODS or given["weights"] is not None:
        return previous(x, p, **options)
    dtype = np.result_type(array.dtype, p if isinstance(p, float) else q.dtype)
    found = function(array.astype(dtype), q, axis, method=method.removeprefix("_")).astype(dtype)
    if q.size == 1 and not keepdims:
        return found.reshape(found.shape[q.ndim :])
    return da.expand_dims(found, axis) if q.ndim == 0 else da.moveaxis(found, 0, axis)


def _to_last_axis(samples: list[Any], axis: Any, paired: bool) -> list[Any]:
    """Broadcast samples as SciPy does, and bring an axis, some axes, or all of them to the end as one."""
    if axis is None:
        return [sample.reshape(-1) for sample in samples]
    ndim = max(1, *(sample.ndim for sample in samples))
    axes = normalize_axis_tuple(axis, ndim)
    samples = [sample[(np.newaxis,) * (ndim - sample.ndim)] for sample in samples]
    samples = [da.moveaxis(sample, axes, range(-len(axes), 0)) for sample in samples]
    kept = ndim if paired else ndim - len(axes)
    shape = np.broadcast_shapes(*(sample.shape[:kept] for sample in samples))
    samples = [da.broadcast_to(sample, shape + sample.shape[kept:]) for sample in samples]
    return [sample.reshape(*sample.shape[: ndim - len(axes)], -1) if len(axes) > 1 else sample for sample in samples]


def along_last_axis(previous: Function, *args: Any, **options: Any) -> Any:
    """Do for Dask arrays what a decorator of SciPy does for others: `axis`, `nan_policy` and `keepdims`."""
    bound = inspect.signature(previous).bind(*args, **options)
    bound.apply_defaults()
    given = bound.arguments
    policy, keepdims, axis = given.pop("nan_policy"), given.pop("keepdims"), given["axis"]
    NAN_POLICY.checked(policy)
    named, paired = _named_samples(given), previous.__name__ in PAIRED
    ndim = max(1, *(sample.ndim for sample in named.values()))
    named = dict(zip(named, _to_last_axis(list(named.values()), axis, paired), strict=True))
    named, missing = _by_policy(previous.__name__, named, policy, paired)
    given.update({"samples": list(named.values())} if "samples" in given else named, axis=-1)
    token = _prepared.set(True)
    try:
        result = previous(*bound.args, **bound.kwargs)
    finally:
        _prepared.reset(token)
    if missing is not None:
        result = map_arrays(lambda found: da.where(missing, found.dtype.type(np.nan), found), result)
    if keepdims:
        axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
        result = map_arrays(lambda found: da.expand_dims(da.asarray(found), axes), result)
    return result


def _named_samples(given: dict[str, Any]) -> dict[str, Any]:
    """The samples among the arguments of a test as Dask arrays of known sizes, by their names in error messages."""
    named = {name: given[name] for name in ("x", "y", "a", "b") if given.get(name) is not None}
    named = named or {f"samples[{number}]": sample for number, sample in enumerate(given["samples"])}
    named = {name: da.asarray(sample) for name, sample in named.items()}
    for name, sample in named.items():
        refuse_masked(sample._meta, name, "dask.array.ma.filled")
        for dim in range(sample.ndim):
            known_size(sample, dim, name)
    return named


def _by_policy(test: str, named: dict[str, Any], policy: str, paired: bool) -> tuple[dict[str, Any], Any]:
    """Samples of a test, without NaN if these are left out, and whether series still have any; refused by "raise"."""
    missing = _has_nan(named.values())
    if policy == "propagate" or missing is None or not missing.any().compute():
        return named, missing
    if policy == "raise":
        raise ValueError(
            f"{' or '.join(named)} of {test} has NaN, which nan_policy='raise' refuses: give 'propagate', or leave out "
            "NaN before"
        )
    if missing.ndim:
        raise NotImplementedError(
            f"{test} of Dask arrays takes nan_policy='omit' for one series of each sample: leave out NaN before, and "
            "call it for each series"
        )
    named = dict(zip(named, _without_nan(list(named.values()), paired), strict=True))
    return named, _has_nan(named.values())


def _has_nan(samples: Iterable[Any]) -> Any:
    """Whether the series of some samples have NaN; None if their dtypes have none."""
    missing = [da.isnan(sample).any(axis=-1) for sample in samples if sample.dtype.kind == "f"]
    return functools.reduce(operator.or_, missing) if missing else None


def _without_nan(samples: list[Any], paired: bool) -> list[Any]:
    """Samples of one dimension without NaN, of pairs without those that have one; as they are if one would be empty."""
    missing = [da.isnan(sample) for sample in samples]
    missing = [functools.reduce(operator.or_, missing)] * len(samples) if paired else missing
    kept = [sample[~gone].compute_chunk_sizes() for sample, gone in zip(samples, missing, strict=True)]
    return kept if all(sample.size for sample in kept) else samples


def spearmanr(previous: Function, *args: Any, **options: Any) -> Any:
    """`scipy.stats.spearmanr`: the correlation of two variables, or the matrix of several."""
    from scipy.special import betainc
    from scipy.stats._stats_py import SignificanceResult

    bound = inspect.signature(previous).bind(*args, **options)
    bound.apply_defaults()
    axis, alternative = bound.arguments["axis"], ALTERNATIVE.checked(bound.arguments["alternative"])
    samples = _named_samples(bound.arguments).values()
    if axis not in (None, 0, 1) or any(sample.ndim not in (1, 2) for sample in samples):
        raise ValueError(f"a and b of spearmanr must have 1 or 2 dimensions, and axis be 0, 1 or None (got {axis})")
    rows = da.vstack([each.reshape(-1) if axis is None else each.T if axis == 0 else each for each in samples])
    if len(rows) < 2:
        raise ValueError("spearmanr needs at least 2 variables: give b, or several in a")
    named = {"a": rows} if len(rows) > 2 else {"a": rows[0], "b": rows[1]}
    named, _ = _by_policy("spearmanr", named, NAN_POLICY.checked(bound.arguments["nan_policy"]), paired=True)
    ranks = api.rank(da.vstack(list(named.values())), -1)
    statistic = da.corrcoef(ranks).clip(-1, 1)[(1, 0) if len(rows) == 2 else ...]
    # Of Student's distribution.
    pvalue = betainc(ranks.shape[-1] / 2 - 1 or np.nan, 0.5, (1 + statistic) * (1 - statistic))
    if alternative != "two-sided":
        pvalue = da.where((statistic < 0) == (alternative == "less"), pvalue / 2, 1 - pvalue / 2)
    found = SignificanceResult(statistic, pvalue)
    found.correlation = statistic
    return found


def refuse_permutations(previous: Function, *_: Any, **options: Any) -> Any:
    """Refuse `scipy.stats.permutation_test`, which fails on Dask arrays, whoever calls it."""
    raise NotImplementedError(
        f"{previous.__name__} takes no Dask arrays, and SciPy's tests call it for method=PermutationMethod(), and for "
        "few elements with ties or zeros: give method='asymptotic', or x.compute()"
    )


def without_scipy(function: Function) -> Function:
    """What serves by itself, and not by SciPy's own function."""
    return lambda previous, *args, **options: function(*args, **options)


#: What the new code of functions of these names calls.
SERVED: dict[str, Function] = {}
#: Code has to have as many free variables as that which it replaces.
_SOURCE = """
def with_variables({variables}):
    def {name}(*args, **options):
        if False:
            ({variables})
        from dask_gpusort.adapters.scipy_stats import SERVED
        return SERVED["{name}"](*args, **options)
    return {name}.__code__
"""


def code_with(serving: Function, function: FunctionType) -> CodeType:
    """Make code with which one of SciPy's functions serves Dask arrays too, by a call with itself as it was.

    What SciPy itself calls outside of `along_last_axis` stays SciPy's: its other functions would give wrong results
    of other axes and of NaN in silence. Without ranks they refuse Dask arrays.
    """
    name, code = function.__name__, function.__code__
    previous = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    previous.__kwdefaults__ = function.__kwdefaults__
    vars(previous).update(vars(function))  # the signature

    def served(*args: Any, **options: Any) -> Any:
        caller = sys._getframe(2)  # of the function with the new code
        by_scipy = str(caller.f_globals.get("__name__")).startswith("scipy.")
        given = concat(each if isinstance(each, (list, tuple)) else [each] for each in (*args, *options.values()))
        lazy = any(isinstance(each, da.Array) or is_of_dask_array(each) for each in given)
        if not lazy or (by_scipy and not _prepared.get()):
            return previous(*args, **options)
        return for_both_packages(serve)(*args, **options)

    def serve(*args: Any, **options: Any) -> Any:
        given = {name: without_empty_chunks(value) for name, value in options.items()}
        return serving(previous, *map(without_empty_chunks, args), **given)

    SERVED[name] = served
    names: dict[str, Any] = {}
    variables = ", ".join(f"v{number}" for number in range(len(code.co_freevars)))
    exec(compile(_SOURCE.format(name=name, variables=variables), f"<{__name__}>", "exec"), names)
    new: CodeType = names["with_variables"](*code.co_freevars)
    return new.replace(co_qualname=f"{__name__}.{name}")
