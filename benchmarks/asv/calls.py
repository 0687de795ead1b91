"""A call of each public function, for suites that measure all of them. Names with a slash tell variants apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import dask_gpusort

#: Elements of a short lane, and largest keys that are asked for.
LANE, MOST = 64, 10


#: A function, and what makes its inputs of a source. This has the methods keys (others for another number), rows (of 64
#: keys, each in some chunks), in_order (keys) and positions (among the keys).
Call = tuple[Callable[..., Any], Callable[[Any], Sequence[da.Array]]]


def one(source: Any) -> Sequence[da.Array]:
    return [source.keys()]


def two(source: Any) -> Sequence[da.Array]:
    return [source.keys(), source.keys(1)]


def with_positions(source: Any) -> Sequence[da.Array]:
    return [source.keys(), source.positions()]


def stored(x: da.Array) -> da.Array:
    chosen = x[x > 0].map_blocks(lambda block: getattr(block, "get", lambda: block)(), meta=np.empty(0, x.dtype))
    return dask_gpusort.to_zarr(chosen, {}, compute=False)


FIVE = np.linspace(0, 1, 5)
every = {"return_index": True, "return_inverse": True, "return_counts": True}
median = partial(dask_gpusort.quantile, q=0.5, axis=1)
CALLS: dict[str, Call] = {
    "sort": (dask_gpusort.sort, one),
    "argsort": (dask_gpusort.argsort, one),
    "sort_by_key": (dask_gpusort.sort_by_key, two),
    "lexsort": (lambda x, y: dask_gpusort.lexsort([x, y]), two),
    "merge_sorted": (dask_gpusort.merge_sorted, lambda source: [source.in_order(), source.in_order(1)]),
    "is_sorted": (dask_gpusort.is_sorted, one),
    "quantile/long-lanes": (partial(dask_gpusort.quantile, q=FIVE, strategy="samples"), one),
    "quantile/short-lanes-in-whole-rows": (median, lambda source: [source.rows(1)]),
    "quantile/short-lanes-in-several-chunks": (median, lambda source: [source.rows(4)]),
    "quantile/groups": (
        partial(dask_gpusort.quantile, q=0.9, axis=0, by=np.arange(LANE) % 12, window=5),
        lambda source: [source.rows(4).T],
    ),
    "mode/groups": (
        lambda x: dask_gpusort.mode(x, by=np.arange(LANE) % 12).mode,
        lambda source: [source.rows(4).T],
    ),
    "topk": (partial(dask_gpusort.topk, k=MOST), one),
    "argtopk": (partial(dask_gpusort.argtopk, k=MOST), one),
    "partition": (partial(dask_gpusort.partition, kth=5), one),
    "argpartition": (partial(dask_gpusort.argpartition, kth=5), one),
    "rank/whole-lanes": (partial(dask_gpusort.rank, axis=1), lambda source: [source.rows(1)]),
    "rank/a-long-lane": (dask_gpusort.rank, one),
    "unique": (dask_gpusort.unique, one),
    "nunique": (dask_gpusort.nunique, one),
    "mode": (lambda x: dask_gpusort.mode(x).mode, one),
    "unique/counts": (partial(dask_gpusort.unique, return_counts=True), one),
    "unique/all": (partial(dask_gpusort.unique, **every), one),
    "union1d": (dask_gpusort.union1d, two),
    "intersect1d": (dask_gpusort.intersect1d, two),
    "searchsorted": (dask_gpusort.searchsorted, lambda source: [source.in_order(), source.keys(1)]),
    "isin": (dask_gpusort.isin, two),
    "take": (dask_gpusort.take, with_positions),
    "put_along_axis": (lambda x, at: dask_gpusort.put_along_axis(x, at, x, 0), with_positions),
}
#: Functions that do the same work as one of the calls.
ALIKE: dict[str, Call] = {
    **{name: (getattr(dask_gpusort, name), one) for name in ("median", "nanmedian")},
    **{name: (partial(getattr(dask_gpusort, name), q=0.5), one) for name in ("percentile", "nanpercentile")},
    "nanquantile": (partial(dask_gpusort.nanquantile, q=0.5), one),
    **{f"unique_{what}": (getattr(dask_gpusort, f"unique_{what}"), one) for what in ("all", "counts")},
    **{f"unique_{what}": (getattr(dask_gpusort, f"unique_{what}"), one) for what in ("inverse", "values")},
    "setdiff1d": (dask_gpusort.setdiff1d, two),
    "interp": (dask_gpusort.interp, lambda source: [source.keys(1), source.in_order(), source.keys()]),
    "setxor1d": (dask_gpusort.setxor1d, two),
    "merge_asof": (dask_gpusort.merge_asof, lambda source: [source.keys(1), source.in_order(), source.keys()]),
    "join_indices": (dask_gpusort.join_indices, two),
    "to_zarr": (stored, one),
    "take_along_axis": (partial(dask_gpusort.take_along_axis, axis=0), with_positions),
    "top_k": (lambda x: dask_gpusort.top_k(x, MOST, axis=0), one),
    "shuffle": (partial(dask_gpusort.shuffle, seed=0), one),
    "permutation": (lambda x: dask_gpusort.permutation(len(x), seed=0), one),
}
