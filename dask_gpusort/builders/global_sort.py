"""The global sort: one-dimensional arrays of many chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..chunk.merge_choice import prefers_merge
from ..config import setting
from ..drivers import run_in_gang
from ..drivers.one import InOneTask
from ..drivers.recipe import DRIVERS, Input, ProgramRecipe, Result
from ..drivers.tasks import Pace
from ..functions.joined import JoinedSort
from ..functions.program import Superstep
from ..functions.sort import MERGE_COPIES, Count, DrawKeys, Finish, Groups, LocalSort, Merge, SortRuns
from ..graph.collection import Output, new_arrays
from ..graph.exchanges import choose_exchange, install_or_else
from ..graph.explain import note
from ..graph.inputs import rechunk
from ..graph.tasks import Chunks
from ..order import POSITION_BYTES, Order
from ..plan import (
    BY_BUNDLES,
    InputChunks,
    Size,
    SortPlan,
    counting,
    divide_chunks,
    fits_devices,
    fits_gang,
    fits_join,
    is_small,
    joined_bytes,
    make_plan,
)
from ..plan.memory import RUN_COPIES, sort_bytes
from .request import Keys, Request, Want
from .sort_last import SortLast
from .staging import Shortage

#: Sorted runs that tell the kind of processor: where it merges so many faster than it sorts them, keys are not divided.
DIVIDED_RUNS = 64
#: Share of the memory that a join of chunks which tasks make may take.
MADE_SHARE = 1 / 2


def plan_for(
    request: Request, keys: Keys, values: Sequence[Any], chunks: Sequence[Size], presorted: bool = False
) -> SortPlan:
    """Plan a global sort of one-dimensional keys into chunks of some sizes, nan where unknown.

    Companions have the keys' chunks along the first dimension and one chunk along others.
    """
    array, runtime, asked = keys.array, request.runtime, request.asked
    workers = runtime.workers
    if request.staged and runtime.gpus is not None:
        workers = replace(workers, staging_memory=runtime.gpus.memory)
    given = replace(
        _given(request.want, keys, values), sizes=array.chunks[0], presorted=presorted, most_keys=request.most_keys
    )
    inputs = (*(keys.parts or (array,)), *values)
    bound = replace(given, sizes=(given.most_keys,)) if math.isnan(keys.template.size) else given
    joins = not request.staged and _joins(request, bound, inputs)
    asks = asked in BY_BUNDLES or (asked == "auto" and runtime.library == "cupy")
    holders, held = runtime.nearest_holders(inputs[0]) if asks else ([], False)
    # Keys that are made from what workers hold take memory beside it.
    made = 0 if held else request.order.transit_dtype.itemsize
    share = replace(given, workers=holders, companion_bytes=given.companion_bytes + made)
    gangs = fits_gang(request.order, share, workers)
    exchange = choose_exchange(asked, runtime.kind, runtime.library, joins=joins, gangs=gangs)
    exchange, instead_of = install_or_else(exchange, asked, runtime.client)
    if exchange in BY_BUNDLES:
        holders, held = (holders, held) if asks else runtime.nearest_holders(inputs[0])
        held = held and None not in holders if holders else runtime.holds(inputs)
        given = replace(given, workers=holders, held=held)
    plan = make_plan(
        request.order,
        given,
        chunks,
        method=request.method,
        exchange=exchange,
        workers=workers,
        groups=setting("groups"),
        sorts_last=exchange == "gather" and not presorted and _sorts_last(request),
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
    gpus = request.runtime.gpus if request.staged else None
    if gpus is None or gpus.memory is None or math.isnan(keys.array.shape[0]):
        return keys, list(values)
    given = replace(_given(request.want, keys, values), sizes=keys.array.chunks[0])
    sizes = {0: divide_chunks(request.order, given, gpus.memory)}
    return Keys(rechunk(keys.array, sizes), keys.order), [rechunk(value, sizes) for value in values]


def shortage_of(request: Request, keys: Keys, values: Sequence[Any]) -> Shortage | None:
    """Tell the memory that is missing to sort all chunks of the host at once on GPUs; None if nothing is missing."""
    gpus = request.runtime.gpus
    if gpus is None or gpus.memory is None or request.asked in ("join", "device", "gang"):
        return None
    given = _given(request.want, keys, values)
    if not math.isnan(keys.template.size) and fits_devices(keys.order, given, gpus):
        return None
    return Shortage(joined_bytes(keys.order, given), gpus.memory * gpus.threads)


def _joins(request: Request, given: InputChunks, inputs: Sequence[Any]) -> bool:
    """Tell whether one task sorts all chunks: those of a GPU that can hold the whole sort, or few keys of the host."""
    # One thread of the host also sorts any number of keys at once, if they are in memory or fit it with the sort: an
    # exchange would move each key, and keep no other thread busy. Who asks for a number of groups asks for an exchange
    # on the host.
    runtime, workers = request.runtime, request.runtime.workers
    if workers.devices:
        return workers.threads == 1 and fits_join(request.order, given, workers)
    if runtime.kind == "distributed" or setting("groups") is not None:
        return False
    if (small := is_small(request.order, given)) or workers.threads > 1:
        return small
    return runtime.holds(inputs) or joined_bytes(request.order, given) <= MADE_SHARE * (runtime.memory or 0)


def _sorts_last(request: Request) -> bool:
    """Tell whether keys alone, of which equal ones are the same bits, are divided, and sorted once."""
    order = request.order
    alone = request.want == "keys" and order.coded and not order.has_ties and order.transit_dtype.itemsize > 2
    here = request.runtime.one_process and request.runtime.library == "numpy" and not request.staged
    # Without vectors NumPy's partition costs more than a merge of what is sorted.
    return alone and here and request.method != "radix" and not prefers_merge(order.transit_dtype, DIVIDED_RUNS)


def rows_bytes(request: Request, keys: Keys, values: Sequence[Any], chunks: Sequence[Sequence[Size]] | None) -> float:
    """Peak bytes of a task that sorts the rows of a chunk, of all chunks if there is a join; nan if unknown."""
    given = _given(request.want, keys, values)
    if request.runtime.workers.devices or request.staged:
        if chunks is None:
            return joined_bytes(request.order, given)
        row = keys.order.transit_dtype.itemsize + given.companion_bytes
        indices = POSITION_BYTES * (request.want in ("values", "both"))
        return float(math.prod(map(max, chunks))) * (RUN_COPIES * row + indices)
    if chunks is None:
        return keys.template.size * sort_bytes(request.order, given, "join")
    return float(math.prod(map(max, chunks))) * sort_bytes(request.order, given, "rows")


def joins_rows(request: Request, keys: Keys, values: Sequence[Any], task_bytes: int = 0) -> bool:
    """Tell whether an array of any dimensions is sorted by a join."""
    if request.asked != "auto" or request.runtime.library != "cupy":
        return request.asked == "join"
    given = replace(_given(request.want, keys, values), task_bytes=task_bytes)
    return request.runtime.workers.devices and _joins(request, given, ())


def device_order(request: Request) -> Order | None:
    """The order of keys in CuPy chunks, None for NumPy chunks."""
    return request.order if request.runtime.library == "cupy" else None


def _row_bytes(value: Any, dims: int) -> int:
    """Bytes that travel with one key, for keys of `dims` dimensions."""
    return int(value.dtype.itemsize * math.prod(value.shape[dims:]))


def global_sort(
    request: Request,
    keys: Keys,
    values: Sequence[Any],
    chunks: Sequence[Size],
    presorted: tuple[tuple[str, int], ...] = (),
) -> tuple[Any, ...]:
    """Sort a one-dimensional array of any number of chunks: keys, indices, keys and values, or values alone."""
    if not presorted:
        keys, values = divide_inputs(request, keys, values)
    plan = plan_for(request, keys, values, chunks, bool(presorted))
    note(plan, request.runtime)
    if plan.exchange == "join":
        return join(request, keys, values, 0, (plan.chunks,), presorted)
    inputs, prefix = (*(keys.parts or (keys.array,)), *values), _prefix(request)
    outputs = _outputs(request, inputs, (plan.chunks,))
    if plan.sorts_last:
        return new_arrays(SortLast(plan, (keys.array.name,)), inputs, outputs, prefix)
    steps = _steps(plan, _local_sort(request, keys, values, presorted), _finish(request))
    if keys.parts:
        own = [Input("the input", part.dtype, part.chunks, plan.runs, exact=True) for part in keys.parts]
    else:
        own = [Input("the input", request.order.dtype.base, keys.array.chunks, plan.runs, joined=presorted)]
    own += [Input(f"values {number}", None, value.chunks, plan.runs) for number, value in enumerate(values)]
    results = tuple(Result(len(steps) - 1, which) for which in range(len(outputs)))
    if plan.exchange == "gang":
        return run_in_gang(inputs, own, steps, results, plan.sources, outputs, prefix, plan.groups)
    names, driver = tuple(array.name for array in inputs), DRIVERS.get(plan.exchange, "tasks")
    recipe = ProgramRecipe(steps, results, names, tuple(own), len(plan.groups), driver, plan.groups, _pace(plan))
    return new_arrays(recipe, inputs, outputs, prefix)


def _steps(plan: SortPlan, local: LocalSort, finish: Finish) -> tuple[Superstep, ...]:
    """The program of a sort."""
    several = local.positions or local.arrays > 1
    copies = MERGE_COPIES if several else min(local.copies, MERGE_COPIES)
    groups, merge = Groups(plan.chunks, plan.groups), Merge(finish, not plan.known, copies)
    stage = "sort-check" if local.presorted else "sort-local"
    if plan.candidates:
        draw = DrawKeys(local, plan.candidates, sum(plan.sizes), len(plan.runs), stage)
        return draw, Count(plan.order, groups, counting.FAN_IN), merge
    return SortRuns(local, plan.samples, plan.radix_bits, groups, stage), merge


def _pace(plan: SortPlan) -> Pace | None:
    """The bundles of an exchange by tasks, and their order."""
    if not plan.by_tasks:
        return None
    turn_size = plan.turn_size if plan.turn_size < len(plan.groups) else 0
    return Pace(plan.sources, plan.bundle_workers, plan.cut_first, turn_size)


def _local_sort(request: Request, keys: Keys, values: Sequence[Any], presorted: Any) -> LocalSort:
    packed = tuple(part.dtype for part in keys.parts)
    arrays = max(1, len(packed)) + len(values)
    positions = request.want == "positions"
    moved = sum(_row_bytes(value, keys.template.ndim) for value in values)
    return LocalSort(request.order, positions, request.staged, packed, keys.directions, arrays, bool(presorted), moved)


def _finish(request: Request) -> Finish:
    return Finish(request.order, request.want in ("keys", "both"), request.want == "positions", request.staged)


def join(
    request: Request,
    keys: Keys,
    values: Sequence[Any],
    axis: int,
    chunks: Chunks,
    presorted: tuple[tuple[str, int], ...] = (),
) -> tuple[Any, ...]:
    """Sort an array along one axis in one task, into chunks of some sizes in each dimension, as `global_sort`."""
    inputs, dims = (*(keys.parts or (keys.array,)), *values), len(chunks)
    outputs = _outputs(request, inputs, chunks)
    recipe = InOneTask(
        JoinedSort(_local_sort(request, keys, values, presorted), _finish(request), axis, presorted),
        "sort-local",
        tuple(array.name for array in inputs),
        keys.array.chunks[:dims],
        extra_dims=tuple(array.ndim - dims for array in inputs),
        divided=(True,) * len(outputs),
    )
    return new_arrays(recipe, inputs, outputs, _prefix(request))


def _outputs(request: Request, inputs: Sequence[Any], chunks: Chunks) -> list[Output]:
    dims = len(chunks)
    if request.want == "positions":
        return [Output(np.empty_like(inputs[0]._meta, shape=(0,) * dims, dtype=np.int64), chunks)]
    return [Output(array._meta, (*chunks, *array.chunks[dims:])) for array in inputs[request.want == "values" :]]


def _prefix(request: Request) -> str:
    return "argsort" if request.want == "positions" else "sort"
