r"""The tasks of a search: every needle is looked up among sorted keys, and the result has the chunks of the needles.

Keys that fit the memory are one array, which every task reads; in one memory a task looks up neighbouring chunks::

    chunks of keys      chunks of needles
       \\  |  /            |    |    |
      search-join ----> one task each

Others are joined group by group. Needles are sorted, and cut where groups begin, so that each moves once::

    chunks of keys            chunks of needles
       |       |                 |       |
    search-join, one a group     |       |
       |       |                 |       |
    search-ends                  |       |              first key and number of keys
         \   /                   |       |
       search-scan --------> search-sort, one a bundle  sorted needles, their positions, and their cuts
                                    |
                             search-piece               the needles of a bundle for a group
                                    |
                             search-rank                looked up in the group
                                    |
                             search-scatter             all of a bundle, scattered to their positions
                                    |
                               output chunks

An interpolation joins the values at the keys with these. `search-scan` has the first value of each group too: needles
behind the last key of a group are between this key and the first one of the next group.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from operator import getitem
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from dask.typing import Key

from ...chunk import complete, ops_for
from ...chunk.numpy_search import make_value_set, occur
from ...chunk.run import Run, concatenate
from ...chunk.steps import check_lengths
from ...order import Order, of_floors
from ...plan import Size
from ...plan.search import SearchPlan, holds_objects
from ...table import Side
from .._dask import List, TaskRef
from ..input_checks import DeclaredChunk, changed_source, checked_chunk, declared_chunks, wrong_size
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunks_of

#: Sorted keys in transit and None; a set of values and the least of them (see `chunk.numpy_search`); or keys and the
#: values at them, for an interpolation.
SortedKeys: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True)
class Interpolation:
    """Say what is interpolated between keys."""

    dtype: np.dtype[Any]  # of the values at the keys, as their array says
    left: complex | None  # for needles before all keys; None is the first value
    right: complex | None  # for needles behind all keys; None is the last value

    def at(self, needles: Any, keys: Any, values: Any) -> Any:
        """The values at needles, shape (n,)."""
        return ops_for(needles).interpolate(needles, keys, values, (self.left, self.right))


@dataclass(frozen=True)
class Question:
    """Say what is asked of each needle."""

    order: Order  # of keys and needles, in their common dtype
    #: The rank of the needle from one side; whether it is, or is not, among the keys; or the value at it.
    want: Literal["left", "right", "in", "not in", "value"]
    key_dtype: np.dtype[Any]
    needle_dtype: np.dtype[Any]
    most_values: float = 0  # largest range of integers for which a set of values is made
    presorted: bool = True  # whether the keys are sorted
    joined: bool = True  # whether all keys are one array
    interpolation: Interpolation | None = None  # if values are wanted

    @property
    def is_rank(self) -> bool:
        """Whether a rank is wanted."""
        return self.want in ("left", "right")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        if self.interpolation is not None:
            return np.dtype(np.complex128 if self.interpolation.dtype.kind == "c" else np.float64)
        return np.dtype(np.int64 if self.is_rank else bool)

    @property
    def side(self) -> Side:
        """The side of the search. A key that is equal to a needle is before the needle's rank from the right."""
        return "left" if self.want == "left" else "right"

    @property
    def needles(self) -> str:
        """The name of the needles in error messages."""
        return "x" if self.interpolation else "the needles" if self.is_rank else "the elements"

    @property
    def transit(self) -> Order:
        """The order of keys and needles in transit."""
        return of_floors(self.order)

    def in_transit(self, array: Any) -> Any:
        """Keys or needles in transit, the least of their tie class, shape (n,)."""
        ops = ops_for(array)
        return ops.floor(ops.encode(self._converted(array), self.order), self.order)

    def searched(self, array: Any) -> Any:
        """Keys or needles, shape (n,): in transit, as `ops.rank` takes them in one array, or as the user has them."""
        if self.interpolation is not None:
            return self._converted(array)
        if not (self.is_rank and self.joined):
            return self.in_transit(array)
        return ops_for(array).ranked_keys(self._converted(array), self.order)

    def _converted(self, array: Any) -> Any:
        """Keys or needles in their common dtype, shape (n,)."""
        dtype = self.order.dtype
        flat = array.reshape(-1)
        if dtype.kind in "SU":
            # A chunk may have longer strings than its array says.
            flat = flat.astype(dtype.kind, copy=False)
        elif flat.dtype != dtype:
            flat = flat.astype(dtype)
        return flat


def join_keys(
    chunks: list[Any], question: Question, sizes: Sequence[Size], first: int = 0, others: Sequence[Any] = ()
) -> SortedKeys:
    """Task: join the keys of some chunks, of which `first` is the number of the first, into one sorted array.

    `others` are chunks of the positions that sort the keys, none if they are sorted; or of values at the keys.
    """
    for number, (chunk, size) in enumerate(zip(chunks, sizes, strict=True), first):
        what = check_keys(chunk, number, question)
        if chunk.size != size and not math.isnan(size):
            raise wrong_size(f"{what} has {chunk.size} keys", size)
    ops = ops_for(chunks[0])
    parts = [chunk.reshape(-1) for chunk in chunks]
    keys = ops.concatenate(parts)
    if question.want in ("in", "not in"):
        keys = _that_can_be_equal(keys, question.order.dtype)
    if _is_compared_by_numpy(question):
        return keys, None
    keys = question.searched(keys)
    if question.interpolation is not None:
        for number, (part, chunk) in enumerate(zip(parts, others, strict=True), first):
            checked_chunk(chunk, question.interpolation.dtype, f"chunk {number} of fp", ndim=1)
            check_lengths(part, [chunk])
        return keys, complete(ops.concatenate(others).astype(question.dtype, copy=False))
    if others:
        keys = keys[_checked_sorter(ops.concatenate(others), len(keys))]
    if not question.presorted:
        keys = ops.sort_rows(keys, question.transit, 0, overwrite=True)
    found = make_value_set(keys, question.most_values) if question.most_values else None
    return (complete(keys), None) if found is None else (complete(found[0]), found[1])


def check_keys(chunk: Any, number: int, question: Question) -> str:
    """Check a chunk of the keys, and give its name."""
    array = "xp" if question.interpolation else "the sorted keys"
    what = "a chunk of test_elements" if question.want in ("in", "not in") else f"chunk {number} of {array}"
    checked_chunk(chunk, question.key_dtype, what)
    return what


def _that_can_be_equal(test: Any, dtype: np.dtype[Any]) -> Any:
    """Test elements that an element of a dtype may be equal to: no NaN, and no integers out of its range."""
    if test.dtype.kind not in "biuSUO":
        test = test[test == test]
    if dtype.kind == "u" and test.dtype.kind == "i":
        return test[test >= 0]
    if dtype.kind == "i" and test.dtype.kind == "u":
        return test[test <= np.uint64(np.iinfo(dtype).max)]
    return test


def _checked_sorter(sorter: Any, size: int) -> Any:
    if len(sorter) != size:
        raise ValueError("sorter.size must equal a.size")
    if size and not (int(sorter.min()) >= 0 and int(sorter.max()) < size):
        raise ValueError("Sorter index out of range.")
    return sorter


def _is_compared_by_numpy(question: Question) -> bool:
    """Whether NumPy compares objects with objects, which need have no order."""
    return holds_objects(question.order.dtype) and not question.is_rank


def look_up(found: SortedKeys, block: Any, question: Question) -> Any:
    """Look needles up; the result has their shape."""
    keys, other = found
    if _is_compared_by_numpy(question):
        return np.isin(block, keys, invert=question.want == "not in")
    needles = question.searched(block)
    if question.interpolation is not None:
        result = question.interpolation.at(needles, keys, other)
    elif other is None:
        ranks = ops_for(block).rank(keys, needles, question.transit, question.side)
        result = wanted_of(keys, needles, ranks, question)
    else:
        result = _inverted(occur(needles, keys, other), question)
    return complete(result.reshape(block.shape))


def wanted_of(keys: Any, needles: Any, ranks: Any, question: Question) -> Any:
    """Turn the ranks of needles into what the question asks for."""
    if question.is_rank:
        return ranks
    return _inverted(ops_for(keys).equal_before(keys, needles, ranks, question.transit), question)


def _inverted(inside: Any, question: Question) -> Any:
    return ~inside if question.want == "not in" else inside


@dataclass(frozen=True)
class Lookup(ArrayRecipe):
    """Hold all that the tasks of one search are made from."""

    plan: SearchPlan
    question: Question
    names: tuple[str, ...]  # of the arrays of keys and of needles, and of the sorter or the values at keys, if any
    key_chunks: Chunks  # sizes in each dimension of the keys, nan where unknown
    chunks: Chunks  # sizes in each dimension of the needles, nan where unknown
    sorter_blocks: int = 0  # chunks of the sorter

    @property
    def takes_held_chunks(self) -> bool:
        """Whether chunks that the input's graph contains become part of the tasks: all run in one process."""
        return self.plan.joined and bool(self.plan.bundles)

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks up to the joined keys, or to the results of all bundles; chunks in `held` become part of them."""
        tasks = Tasks(self.token)
        for group, own in enumerate(self.joined(held)):
            tasks.add("search-join", group, join_keys, *own)
        if self.plan.joined:
            self._near_bundles(tasks, held)
        else:
            self._bundles(tasks)
        return tasks

    def joined(self, held: Mapping[Key, Any] = NOTHING) -> Iterator[tuple[Any, ...]]:
        """The arguments of `join_keys` for each group."""
        keys = chunks_of(self.names[0], np.ndindex(*map(len, self.key_chunks)), held=held)
        sizes = [math.prod(chunk) for chunk in product(*self.key_chunks)]
        for chunks in self.plan.groups:
            parts = List(*(keys[chunk] for chunk in chunks))
            numbers = chunks if self.question.interpolation else range(self.sorter_blocks)
            others = List(*chunks_of(self.names[-1], ((number,) for number in numbers), held=held))
            yield parts, self.question, tuple(sizes[chunk] for chunk in chunks), chunks[0], others

    def _near_bundles(self, tasks: Tasks, held: Mapping[Key, Any]) -> None:
        """Add the bundles that are looked up in all keys."""
        needles, declared = chunks_of(self.names[1], self._indices, held=held), self._declared()
        for bundle, chunks in enumerate(self.plan.bundles):
            parts, said = List(*(needles[chunk] for chunk in chunks)), [declared[chunk] for chunk in chunks]
            tasks.add("search-scatter", bundle, look_up_bundle, tasks.ref("search-join", 0), parts, said, self.question)

    @property
    def needles(self) -> Iterator[tuple[List, list[DeclaredChunk]]]:
        """The chunks of needles of each bundle, and what their array says of them."""
        declared = self._declared()
        for chunks in self.plan.bundles:
            said = [declared[chunk] for chunk in chunks]
            yield List(*(TaskRef((self.names[1], *one.index)) for one in said)), said

    def _bundles(self, tasks: Tasks) -> None:
        groups = range(len(self.plan.groups))
        keys = [tasks.ref("search-join", group) for group in groups]
        ends = [tasks.add("search-ends", group, group_ends, own) for group, own in enumerate(keys)]
        scan = tasks.add("search-scan", 0, scan_groups, List(*ends))
        for bundle, needles in enumerate(self.needles):
            own, ranked = tasks.add("search-sort", bundle, sort_needles, *needles, scan, self.question), []
            for group in groups:
                at = bundle, group
                piece = tasks.add("search-piece", at, cut_needles, own, group)
                ranked.append(
                    tasks.add("search-rank", at, look_up_piece, keys[group], piece, scan, group, self.question)
                )
            tasks.add("search-scatter", bundle, scatter_found, own, List(*ranked))

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the joined keys, or from the results of bundles, to the output chunks."""
        tasks, declared = Tasks(self.token), self._declared()
        if not self.plan.bundles:
            found = tasks.ref("search-join", 0)
            for one in declared:
                needles = TaskRef((self.names[1], *one.index))
                tasks.put((name, *one.index), look_up_chunk, found, needles, one, self.question)
        for bundle, own in enumerate(self.plan.bundles):
            for number, chunk in enumerate(own):
                tasks.put((name, *declared[chunk].index), getitem, tasks.ref("search-scatter", bundle), number)
        return tasks

    @property
    def _indices(self) -> Iterator[tuple[int, ...]]:
        """Indices of the chunks of needles, in C order."""
        return iter(np.ndindex(*map(len, self.chunks)))

    def _declared(self) -> list[DeclaredChunk]:
        """What the array of needles says of its chunks."""
        return declared_chunks(self.question.needles, self.question.needle_dtype, self.chunks)


class GroupStarts(NamedTuple):
    """Say where groups begin."""

    starts: list[int]  # number of keys before each group
    groups: list[int]  # the groups that have keys
    firsts: list[Any]  # the first keys of these, as they are joined, and of an interpolation the values at them


class Bundle(NamedTuple):
    """Hold sorted needles."""

    run: Run  # the needles in transit, and their positions in the bundle
    cuts: list[int]  # the first needle for each group, and the number of needles
    shapes: tuple[tuple[int, ...], ...]  # of the chunks


def look_up_chunk(found: SortedKeys, block: Any, declared: DeclaredChunk, question: Question) -> Any:
    """Task: what is wanted of the needles of a chunk, in its shape."""
    return look_up(found, declared.check(block), question)


@dataclass(frozen=True)
class KeysInGang:
    """Look needles up in a gang that gathers the keys (see `gang.gather.Reading`)."""

    question: Question
    sizes: tuple[Size, ...]  # of the chunks of keys
    declared: tuple[DeclaredChunk, ...]  # of the needles

    def check(self, chunk: Any, number: int) -> None:
        """Check a chunk of the keys."""
        check_keys(chunk, number, self.question)

    def join(self, chunks: list[Any]) -> SortedKeys:
        """Join all keys."""
        with ops_for(chunks[0]).exclusive():
            return join_keys(chunks, self.question, self.sizes)

    def read(self, found: SortedKeys, block: Any, number: int) -> Any:
        """Look the needles of a chunk up."""
        return look_up_chunk(found, block, self.declared[number], self.question)


def look_up_bundle(
    found: SortedKeys, blocks: list[Any], declared: list[DeclaredChunk], question: Question
) -> tuple[Any, ...]:
    """Task: what is wanted of the needles of neighbouring chunks, in their shapes."""
    parts = [one.check(block).reshape(-1) for block, one in zip(blocks, declared, strict=True)]
    whole = parts[0] if len(parts) == 1 else ops_for(blocks[0]).concatenate(parts)
    return in_shapes(look_up(found, whole, question), [block.shape for block in blocks])


def in_shapes(array: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Parts of an array, one for each shape."""
    ends = pairwise(accumulate(map(math.prod, shapes), initial=0))
    return tuple(array[slice(*end)].reshape(shape) for end, shape in zip(ends, shapes, strict=True))


def group_ends(found: SortedKeys) -> tuple[int, list[Any]]:
    """Task: the number of keys of a group, and if it has one the first, with the value at it."""
    return len(found[0]), [complete(one[:1].copy()) for one in found if one is not None]


def scan_groups(ends: list[tuple[int, list[Any]]]) -> GroupStarts:
    """Task: where groups begin."""
    sizes = [size for size, _ in ends]
    groups = [group for group, size in enumerate(sizes) if size]
    columns = zip(*(first for _, first in ends), strict=True)
    firsts = [complete(ops_for(column[0]).concatenate(column)) for column in columns]
    return GroupStarts(list(accumulate(sizes, initial=0)), groups, firsts)


def sort_needles(blocks: list[Any], declared: list[DeclaredChunk], scan: GroupStarts, question: Question) -> Bundle:
    """Task: sort the needles of a bundle, and cut them where groups begin."""
    run, shapes = sort_bundle(blocks, declared, question)
    return Bundle(run, cut_bundle(run.keys, scan, question), shapes)


def sort_bundle(
    blocks: list[Any], declared: list[DeclaredChunk], question: Question
) -> tuple[Run, tuple[tuple[int, ...], ...]]:
    """The needles of a bundle, sorted, with their positions, and the shapes of its chunks."""
    checked = [one.check(block) for block, one in zip(blocks, declared, strict=True)]
    ops = ops_for(blocks[0])
    needles = ops.concatenate([question.in_transit(block) for block in checked])
    run = ops.local_sort(needles, (), question.transit, positions=True)
    complete(run.keys)
    return run, tuple(block.shape for block in blocks)


def cut_bundle(needles: Any, scan: GroupStarts, question: Question) -> list[int]:
    """Find the first needle for each group, and the number of needles, which are sorted."""
    # A needle belongs to the last group that has a key before its rank. All groups before it have keys that are no
    # greater, and all after it none that count.
    #
    # From the left, keys less than the needle are before its rank: the needle is greater than the group's first key.
    side: Side = "right" if question.side == "left" else "left"
    firsts = question.in_transit(scan.firsts[0]) if question.interpolation else scan.firsts[0]
    begins = ops_for(needles).rank(needles, firsts, question.transit, side).tolist()[1:]
    return _spread(begins, scan, len(needles))


def _spread(begins: Sequence[int], scan: GroupStarts, needles: int) -> list[int]:
    """The first needle for each group, from those of the groups with keys but the first; empty groups get none."""
    own = dict(zip(scan.groups, [0, *begins], strict=False))
    cuts, following = [needles], needles
    for group in reversed(range(len(scan.starts) - 1)):
        following = own.get(group, following)
        cuts.append(following)
    # Needles before all groups with keys belong to the first group.
    return [0, *cuts[::-1][1:]]


def cut_needles(bundle: Bundle, group: int) -> Any:
    """Task: the needles of a bundle for a group, a view."""
    start, stop = bundle.cuts[group : group + 2]
    return bundle.run.keys[start:stop]


def look_up_piece(
    found: SortedKeys, needles: Any, scan: GroupStarts, group: int, question: Question, ordered: bool = True
) -> Any:
    """Task: what is wanted of needles whose ranks are in a group; `ordered` says whether they are sorted."""
    keys, ops = found[0], ops_for(needles)
    if question.interpolation is not None:
        decoded = ops.decode(needles.copy(), question.order)
        return complete(_interpolated(found, decoded, scan, group, question.interpolation))
    rank = ops.rank_sorted if ordered else ops.rank
    wanted = wanted_of(keys, needles, rank(keys, needles, question.transit, question.side), question)
    return complete(wanted + scan.starts[group] if question.is_rank else wanted)


def _interpolated(found: SortedKeys, needles: Any, scan: GroupStarts, group: int, between: Interpolation) -> Any:
    """The values at needles that belong to a group."""
    if not len(needles):
        return found[1][:0]  # the group may be empty, where NumPy refuses to interpolate
    last, values = [one[-1:] for one in found], between.at(needles, *found)
    if scan.starts[-1] > 1:
        # Needles behind the last key are between it and the first key of the next group that has one. NumPy gives NaN
        # for NaN if there are at least two keys: behind the last group its last key is repeated.
        number = bisect_right(scan.groups, group)
        following = [one[number : number + 1] for one in scan.firsts] if number < len(scan.groups) else last
        behind = (needles > last[0]) | (needles != needles)
        values[behind] = between.at(needles[behind], *map(concatenate, zip(last, following, strict=True)))
    return values


def scatter_found(bundle: Bundle, pieces: list[Any]) -> tuple[Any, ...]:
    """Task: bring what was found for a bundle into the order and the shapes of its chunks."""
    ops = ops_for(pieces[0])
    found = ops.concatenate(pieces)
    if len(found) != len(bundle.run):
        raise changed_source(f"{len(found)} needles were looked up, of {len(bundle.run)} in a bundle")
    scattered = ops.empty(found.dtype, found.shape)
    scattered[bundle.run.values[0].astype(np.int64, copy=False)] = found
    return in_shapes(complete(scattered), bundle.shapes)
