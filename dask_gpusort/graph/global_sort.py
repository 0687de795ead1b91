"""The global sort: one-dimensional arrays of many chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..config import setting
from ..order import Order
from ..plan import InputChunks, Plan, Size, make_plan
from .collection import chunk_library, new_arrays
from .recipe import Output, Recipe
from .scheduler import choose_exchange, scheduler_in_use, workers_in_use, workers_of_chunks

Want = Literal["keys", "positions", "both", "values"]
POSITION_BYTES = 8


@dataclass(frozen=True)
class Request:
    """A request for a sort, without the arrays.

    Attributes
    ----------
    order : Order
    want : {"keys", "positions", "both", "values"}
        The outputs: sorted keys, the indices that sort, keys and companions, or companions alone.
    method : {"auto", "radix", "merge"}
    exchange : {"auto", "gather", "p2p", "tasks", "device"}
    """

    order: Order
    want: Want
    method: str
    exchange: str


def plan_for(
    request: Request, keys: Any, values: Sequence[Any], chunks: Sequence[Size], presorted: bool = False
) -> Plan:
    """The plan of a global sort.

    Parameters
    ----------
    request : Request
    keys : dask array, one-dimensional, or with words in a second dimension
    values : sequence of dask arrays
        Companions, with the keys' chunks along the first dimension and one chunk along others.
    chunks : sequence of int
        Output chunk sizes, nan where unknown.
    presorted : bool
        Whether the chunks of the keys are sorted already.
    """
    kind, client = scheduler_in_use(keys)
    library = chunk_library(keys)
    asked = setting("exchange") if request.exchange == "auto" else request.exchange
    exchange = choose_exchange(asked, kind, library)
    given = InputChunks(
        sizes=keys.chunks[0],
        companion_bytes=sum(map(_row_bytes, values)) + (POSITION_BYTES if request.want == "positions" else 0),
        workers=workers_of_chunks(client, keys) if exchange == "device" else (),
        presorted=presorted,
    )
    return make_plan(
        request.order,
        given,
        chunks,
        method=request.method,
        exchange=exchange,
        workers=workers_in_use(kind, client, library),
        groups=setting("groups"),
    )


def _row_bytes(value: Any) -> int:
    return int(value.dtype.itemsize * math.prod(value.shape[1:]))


def global_sort(
    request: Request,
    keys: Any,
    values: Sequence[Any],
    chunks: Sequence[Size],
    presorted: tuple[tuple[int, int], ...] = (),
) -> tuple[Any, ...]:
    """Sort a one-dimensional array of any number of chunks.

    Parameters
    ----------
    request : Request
    keys, values, chunks
        As for `plan_for`.
    presorted : tuple of (number, chunks)
        As in `Recipe`.

    Returns
    -------
    tuple of dask arrays
        Sorted: the keys; the indices; the keys and the values; or the values alone.
    """
    inputs = (keys, *values)
    recipe = Recipe(
        plan=plan_for(request, keys, values, chunks, bool(presorted)),
        with_keys=request.want in ("keys", "both"),
        with_positions=request.want == "positions",
        names=tuple(array.name for array in inputs),
        extra_dims=tuple(array.ndim - 1 for array in inputs),
        presorted=presorted,
    )
    if request.want == "positions":
        outputs = [Output(np.empty_like(keys._meta, shape=(0,), dtype=np.int64))]
    else:
        outputs = [Output(array._meta, array.chunks[1:]) for array in inputs[recipe.with_keys is False :]]
    prefix = "argsort" if request.want == "positions" else "merge-sorted" if presorted else "sort"
    return new_arrays(recipe, inputs, outputs, prefix)
