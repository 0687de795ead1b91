r"""From checked arguments to the array of a search.

Keys that fit the memory are one array, which every task reads; in one memory a task looks up neighbouring chunks::

    chunks of keys      chunks of needles
         \  |  /            |    |    |
       search-join ----> one task each

Others are joined group by group. In one memory each task reads all groups; elsewhere needles go to their group and back
(see `functions.lookup`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from operator import getitem
from typing import Any, Literal

import dask.array as da
import numpy as np
from dask.typing import Key

from ..chunk import ops_for
from ..chunk.checks import Blocks, DeclaredChunk
from ..chunk.grid import in_shapes
from ..config import setting
from ..drivers.recipe import DRIVERS, Input, ProgramRecipe, Result
from ..functions.lookup import (
    Cut,
    Interpolation,
    KeyGroups,
    Keys,
    LookUp,
    Needles,
    Question,
    Scatter,
    SortedKeys,
    first_keys,
    join_keys,
    look_up,
    look_up_among,
    starts_of,
)
from ..graph._dask import List, Task, TaskRef
from ..graph.collection import Output, new_arrays
from ..graph.exchanges import exchange_by_group, gathering_members
from ..graph.explain import note
from ..graph.inputs import concatenated_dtype, flatten, same_chunks
from ..graph.runtime import Runtime
from ..graph.tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunk_of
from ..order import Order, holds_objects
from ..plan import Plan, Size
from ..plan.search import (
    Searched,
    SearchPlan,
    SearchReason,
    choose_membership,
    make_search_plan,
)
from .blocks import read_in_gang
from .request import Keys as SortKeys
from .request import Options
from .sort import build_sort

#: Largest range of integers that becomes a set of values, for each element and test element: NumPy's own limit. And in
#: all: the set is an array of bool.
VALUES_PER_ELEMENT = 6
MOST_VALUES = 1 << 26

#: Bytes of a rank.
RANK_BYTES = 8

#: What elements of the kinds of dtypes are; numbers are of all other ones.
_KINDS_OF_EQUALS = {"S": "bytes", "U": "text", "T": "text", "M": "date", "m": "duration", "V": "record"}


def build_search(array: Any, needles: Any, side: Literal["left", "right"], sorter: Any = None) -> Any:
    """Rank needles among keys, one-dimensional, sorted or with a `sorter` of positions; then all keys are joined."""
    order = Order(concatenated_dtype([array, needles]), stable=True)
    question = Question(order, side)
    gangs = sorter is None and not holds_objects(order.dtype)
    plan = _plan(array, needles, order.dtype, near=True, whole=None if sorter is None else "sorter", gangs=gangs)
    return _looked_up(plan, question, array, needles, sorter)


def build_interp(
    x: Any, xp: Any, fp: Any, left: complex | None = None, right: complex | None = None, period: float | None = None
) -> Any:
    """Interpolate between values `fp` at sorted keys `xp`, one-dimensional and in the same chunks, unless periodic."""
    fp = same_chunks(xp.chunks, fp, "fp", "xp")
    if period is not None:
        x, xp, fp = _with_period(x, xp, fp, period)
    order = Order(np.dtype(np.float64), stable=True)
    question = Question(order, "value", interpolation=Interpolation(fp.dtype, left, right))
    plan = _plan(xp, x, order.dtype, value_bytes=question.dtype.itemsize, near=True)
    return _looked_up(plan, question, xp, x, fp)


def _with_period(x: Any, xp: Any, fp: Any, period: float) -> tuple[Any, Any, Any]:
    """Needles and keys modulo a period, sorted with the values; the last key is also in front, the first one behind."""
    # The operators of a Dask array of one element would drop its empty chunks.
    x, xp = (one.astype(np.float64).map_blocks(np.mod, period, dtype=np.float64) for one in (x, xp))
    xp, fp = build_sort(Options(), "both", xp, (fp,), axis=0)
    front, back = (one.map_blocks(np.add, by, dtype=xp.dtype) for one, by in ((xp[-1:], -period), (xp[:1], period)))
    return x, da.concatenate([front, xp, back]), da.concatenate([fp[-1:], fp, fp[:1]])


def build_membership(array: Any, test: Any, invert: bool, by_values: bool | None) -> Any:
    """Tell whether each element of an array is among test elements, or with `invert` is not."""
    # `by_values` looks integers up in a set of values; None chooses by their range.
    dtype = equality_dtype(array.dtype, test.dtype) if test.size else None  # NumPy compares nothing with none
    if dtype is None:
        why = f"{array.dtype} and {test.dtype} are never equal" if test.size else "there are no test elements"
        note(Plan(where="none", why=f"{why}, so nothing is searched"))
        return array.map_blocks(partial(np.full_like, fill_value=invert, dtype=bool), dtype=bool)
    whole = choose_membership(Order(test.dtype), dtype, test.size)
    test = test if whole else flatten(test, None)[0]
    plan = _plan(test, array, dtype, whole=whole, sorts=whole is None, gangs=whole != "objects")
    if plan.sorts:
        (test,) = build_sort(Options(), "keys", test, axis=0)
    question = Question(
        order=Order(dtype, stable=True),
        want="not in" if invert else "in",
        most_values=_most_values(array, test, by_values) if plan.joined and dtype.kind in "biu" else 0,
        presorted=plan.sorts,
    )
    return _looked_up(plan, question, test, array)


def equality_dtype(dtype: np.dtype[Any], test: np.dtype[Any]) -> np.dtype[Any] | None:
    """Find the dtype in which elements and test elements are compared; None if none are equal."""
    if dtype.kind in "iu" and test.kind in "iu" and np.result_type(dtype, test).kind == "f":
        return dtype  # test elements out of its range are equal to none
    try:
        common = np.result_type(dtype, test)
    except TypeError:
        _ = np.empty(0, dtype) == np.empty(0, test)  # raises where NumPy does
        return None
    if common.kind == "O":
        return common
    # NumPy promotes numbers and bytes to text, and durations to dates, but none are equal.
    both = {_KINDS_OF_EQUALS.get(each.kind, "number") for each in (dtype, test)}
    return common if len(both) == 1 or both == {"duration", "number"} else None


def _most_values(array: Any, test: Any, by_values: bool | None) -> float:
    if by_values is not None:
        return math.inf if by_values else 0
    elements = test.size + (0 if math.isnan(array.size) else array.size)
    return MOST_VALUES if math.isnan(elements) else min(VALUES_PER_ELEMENT * elements, MOST_VALUES)


def _looked_up(plan: SearchPlan, question: Question, keys: Any, needles: Any, other: Any = None) -> Any:
    # The other array is a sorter, or has the values at the keys.
    Options().check(SortKeys(needles.astype(question.order.dtype), question.order))
    arrays = [needles, keys, *(() if other is None else (other,))]
    output = Output(np.empty_like(needles._meta, shape=(0,) * needles.ndim, dtype=question.dtype), needles.chunks)
    prefix = "interp" if question.interpolation else "searchsorted" if question.is_rank else "isin"
    of_other = plan.groups if question.interpolation or other is None else (tuple(range(other.npartitions)),)
    owned = plan.bundles, plan.groups, of_other
    inputs = tuple(
        Input(what, array.dtype, array.chunks, own, "group" if number else "part")
        for number, (what, array, own) in enumerate(zip(question.names, arrays, owned, strict=False))
    )
    if not plan.joined:
        question = replace(question, most_values=0, joined=False)
    names = tuple(array.name for array in arrays)
    recipe: ArrayRecipe = KeysToAll(question, names, inputs)
    if plan.sources:
        read = partial(look_up_among, question=question)
        return read_in_gang(read, [keys, needles], inputs[::-1], plan.sources, output, prefix)
    if not plan.joined and plan.exchange != "gather":
        steps = Needles(question), Keys(question), Cut(question), LookUp(question), Scatter(question.dtype)
        results, driver = (Result(len(steps) - 1, 0),), DRIVERS.get(plan.exchange, "tasks")
        recipe = ProgramRecipe(steps, results, names, inputs, len(plan.groups), driver)
    return new_arrays(recipe, arrays, [output], prefix)[0]


@dataclass(frozen=True)
class KeysToAll(ArrayRecipe):
    """Hold all that the tasks of a search are made from that each read all keys: one array, or groups in one memory."""

    question: Question
    names: tuple[str, ...]
    inputs: tuple[Input, ...]  # needles, keys, and the sorter or the values at keys, if any

    @property
    def takes_held_chunks(self) -> bool:
        """Whether chunks that the input's graph contains become part of the tasks: all run in one process."""
        return bool(self.inputs[0].owned)

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks up to the joined keys, or to the results of neighbouring chunks; `held` become part of them."""
        tasks = Tasks(self.token)
        needles, *keys = (
            [self._blocks(number, one, own, held) for own in self.inputs[number].owned]
            for number, one in enumerate(each.declared for each in self.inputs)
        )
        joined = [
            tasks.add("search-join", group, join_blocks, self.question, *own)
            for group, own in enumerate(zip(*keys, strict=True))
        ]
        found = joined[0] if self.question.joined else tasks.add("search-scan", 0, list_groups, List(*joined))
        for bundle, blocks in enumerate(needles):
            tasks.add("search-scatter", bundle, look_up_blocks, found, blocks, self.question)
        return tasks

    def _blocks(
        self, number: int, declared: Sequence[DeclaredChunk], own: Sequence[int], held: Mapping[Key, Any]
    ) -> Task:
        """Some chunks of one array."""
        said = [declared[chunk] for chunk in own]
        return Task(None, Blocks, List(*(chunk_of((self.names[number], *one.index), held) for one in said)), said)

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the joined keys, or from the results of neighbouring chunks, to the output chunks."""
        tasks, needles = Tasks(self.token), self.inputs[0].declared
        if not self.inputs[0].owned:
            for one in needles:
                block = TaskRef((self.names[0], *one.index))
                tasks.put((name, *one.index), look_up_chunk, tasks.ref("search-join", 0), block, one, self.question)
        for bundle, own in enumerate(self.inputs[0].owned):
            for number, chunk in enumerate(own):
                tasks.put((name, *needles[chunk].index), getitem, tasks.ref("search-scatter", bundle), number)
        return tasks


def join_blocks(question: Question, keys: Blocks, *others: Blocks) -> SortedKeys:
    """Task: the keys of some chunks as one array; the others are a sorter, or the values at the keys."""
    return join_keys(keys.checked(), question, *(one.checked() for one in others))


def list_groups(groups: list[SortedKeys]) -> KeyGroups:
    """Task: the keys of all groups, and where these begin."""
    return KeyGroups(groups, starts_of(list(map(first_keys, groups))))


def look_up_blocks(found: SortedKeys | KeyGroups, needles: Blocks, question: Question) -> list[Any]:
    """Task: what is wanted of the needles of neighbouring chunks, in their shapes."""
    blocks = needles.checked()
    parts = [block.reshape(-1) for block in blocks]
    whole = parts[0] if len(parts) == 1 else ops_for(parts[0]).concatenate(parts)
    return in_shapes(look_up(found, whole, question), [block.shape for block in blocks])


def look_up_chunk(found: SortedKeys, block: Any, declared: DeclaredChunk, question: Question) -> Any:
    """Task: what is wanted of the needles of a chunk, in its shape."""
    return look_up(found, declared.check(block), question)


def _plan(
    keys: Any,
    needles: Any,
    dtype: np.dtype[Any],
    *,
    value_bytes: int = 0,
    near: bool = False,
    whole: SearchReason | None = None,
    sorts: bool = False,
    gangs: bool = False,
) -> SearchPlan:
    """Plan for keys and needles that are converted to a dtype, with some bytes of a value for each key."""
    itemsize = max(dtype.itemsize, 1)
    runtime = Runtime.of(needles)
    moved = _bytes(keys, itemsize), _bytes(needles, itemsize + RANK_BYTES)
    sources = gathering_members(runtime, (keys, needles), *moved) if gangs else ()
    # In one process nothing moves, unless tasks are asked for.
    shared = runtime.one_process and setting("exchange") == "auto"
    exchange = exchange_by_group(runtime) if runtime.kind == "distributed" else "gather" if shared else "tasks"
    plan = make_search_plan(
        Searched(_bytes(keys, itemsize + value_bytes), _bytes(needles, itemsize), itemsize),
        runtime.workers,
        runtime.memory,
        setting("groups"),
        one_memory=(near or runtime.workers.devices) and runtime.one_process,
        whole="gang" if sources else whole,
        sorts=sorts and not sources,
        exchange=exchange,
    )
    plan = replace(plan, sources=sources)
    note(plan)
    return plan


def _bytes(array: Any, itemsize: int) -> tuple[Size, ...]:
    """Bytes of each chunk in C order."""
    return tuple(math.prod(sizes) * itemsize for sizes in product(*array.chunks))
