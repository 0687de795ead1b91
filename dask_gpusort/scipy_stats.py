"""Functions of `scipy.stats` for Dask arrays: ranks, quantiles, and what SciPy leaves out for these: axis and NaN."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import dask.array as da
import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from . import api
from .array_arguments import known_size
from .array_packages import for_both_packages, is_of_dask_array

#: Tells whether a call of `register` still wants this.
IsWanted = Callable[[], bool]
#: Functions whose samples a decorator of SciPy brings to the last axis, and whether samples are paired: then they are
#: broadcast along this axis too.
PAIRED = {
    **dict.fromkeys(("spearmanrho", "chatterjeexi", "wilcoxon", "friedmanchisquare"), True),
    **dict.fromkeys(("mannwhitneyu", "ansari", "fligner", "mood", "kruskal", "brunnermunzel"), False),
    **dict.fromkeys(("iqr", "median_abs_deviation"), False),
}
_METHODS = {"linear", "hazen", "weibull", "median_unbiased", "normal_unbiased", "inverted_cdf", "averaged_inverted_cdf"}
_METHODS |= {"closest_observation", "interpolated_inverted_cdf", "_lower", "_higher", "_midpoint", "_nearest"}
#: Whether SciPy runs within `along_last_axis`.
_prepared: ContextVar[bool] = ContextVar("prepared", default=False)


def _is_dask(value: Any) -> bool:
    return isinstance(value, da.Array) or is_of_dask_array(value)


def _is_served(x: Any, is_wanted: IsWanted) -> bool:
    """Whether the caller of the caller gets a result of this package.

    SciPy's tests do within `along_last_axis`. Others were imported before `register`: with ranks they would give wrong
    results of other axes and of NaN in silence, and without they refuse Dask arrays.
    """
    by_scipy = str(sys._getframe(2).f_globals.get("__name__")).startswith("scipy.")
    return _is_dask(x) and is_wanted() and (_prepared.get() or not by_scipy)


def _average_ranks(x: Any, return_ties: bool) -> Any:
    """Rank along the last axis as SciPy's tests do: NaN are last, and differ from each other.

    Ties are in sorted order: at the first of equal elements their number, otherwise 0.
    """
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


def replace_average_ranks(previous: Callable[..., Any], is_wanted: IsWanted) -> Callable[..., Any]:
    """Make the private `_rankdata`, by which SciPy's tests rank, take Dask arrays."""

    @functools.wraps(previous)
    def rankdata(x: Any, method: str, return_ties: bool = False, xp: Any = None) -> Any:
        if method == "average" and _is_served(x, is_wanted):
            return _average_ranks(x, return_ties)
        return previous(x, method, return_ties, xp)

    return rankdata


def replace_rankdata(previous: Callable[..., Any], is_wanted: IsWanted) -> Callable[..., Any]:
    """Make `scipy.stats.rankdata` take Dask arrays; see `dask_gpusort.rank`."""

    @functools.wraps(previous)
    def rankdata(a: Any, method: str = "average", *, axis: Any = None, nan_policy: str = "propagate") -> Any:
        if _is_served(a, is_wanted):
            return api.rank(a, axis, method=method, nan_policy=nan_policy)
        return previous(a, method, axis=axis, nan_policy=nan_policy)

    return rankdata


@for_both_packages
def _quantile(x: Any, p: Any, method: str, axis: Any, nan_policy: str, keepdims: bool | None) -> Any:
    """Take quantiles as SciPy does, or give None where it refuses or where series have probabilities of their own."""
    function = {"propagate": api.quantile, "omit": api.nanquantile}.get(nan_policy)
    if axis is None and not keepdims:
        x, axis = x.reshape(-1), -1
    q = np.asarray(p)
    fits = q.ndim == 0 or (q.ndim == 1 and axis in (-1, x.ndim - 1) and not (keepdims is False and q.size != 1))
    if not (fits and function and method in _METHODS and isinstance(axis, int) and -x.ndim <= axis < x.ndim):
        return None
    if x.dtype.kind not in "iuf" or q.dtype.kind != "f" or x.shape[axis] == 0 or not np.all((q >= 0) & (q <= 1)):
        return None
    dtype = np.result_type(x.dtype, p if isinstance(p, float) else q.dtype)
    found = function(x.astype(dtype), q, axis, method=method.removeprefix("_")).astype(dtype)
    if q.ndim == 0:
        return da.expand_dims(found, axis) if keepdims else found
    return found[0] if q.size == 1 and not keepdims else da.moveaxis(found, 0, axis)


def replace_quantile(previous: Callable[..., Any], is_wanted: IsWanted) -> Callable[..., Any]:
    """Make `scipy.stats.quantile` of Dask arrays lazy; see `dask_gpusort.quantile`.

    Where SciPy's own has to serve them, it computes the largest element, and sorts.
    """

    @functools.wraps(previous)
    def quantile(
        x: Any,
        p: Any,
        *,
        method: str = "linear",
        axis: Any = 0,
        nan_policy: str = "propagate",
        keepdims: bool | None = None,
        weights: Any = None,
    ) -> Any:
        if weights is None and _is_served(x, is_wanted):
            found = _quantile(x, p, method, axis, nan_policy, keepdims)
            if found is not None:
                return found
        return previous(x, p, method=method, axis=axis, nan_policy=nan_policy, keepdims=keepdims, weights=weights)

    return quantile


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


def _with_nan(result: Any, missing: Any) -> Any:
    """Put NaN into the results, an array or a named tuple of them, of series that have NaN."""
    if not isinstance(result, tuple):
        return da.where(missing, result.dtype.type(np.nan), result)
    found = type(result)(*(_with_nan(each, missing) for each in result))
    for name, value in getattr(result, "__dict__", {}).items():  # `zstatistic`, which not each call gives
        setattr(found, name, _with_nan(value, missing))
    return found


def along_last_axis(previous: Callable[..., Any], is_wanted: IsWanted) -> Callable[..., Any]:
    """Do for Dask arrays what a decorator of SciPy does for others: `axis`, and ``nan_policy="propagate"``."""
    signature = inspect.signature(previous)
    paired = PAIRED[previous.__name__]

    @for_both_packages
    def lazy(*args: Any, **options: Any) -> Any:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        given = bound.arguments
        if given.pop("nan_policy") != "propagate" or given.pop("keepdims"):
            raise NotImplementedError(
                f"{previous.__name__} of Dask arrays takes no nan_policy but 'propagate', and no keepdims: "
                "remove NaN before, and index the result with numpy.newaxis"
            )
        named = {name: given[name] for name in ("x", "y") if given.get(name) is not None}
        named = named or {f"samples[{number}]": sample for number, sample in enumerate(given["samples"])}
        named = {name: da.asarray(sample) for name, sample in named.items()}
        for name, sample in named.items():
            for dim in range(sample.ndim):
                known_size(sample, dim, name)
        samples = _to_last_axis(list(named.values()), given["axis"], paired)
        given.update({"samples": samples} if "samples" in given else zip(named, samples, strict=True))
        given["axis"] = -1
        token = _prepared.set(True)
        try:
            result = previous(*bound.args, **bound.kwargs)
        finally:
            _prepared.reset(token)
        inexact = [da.isnan(sample).any(axis=-1) for sample in samples if sample.dtype.kind == "f"]
        return _with_nan(result, functools.reduce(operator.or_, inexact)) if inexact else result

    @functools.wraps(previous)
    def function(*args: Any, **options: Any) -> Any:
        lazy_given = any(map(_is_dask, (*args, *options.values()))) and is_wanted()
        return (lazy if lazy_given else previous)(*args, **options)

    return function


#: What replaces functions of these names in modules of `scipy.stats`.
REPLACEMENTS: dict[str, Callable[[Callable[..., Any], IsWanted], Callable[..., Any]]] = {
    "_rankdata": replace_average_ranks,
    "rankdata": replace_rankdata,
    "quantile": replace_quantile,
    **dict.fromkeys(PAIRED, along_last_axis),
}
