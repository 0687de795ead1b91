"""The global sort: one-dimensional arrays of many chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..config import setting
from ..order import POSITION_BYTES, Order
from ..plan import (
    BY_BUNDLES,
    InputChunks,
    Plan,
    Size,
    Workers,
    divide_chunks,
    fits_gang,
    fits_join,
    is_small,
    joined_bytes,
    make_plan,
)
from .collection import Output, chunk_library, held_chunks, new_arrays
from .composite_keys import Keys
from .join import Join
from .rechunk import rechunk
from .recipe import Chunks, Recipe
from .scheduler import (
    ONE_PROCESS,
    Kind,
    choose_exchange,
    install_or_else,
    own_device_memory,
    scheduler_in_use,
    workers_in_use,
    workers_of_chunks,
)

Want = Literal["keys", "positions", "both", "values"]


@dataclass(frozen=True)
class Shortage:
    """Say how many bytes a sort of all chunks at once needs of a GPU which has less."""

    needed: float  # nan if unknown
    memory: int


@dataclass(frozen=True)
class Request:
    """Request a sort, without the arrays."""

    order: Order
    want: Want  # sorted keys, the indices that sort, keys and companions, or companions alone
    method: str
    exchange: str
    staged: bool = False  # whether chunks of the host are sorted on a GPU, some at a time
    #: An upper bound of the number of keys, where chunk sizes are unknown; nan if there is none.
    most_keys: float = math.nan


def plan_for(
    request: Request, keys: Keys, values: Sequence[Any], chunks: Sequence[Size], presorted: bool = False
) -> Plan:
    """Plan a global sort of one-dimensional keys into chunks of some sizes, nan where unknown.

    Companions have the keys' chunks along the first dimension and one chunk along others.
    """
    array = keys.array
    kind, client = scheduler_in_use(array)
    library = chunk_library(array)
    workers = workers_in_use(kind, client, library)
    if request.staged:
        workers = replace(workers, staging_memory=own_device_memory())
    given = replace(
        _given(request.want, keys, values), sizes=array.chunks[0], presorted=presorted, most_keys=request.most_keys
    )
    asked = setting("exchange") if request.exchange == "auto" else request.exchange
    inputs = (*(keys.parts or (array,)), *values)
    bound = replace(given, sizes=(given.most_keys,)) if math.isnan(keys.template.size) else given
    joins = not request.staged and _joins(request.order, bound, workers, kind, inputs)
    if asked in BY_BUNDLES or (asked == "auto" and library == "cupy"):
        given = replace(given, workers=workers_of_chunks(client, inputs[0]))
    gangs = fits_gang(request.order, given, workers)
    exchange = choose_exchange(asked, kind, library, joins=joins, gangs=gangs)
    exchange, instead_of = install_or_else(exchange, asked, client)
    if exchange in BY_BUNDLES:
        holders = given.workers or workers_of_chunks(client, inputs[0])
        held = None not in holders if holders else kind in ONE_PROCESS and all(map(held_chunks, inputs))
        given = replace(given, workers=holders, held=held)
    plan = make_plan(
        request.order,
        given,
        chunks,
        method=request.method,
        exchange=exchange,
        workers=workers,
        groups=setting("groups"),
    )
    return replace(plan, instead_of=instead_of)


def _given(want: Want, keys: Keys, values: Sequence[Any]) -> InputChunks:
    """All keys as one chunk."""
    return InputChunks(
        sizes=(keys.template.size,),
        companion_bytes=sum(_row_bytes(value, keys.template.ndim) for value in values)
        + POSITION_BYTES * (want == "positions"),
        companions=len(values),
        positions=want == "positions",
        packed=bool(keys.parts),
    )


def divide_inputs(request: Request, keys: Keys, values: Sequence[Any]) -> tuple[Keys, list[Any]]:
    """The keys and the values of a staged sort, with chunks small enough for the GPU: views of the given ones."""
    memory = own_device_memory() if request.staged else None
    if memory is None or math.isnan(keys.array.shape[0]):
        return keys, list(values)
    given = replace(_given(request.want, keys, values), sizes=keys.array.chunks[0])
    sizes = {0: divide_chunks(request.order, given, memory)}
    return Keys(rechunk(keys.array, sizes), keys.order), [rechunk(value, sizes) for value in values]


def shortage_of(exchange: str, want: Want, keys: Keys, values: Sequence[Any]) -> Shortage | None:
    """Tell the memory that is missing to sort all chunks of the host at once on a GPU; None if nothing is missing."""
    kind, _ = scheduler_in_use(keys.array)
    memory = own_device_memory()
    asked = setting("exchange") if exchange == "auto" else exchange
    if kind == "distributed" or memory is None or asked in ("join", "device"):
        return None
    given = _given(want, keys, values)
    if not math.isnan(keys.template.size) and fits_join(keys.order, given, Workers(1, memory, devices=True)):
        return None
    return Shortage(joined_bytes(keys.order, given), memory)


def _joins(order: Order, given: InputChunks, workers: Workers, kind: Kind, inputs: Sequence[Any]) -> bool:
    """Tell whether one task sorts all chunks: those of a GPU that can hold the whole sort, or few keys of the host."""
    # One thread of the host also sorts any number of keys at once, if they are in memory: an exchange would sort each
    # key twice and hold as many bytes. Who asks for a number of groups asks for an exchange on the host.
    if workers.devices:
        return workers.threads == 1 and fits_join(order, given, workers)
    if kind == "distributed" or setting("groups") is not None:
        return False
    alone = workers.threads == 1 and kind in ONE_PROCESS
    return is_small(order, given) or (alone and all(map(held_chunks, inputs)))


def joins_rows(request: Request, keys: Keys, values: Sequence[Any], task_bytes: int = 0) -> bool:
    """Tell whether an array of any dimensions is sorted by a join."""
    asked = setting("exchange") if request.exchange == "auto" else request.exchange
    library = chunk_library(keys.array)
    if asked != "auto" or library != "cupy":
        return bool(asked == "join")
    kind, client = scheduler_in_use(keys.array)
    workers = workers_in_use(kind, client, library)
    given = replace(_given(request.want, keys, values), task_bytes=task_bytes)
    return workers.devices and _joins(request.order, given, workers, kind, ())


def device_order(keys: Keys) -> Order | None:
    """The order of keys in CuPy chunks, None for NumPy chunks."""
    return keys.order if chunk_library(keys.array) == "cupy" else None


def _row_bytes(value: Any, dims: int) -> int:
    """Bytes that travel with one key, for keys of `dims` dimensions."""
    return int(value.dtype.itemsize * math.prod(value.shape[dims:]))


def global_sort(
    request: Request,
    keys: Keys,
    values: Sequence[Any],
    chunks: Sequence[Size],
    presorted: tuple[tuple[int, int], ...] = (),
) -> tuple[Any, ...]:
    """Sort a one-dimensional array of any number of chunks: keys, indices, keys and values, or values alone."""
    if not presorted:
        keys, values = divide_inputs(request, keys, values)
    plan = plan_for(request, keys, values, chunks, bool(presorted))
    if plan.exchange == "join":
        return join(request, keys, values, 0, (plan.chunks,), presorted)
    inputs = (*(keys.parts or (keys.array,)), *values)
    recipe = Recipe(
        plan=plan,
        with_keys=request.want in ("keys", "both"),
        with_positions=request.want == "positions",
        names=tuple(array.name for array in inputs),
        extra_dims=tuple(array.ndim - 1 for array in inputs),
        presorted=presorted,
        packed=tuple(part.dtype for part in keys.parts),
        directions=keys.directions,
        gang_timeout=setting("gang_timeout"),
        on_devices=chunk_library(keys.array) == "cupy",
    )
    return new_arrays(recipe, inputs, _outputs(request, inputs, (plan.chunks,)), _prefix(request, presorted))


def join(
    request: Request,
    keys: Keys,
    values: Sequence[Any],
    axis: int,
    chunks: Chunks,
    presorted: tuple[tuple[int, int], ...] = (),
) -> tuple[Any, ...]:
    """Sort an array along one axis in one task, into chunks of some sizes in each dimension, as `global_sort`."""
    inputs, dims = (*(keys.parts or (keys.array,)), *values), len(chunks)
    recipe = Join(
        order=request.order,
        with_keys=request.want in ("keys", "both"),
        with_positions=request.want == "positions",
        axis=axis,
        names=tuple(array.name for array in inputs),
        chunks=keys.array.chunks[:dims],
        extra_dims=tuple(array.ndim - dims for array in inputs),
        presorted=presorted,
        packed=tuple(part.dtype for part in keys.parts),
        directions=keys.directions,
    )
    return new_arrays(recipe, inputs, _outputs(request, inputs, chunks), _prefix(request, presorted))


def _outputs(request: Request, inputs: Sequence[Any], chunks: Chunks) -> list[Output]:
    dims = len(chunks)
    if request.want == "positions":
        return [Output(np.empty_like(inputs[0]._meta, shape=(0,) * dims, dtype=np.int64), chunks)]
    return [Output(array._meta, (*chunks, *array.chunks[dims:])) for array in inputs[request.want == "values" :]]


def _prefix(request: Request, presorted: Sequence[Any]) -> str:
    return "argsort" if request.want == "positions" else "merge-sorted" if presorted else "sort"
