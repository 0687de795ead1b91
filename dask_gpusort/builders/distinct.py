"""From checked arguments to distinct values, inverses and sets, of two arrays too, and to distinct subarrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import complete, library_of
from ..chunk.checks import checked_chunk
from ..chunk.distinct import Columns, find_distinct
from ..config import setting
from ..drivers import run_in_gang
from ..drivers.one import of_whole
from ..drivers.recipe import DRIVERS, Input, ProgramRecipe, Result
from ..functions.distinct import Cut, Distinct, Merge, Merged, Number, Reply, Results, Spread, Total
from ..functions.numbered import Numbered, NumberOf, OfGroups, RankOf
from ..functions.program import Superstep
from ..functions.sets import Keep, MergeSides
from ..graph.collection import Output, new_arrays
from ..graph.exchanges import gang_of, program_exchange
from ..graph.explain import note
from ..graph.inputs import concatenate_inputs, concatenated_dtype, flat_plan, flatten, rechunk, shaped_as
from ..order import Order
from ..plan import BY_TASKS, InputChunks, Runs
from ..plan.memory import distinct_bytes
from ..plan.sets import (
    DistinctPlan,
    divide_distinct,
    divide_members,
    gang_of_distinct,
    make_distinct_plan,
)
from .global_sort import device_order, joins_rows
from .request import Keys, Options, Request
from .searches import build_membership, equality_dtype


def stable_keys(array: Any, descending: bool = False) -> tuple[Request, Keys]:
    """Request a stable sort of an array, with companions, and make its keys."""
    options = Options(stable=True, descending=descending)
    keys = options.keys(array, "both")
    return options.request("both", keys), keys


def run_program(
    array: Any,
    request: Request,
    plan: DistinctPlan,
    results: Mapping[Any, np.dtype[Any]],
    reply: tuple[NumberOf | RankOf, np.dtype[Any], bool] | None = None,
    *,
    equal_nan: bool = True,
    sides: tuple[int, Keep] | None = None,
) -> tuple[Any, ...]:
    """Make arrays of what functions make of tie groups, in chunks of unknown sizes; `results` has the dtype of each.

    Behind them, in the chunks of the array, what a function makes for each distinct key, in a dtype, and whether it is
    divided (see `Spread`). Without any of both, the number of tie groups. `sides` are the first chunk of a second
    array, and what is kept of the distinct keys of both; then `results` are the arrays of `MergeSides`.
    """
    division, order, makes = plan.division, request.order, tuple(results)
    assert division is not None
    merged, unknown = Merged(order, plan.columns, equal_nan), ((math.nan,) * division.groups,)
    steps: list[Superstep] = [
        Distinct(order, plan.columns, equal_nan, division.groups, division.samples, plan.count_dtype),
        Cut(order, division.groups),
    ]
    outputs: list[Any] = []
    if reply is not None:
        make, replies, divided = reply
        steps += [Reply(merged, makes, make, plan.reply_dtype), Spread(make.in_whole, divided)]
        outputs = [((len(steps) - 1, 0), array.chunks, replies)]
        steps += [Results()] * bool(makes)
    elif sides is not None:
        second, keep = sides
        steps.append(MergeSides(merged, sum(part[0] < second for part in division.parts), keep))
    elif makes:
        steps.append(Merge(merged, makes))
    else:
        steps += [Number(merged), Total()]
        outputs = [((len(steps) - 1, 0), (), np.dtype(np.int64))]
    outputs[:0] = [((len(steps) - 1, at), unknown, dtype) for at, dtype in enumerate(results.values())]
    made = [Output(np.empty_like(array._meta, shape=(0,) * len(one), dtype=dtype), one) for _, one, dtype in outputs]
    found = tuple(Result(*which) for which, *_ in outputs)
    inputs = (Input("the input", order.dtype, array.chunks, division.parts),)
    if plan.sources:
        return run_in_gang([array], inputs, steps, found, division.members, made, "unique")
    driver = DRIVERS.get(division.exchange, "tasks")
    recipe = ProgramRecipe(tuple(steps), found, (array.name,), inputs, division.groups, driver)
    return new_arrays(recipe, [array], made, "unique")


@dataclass(frozen=True)
class Unique:
    """What `unique` gives besides the values, and how NaN compare."""

    index: bool = False
    inverse: bool = False
    counts: bool = False
    equal_nan: bool = True

    @property
    def columns(self) -> Columns:
        """The columns of each chunk's distinct keys that the results need."""
        return Columns(counts=self.counts, firsts=self.index, inverse=self.inverse)

    @property
    def makes(self) -> dict[str, Callable[[Numbered], Any]]:
        """What makes each result of tie groups, but the inverse."""
        makes: dict[str, Callable[[Numbered], Any]] = {"values": OfGroups("values")}
        if self.index:
            makes["firsts"] = OfGroups("firsts")
        if self.counts:
            makes["counts"] = OfGroups("counts")
        return makes


def plan_distinct(
    request: Request,
    array: Any,
    columns: Columns,
    joins: bool = False,
    equal_nan: bool = True,
    given: Sequence[Any] = (),
    second: int | None = None,
) -> DistinctPlan:
    """Plan the distinct keys of an array; `joins` if one GPU has memory for all.

    Workers may hold the chunks of the `given` arrays, those of the array in their order; by default its own. `second`
    is the first chunk of a second side.
    """
    sizes = [math.prod(sizes) for sizes in product(*array.chunks)]
    asked, workers = request.asked, request.runtime.workers

    def choose(chunks: InputChunks) -> Runs:
        return gang_of_distinct(request.order, chunks, workers, asked, columns, equal_nan)

    sources = () if joins else gang_of(request.runtime, asked, sizes, given or [array], choose)
    division = divide_members(request.order, sources, columns, second) if sources else None
    if not (joins or sources or (len(sizes) == 1 and second is None)):
        exchange, instead_of = program_exchange(request.runtime, asked)
        holders = request.runtime.holders(*(given or [array])) if exchange in BY_TASKS else []
        chunks = InputChunks(sizes, workers=holders if len(holders) == len(sizes) else [])
        divided = divide_distinct(request.order, chunks, columns, exchange, workers, setting("groups"), second)
        division = replace(divided, instead_of=instead_of)
    on_device, sides = device_order(request), second is not None
    plan = make_distinct_plan(sizes, array.dtype.itemsize, columns, joins, on_device, sources, division, sides)
    note(plan)
    return plan


@dataclass(frozen=True)
class DistinctOfWhole:
    """Find the distinct keys of a whole array: the values, then what else is wanted of them."""

    order: Order  # ascending and stable
    columns: Columns
    equal_nan: bool

    def __call__(self, array: Any) -> tuple[Any, ...]:
        found = find_distinct(array, self.order, self.columns, self.equal_nan)
        if library_of(array) == "numpy" and np.may_share_memory(found.values, array):
            found = replace(found, values=found.values.copy())
        return tuple(getattr(found, name) for name in self.outputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the arrays."""
        columns = self.columns
        wanted = {"values": True, "firsts": columns.firsts, "inverse": columns.inverse, "counts": columns.counts}
        return tuple(name for name, is_wanted in wanted.items() if is_wanted)


def build_unique(array: Any, wanted: Unique, given: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The distinct values of an array, then what is wanted of them, in NumPy's order: index, inverse, counts.

    `given` is that of `plan_distinct`.
    """
    source = array
    if wanted.index:  # the first of equal keys is the first in C order
        note(flat_plan(array, None))
        source, _ = flatten(array, None)
    made = _make_unique(source, wanted, *_plan_unique(source, wanted, given))
    if wanted.inverse:
        made["inverse"] = shaped_as(made["inverse"], array)
    return tuple(made[name] for name in ("values", "firsts", "inverse", "counts") if name in made)


def _plan_unique(source: Any, wanted: Unique, given: Sequence[Any] = ()) -> tuple[Request, DistinctPlan]:
    request, keys = stable_keys(source)
    joins = joins_rows(request, keys, (), distinct_bytes(source.dtype.itemsize, wanted.columns))
    return request, plan_distinct(request, source, wanted.columns, joins, wanted.equal_nan, given)


def _make_unique(source: Any, wanted: Unique, request: Request, plan: DistinctPlan) -> dict[str, Any]:
    """The values, and what is wanted of them, by the names of their columns."""
    if plan.where == "exchange":
        results = {make: _dtype_of(name, source) for name, make in wanted.makes.items()}
        reply = (NumberOf(), np.dtype(np.int64), False) if wanted.inverse else None
        found = run_program(source, request, plan, results, reply, equal_nan=wanted.equal_nan)
        return dict(zip([*wanted.makes, *["inverse"] * wanted.inverse], found, strict=True))
    columns = replace(plan.columns, inverse_dtype=np.dtype(np.int64))
    function = DistinctOfWhole(request.order, columns, wanted.equal_nan)
    outputs = [(name == "inverse", _dtype_of(name, source)) for name in function.outputs]
    return dict(zip(function.outputs, of_whole(source, function, outputs, "unique"), strict=True))


def _dtype_of(name: str, source: Any) -> np.dtype[Any]:
    return source.dtype if name == "values" else np.dtype(np.int64)


def build_nunique(array: Any, equal_nan: bool) -> Any:
    """The number of distinct values, a dask array of shape ()."""
    wanted = Unique(equal_nan=equal_nan)
    request, plan = _plan_unique(array, wanted)
    if plan.where == "exchange":
        return run_program(array, request, plan, {}, equal_nan=wanted.equal_nan)[0]
    values = _make_unique(array, wanted, request, plan)["values"]
    return values.map_blocks(count_values, drop_axis=0, dtype=np.int64, meta=count_values(values._meta))


def count_values(block: Any) -> Any:
    """Task: the number of a chunk's elements, shape ()."""
    return np.asarray(len(block), dtype=np.int64, like=block)[()]


@dataclass(frozen=True)
class Sides:
    """Hold two arrays end to end."""

    joined: Any  # one-dimensional, of their common dtype
    second: int  # number of the first chunk of the second array
    given: tuple[Any, ...]  # the arrays that have the chunks

    def keep(self, keep: Keep, firsts: bool = False) -> tuple[Any, ...]:
        """The distinct keys that are kept, then, of keys of both sides, their first positions on each."""
        request, _ = stable_keys(self.joined)
        plan = plan_distinct(request, self.joined, Columns(firsts=firsts), given=self.given, second=self.second)
        names = "values", *("first", "second") * firsts
        results = {name: _dtype_of(name, self.joined) for name in names}
        return run_program(self.joined, request, plan, results, sides=(self.second, keep))


def sides_of(first: Any, second: Any) -> Sides:
    """Two arrays of one dimension end to end, as NumPy concatenates them."""
    given = first, second
    dtype = concatenated_dtype(given)
    joined, origins = concatenate_inputs([one if one.dtype == dtype else one.astype(dtype) for one in given])
    lead = sum(chunks for number, chunks in origins if number == 0)
    return Sides(joined, lead, tuple(given[number] for number, _ in origins))


def build_union(first: Any, second: Any) -> Any:
    """The distinct values of two arrays, ascending."""
    sides = sides_of(_flat(first), _flat(second))
    return build_unique(sides.joined, Unique(), sides.given)[0]


def build_set(first: Any, second: Any, keep: Keep) -> Any:
    """The distinct values of two arrays that are kept, ascending."""
    sides = sides_of(_flat(first), _flat(second))
    return sides.keep(keep)[0]


def build_common(first: Any, second: Any) -> tuple[Any, Any, Any]:
    """Find the values that two arrays have in common, and their first positions in each."""
    # If chunk sizes of the first array are unknown, so are the positions in the second one.
    length = first.size
    if math.isnan(length):
        raise ValueError("return_indices needs an ar1 of known chunk sizes: call its compute_chunk_sizes() first")
    sides = sides_of(_flat(first), _flat(second))
    values, of_first, of_second = sides.keep("both", firsts=True)
    return values, of_first, of_second.map_blocks(np.subtract, int(length), dtype=np.int64, meta=of_second._meta)


def build_difference(first: Any, second: Any, assume_unique: bool) -> Any:
    """The values of the first array that the second one lacks: distinct and ascending, or all in their order."""
    compared = equality_dtype(first.dtype, second.dtype)
    sort = not assume_unique and compared is not None  # which is equal to the dtype float64
    if sort and compared == first.dtype == concatenated_dtype([first, second]):
        return build_set(first, second, "first")
    # The common dtype, if there is one, need not hold all values of the first array.
    first = _flat(first) if assume_unique else build_unique(first, Unique())[0]
    mask = build_membership(first, second, invert=True, by_values=None)
    unknown = ((math.nan,) * first.numblocks[0],)
    return da.map_blocks(select, first, mask, dtype=first.dtype, meta=first._meta, chunks=unknown)


def select(block: Any, mask: Any) -> Any:
    """Task: the elements of a chunk at which a mask is True."""
    return complete(block[mask])


def _flat(array: Any) -> Any:
    return flatten(array, None)[0]


def to_records(block: Any, dtype: np.dtype[Any]) -> Any:
    """Task: the subarrays of one chunk along its first axis, as records."""
    checked_chunk(block, dtype["f0"])
    if block.size == 0:  # subarrays without elements are equal
        return np.zeros(len(block), dtype)
    flat = np.ascontiguousarray(block.astype(dtype["f0"], copy=False)).reshape(-1)
    return flat.view(dtype)


def from_records(block: Any, shape: tuple[int, ...]) -> Any:
    """Task: records as subarrays of a shape."""
    fields = block.view(block.dtype["f0"]).reshape(len(block), len(block.dtype))
    return fields[:, : math.prod(shape)].reshape(len(block), *shape)


def as_records(array: Any, axis: int) -> tuple[Any, Any]:
    """Make records of the subarrays along an axis, and give the array with the axis first."""
    if library_of(array._meta) != "numpy" or (array.dtype.hasobject or array.dtype.kind == "T"):
        raise TypeError(
            f"subarrays of {library_of(array._meta)} chunks of {array.dtype} are not compared: use axis=None, or NumPy "
            "chunks of dtypes of fixed width"
        )
    moved = array.transpose(_axis_first(array, axis))
    shape = moved.shape[1:]
    if any(map(math.isnan, shape)):
        raise ValueError(
            f"ar has subarrays of unknown shape {shape} along axis {axis}: call ar.compute_chunk_sizes() first"
        )
    whole = rechunk(moved, dict.fromkeys(range(1, moved.ndim), -1))
    dtype = np.dtype([(f"f{number}", array.dtype) for number in range(max(1, math.prod(shape)))])
    records = whole.map_blocks(
        to_records,
        dtype,
        drop_axis=list(range(1, moved.ndim)),
        chunks=(whole.chunks[0],),
        dtype=dtype,
        meta=np.empty(0, dtype),
    )
    return records, moved


def build_unique_subarrays(array: Any, wanted: Unique, axis: int) -> tuple[Any, ...]:
    """The distinct subarrays along an axis, as `build_unique`; raises what `as_records` raises."""
    records, moved = as_records(array, axis)
    shape = moved.shape[1:]
    values, *others = build_unique(records, wanted)
    found = values.map_blocks(
        from_records,
        shape,
        new_axis=list(range(1, moved.ndim)),
        chunks=(values.chunks[0], *((size,) for size in shape)),
        dtype=array.dtype,
        meta=np.empty((0,) * moved.ndim, array.dtype),
    )
    return found.transpose(np.argsort(_axis_first(array, axis)).tolist()), *others


def _axis_first(array: Any, axis: int) -> list[int]:
    return [axis, *(dim for dim in range(array.ndim) if dim != axis)]
