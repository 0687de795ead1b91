"""From checked arguments to distinct values, inverses and sets, of two arrays too, and to distinct subarrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any, Literal

import dask.array as da
import numpy as np

from ...chunk import complete, library_of
from ...chunk.distinct import Columns, find_distinct
from ...chunk.tie_groups import are_nan
from ...order import Order
from ...plan import InputChunks, Plan, Runs
from ...plan.memory import distinct_bytes
from ...plan.sets import DistinctPlan, describe_distinct, gang_of_distinct, make_distinct_plan
from ..collection import Output, new_arrays
from ..exchanges import gang_of, keeps_runs, recipe_class
from ..explain import note
from ..in_one_task import of_whole
from ..input_checks import checked_chunk
from ..inputs import concatenate_inputs, concatenated_dtype, describe_flat, flatten, rechunk, shaped_as
from ..runtime import Runtime
from ..search.searches import build_membership, equality_dtype
from ..sort.global_sort import device_order, global_sort, joins_rows
from ..sort.request import Keys, Options, Request
from .local import OF_KEYS, local_distinct, spread_back
from .number import Numbered, Numbering

#: Which tie groups of two sides are kept: all, those of both sides, of the first side alone, or of one side alone.
Keep = Literal["all", "both", "first", "one"]


@dataclass(frozen=True)
class OfGroups:
    """Make an array of one element for each tie group that begins in a chunk and is kept."""

    what: Literal["values", "counts", "firsts"]
    keep: Keep = "all"
    side: int = 0  # of counts and firsts

    def __call__(self, numbered: Numbered) -> Any:
        begun = slice(int(numbered.offset.continued), None)
        of_groups = {
            "values": lambda: _values(numbered),
            "counts": lambda: numbered.counts[self.side],
            "firsts": lambda: numbered.firsts[self.side],
        }
        found = of_groups[self.what]()[begun]
        if self.keep == "all":
            return found
        kept = _kept(numbered, self.keep)[begun]
        # NaN of both sides differ, so that each side has one.
        twice = [found[-1:]] if self.keep == "one" and len(kept) and bool(_nan_of_both(numbered)[-1]) else []
        return np.concatenate([found.compress(kept), *twice])


def _values(numbered: Numbered) -> Any:
    return numbered.groups.values


def _kept(numbered: Numbered, keep: Keep) -> Any:
    """Whether each tie group is kept. A group of NaN counts as one for each side, which the other side lacks."""
    first, second = (count > 0 for count in numbered.counts)
    nans = are_nan(_values(numbered))
    if keep == "both":
        return first & second & ~nans
    return first & (~second | nans) if keep == "first" else (first ^ second) | nans


def _nan_of_both(numbered: Numbered) -> Any:
    """Whether each tie group is NaN of both sides."""
    first, second = (count > 0 for count in numbered.counts)
    return first & second & are_nan(_values(numbered))


def numbers(numbered: Numbered) -> Any:
    """The number of each key's tie group."""
    return numbered.numbers[numbered.groups.numbers]


def origins(numbered: Numbered) -> Any:
    """The number of the chunk from which each key comes."""
    return numbered.chunks


@dataclass(frozen=True)
class SortedDistinct:
    """Hold the sorted distinct keys of all chunks."""

    columns: dict[str, Any]  # the "values", and their companions "chunks", "counts" and "firsts" where these are wanted
    #: The "inverse" and the "repeats" of each key, in the input's chunks, where these are wanted.
    of_keys: dict[str, Any]
    equal_nan: bool
    kept: bool  # whether workers keep what is not wanted at once, in runs
    runtime: Runtime

    def number(
        self,
        outputs: Sequence[Callable[[Numbered], Any]],
        dtypes: Sequence[Any],
        second: int | None = None,
        **options: bool,
    ) -> tuple[Any, ...]:
        """Make arrays of what functions make of the tie groups of each sorted chunk, in chunks of unknown sizes."""
        arrays = list(self.columns.values())
        sizes = ((math.nan,) * arrays[0].numblocks[0],)
        recipe = recipe_class(Numbering, self.kept)(
            tuple(array.name for array in arrays),
            tuple(self.columns),
            len(sizes[0]),
            self.equal_nan,
            tuple(outputs),
            second=second,
            **options,
        )
        metas = (np.empty_like(arrays[0]._meta, shape=(0,), dtype=dtype) for dtype in dtypes)
        return new_arrays(recipe, arrays, [Output(meta, sizes) for meta in metas], "unique")

    def spread_back(self, known: Any, chunks: Any) -> Any:
        """For each key of the input what its distinct key knows; the arguments are those of `spread_back`."""
        return spread_back(known, chunks, list(self.of_keys.values()), self.kept, self.runtime)


def stable_keys(array: Any, descending: bool = False) -> tuple[Request, Keys]:
    """Request a stable sort of an array, with companions, and make its keys."""
    options = Options(stable=True, descending=descending)
    keys = options.keys(array, "both")
    return options.request("both", keys), keys


def sorted_distinct(request: Request, array: Any, columns: Columns, equal_nan: bool) -> SortedDistinct:
    """Sort the distinct keys of an array of any dimensions, as `stable_keys` requests it."""
    kept = math.prod(array.numblocks) > 1 and keeps_runs(request.runtime)
    found = local_distinct(array, request.order, columns, equal_nan, kept)
    of_keys = {name: found.pop(name) for name in OF_KEYS if name in found}
    values, *others = found.values()
    if values.numblocks[0] > 1:
        request = replace(request, want="both" if others else "keys", most_keys=array.size)
        keys, sizes = Keys(values, request.order), values.chunks[0]
        arrays = global_sort(request, keys, others, sizes, ((0, len(sizes)),))
        found = dict(zip(found, arrays, strict=True))
    return SortedDistinct(found, of_keys, equal_nan, kept, request.runtime)


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
        return Columns(origins=self.inverse, counts=self.counts, firsts=self.index, inverse=self.inverse)

    @property
    def makes(self) -> dict[str, Callable[[Numbered], Any]]:
        """What makes each result of the tie groups of sorted distinct keys; the inverse, that of each of these keys."""
        makes: dict[str, Callable[[Numbered], Any]] = {"values": OfGroups("values")}
        if self.index:
            makes["firsts"] = OfGroups("firsts")
        if self.inverse:
            makes["inverse"] = numbers
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
) -> DistinctPlan:
    """Plan the distinct keys of an array; `joins` if one GPU has memory for all.

    Workers may hold the chunks of the `given` arrays, those of the array in their order; by default its own.
    """
    sizes = [math.prod(sizes) for sizes in product(*array.chunks)]
    asked, workers = request.asked, request.runtime.workers

    def choose(chunks: InputChunks) -> Runs:
        return gang_of_distinct(request.order, chunks, workers, asked, columns, equal_nan)

    sources = () if joins else gang_of(request.runtime, asked, sizes, given or [array], choose)
    plan = make_distinct_plan(sizes, array.dtype.itemsize, columns, joins, device_order(request), sources)
    note(plan, lambda step: describe_distinct(plan, step(Plan)))
    return plan


def in_gang(
    array: Any,
    request: Request,
    plan: DistinctPlan,
    results: Sequence[Any],
    equal_nan: bool = True,
    divisor: Callable[[Numbered], Any] | None = None,
    **options: Any,
) -> Any:
    """Make arrays by a gang; each result has the arguments of `gang.distinct.Result`, the options are a numbering's."""
    # Imported here, because it imports distributed.
    gang = import_module("dask_gpusort.graph.gang.distinct")
    numbering = Numbering((), (), plan.chunks, equal_nan, (), **options)
    made = [gang.Result(*result) for result in results]
    return gang.distinct_in_gang(array, request.order, plan.sources, plan.columns, numbering, made, divisor)


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
        note(None, partial(describe_flat, array, None))
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
    if plan.strategy == "gang":
        results = [
            (make, _dtype_of(name, source), "keys" if name == "inverse" else "groups")
            for name, make in wanted.makes.items()
        ]
        found = in_gang(source, request, plan, results, wanted.equal_nan, counted=wanted.counts)
        return dict(zip(wanted.makes, found, strict=True))
    if plan.strategy == "sort":
        return _numbered(sorted_distinct(request, source, plan.columns, wanted.equal_nan), wanted)
    columns = replace(plan.columns, inverse_dtype=np.dtype(np.int64))
    function = DistinctOfWhole(request.order, columns, wanted.equal_nan)
    outputs = [(name == "inverse", _dtype_of(name, source)) for name in function.outputs]
    return dict(zip(function.outputs, of_whole(source, function, outputs, "unique"), strict=True))


def _dtype_of(name: str, source: Any) -> np.dtype[Any]:
    return source.dtype if name == "values" else np.dtype(np.int64)


def _numbered(found: SortedDistinct, wanted: Unique) -> dict[str, Any]:
    """Number the distinct keys of several chunks, and make the results from the numbers."""
    makes = wanted.makes | ({"chunks": origins} if wanted.inverse else {})
    dtypes = [found.columns[name].dtype if name in ("values", "chunks") else np.dtype(np.int64) for name in makes]
    made = dict(zip(makes, found.number(list(makes.values()), dtypes, counted=wanted.counts), strict=True))
    if wanted.inverse:
        made["inverse"] = found.spread_back(made["inverse"], made.pop("chunks"))
    return made


def build_nunique(array: Any, equal_nan: bool) -> Any:
    """The number of distinct values, a dask array of shape ()."""
    wanted = Unique(equal_nan=equal_nan)
    request, plan = _plan_unique(array, wanted)
    if plan.strategy == "gang":
        (found,) = in_gang(array, request, plan, [(count_groups, np.dtype(np.int64), "all")], equal_nan=equal_nan)
        return found
    values = _make_unique(array, wanted, request, plan)["values"]
    meta = np.empty_like(values._meta, dtype=np.int64)
    return values.map_blocks(count_values, chunks=((1,) * values.numblocks[0],), dtype=np.int64, meta=meta).sum()


def count_groups(numbered: Numbered) -> Any:
    """The number of tie groups of all chunks, of no dimension."""
    return np.asarray(numbered.scan.groups, dtype=np.int64, like=numbered.amounts)[()]


def count_values(block: Any) -> Any:
    """Task: the number of a chunk's elements, shape (1,)."""
    return np.full_like(block, len(block), shape=(1,), dtype=np.int64)


@dataclass(frozen=True)
class Sides:
    """Hold two arrays end to end."""

    joined: Any  # one-dimensional, of their common dtype
    second: int  # number of the first chunk of the second array
    given: tuple[Any, ...]  # the arrays that have the chunks

    def number(self, outputs: Sequence[OfGroups], columns: Columns) -> tuple[Any, ...]:
        """Make arrays of the tie groups of the distinct keys of both sides."""
        request, _ = stable_keys(self.joined)
        plan = plan_distinct(request, self.joined, columns, given=self.given)
        dtypes = [_dtype_of(output.what, self.joined) for output in outputs]
        if plan.strategy == "gang":
            results = list(zip(outputs, dtypes, strict=True))
            return in_gang(self.joined, request, plan, results, counted=True, second=self.second)
        found = sorted_distinct(request, self.joined, columns, equal_nan=True)
        return found.number(outputs, dtypes, self.second, counted=True)


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
    return sides.number([OfGroups("values", keep)], Columns(origins=True))[0]


def build_common(first: Any, second: Any) -> tuple[Any, Any, Any]:
    """Find the values that two arrays have in common, and their first positions in each."""
    # If chunk sizes of the first array are unknown, so are the positions in the second one.
    length = first.size
    if math.isnan(length):
        raise ValueError("indices in two arrays of unknown chunk sizes: call compute_chunk_sizes() first")
    sides = sides_of(_flat(first), _flat(second))
    outputs = [OfGroups("values", "both"), OfGroups("firsts", "both", 0), OfGroups("firsts", "both", 1)]
    values, of_first, of_second = sides.number(outputs, Columns(origins=True, firsts=True))
    return values, of_first, of_second - int(length)


def build_difference(first: Any, second: Any, assume_unique: bool) -> Any:
    """The values of the first array that the second one lacks: distinct and ascending, or all in their order."""
    compared = equality_dtype(first.dtype, second.dtype)
    if not assume_unique and compared == first.dtype == concatenated_dtype([first, second]):
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
    if library_of(array._meta) != "numpy" or array.dtype.kind in "OT":
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
