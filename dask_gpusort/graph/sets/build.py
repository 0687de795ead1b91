"""From checked arguments to distinct values, inverses and sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...chunk.distinct import Columns
from ...chunk.tie_groups import are_nan
from ..collection import Output, new_arrays
from ..global_sort import Want, global_sort, joins_rows
from ..inputs import flatten
from ..options import Options
from ..rechunk import rechunk
from .local import OF_KEYS, local_distinct
from .number import Numbered, Numbering
from .spread import spread_back

#: Which tie groups of two sides are kept: all, those of both sides, of the first side alone, or of one side alone.
Keep = Literal["all", "both", "first", "one"]


@dataclass(frozen=True)
class OfGroups:
    """Makes an array of one element for each tie group that begins in a chunk and is kept.

    Attributes
    ----------
    what : {"values", "counts", "firsts"}
    keep : Keep
    side : int
        The side of counts and firsts.
    """

    what: Literal["values", "counts", "firsts"]
    keep: Keep = "all"
    side: int = 0

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
        return np.concatenate([found[kept], *twice])


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


def absent(numbered: Numbered) -> Any:
    """Whether the second side lacks each key, as it lacks every NaN."""
    return (numbered.counts[1] == 0)[numbered.groups.numbers] | numbered.nans


def count_begun(numbered: Numbered) -> Any:
    """The number of tie groups that begin in a chunk, shape (1,)."""
    groups, offset = numbered.groups, numbered.offset
    return np.full_like(groups.bounds, groups.count - offset.continued, shape=(1,))


@dataclass(frozen=True)
class SortedDistinct:
    """The distinct keys of all chunks, sorted.

    Attributes
    ----------
    columns : dict of str to dask array
        The "values", and their companions "chunks", "counts" and "firsts" where these are wanted.
    of_keys : dict of str to dask array
        The "inverse" and the "repeats" of each key, in the input's chunks, where these are wanted.
    equal_nan : bool
    """

    columns: dict[str, Any]
    of_keys: dict[str, Any]
    equal_nan: bool

    def number(
        self,
        outputs: Sequence[Callable[[Numbered], Any]],
        dtypes: Sequence[Any],
        second: int | None = None,
        **options: bool,
    ) -> tuple[Any, ...]:
        """Arrays of what some functions make of the tie groups of each sorted chunk, in chunks of unknown sizes.

        Parameters
        ----------
        outputs : sequence of callable(Numbered)
        dtypes : sequence of numpy.dtype
            Of their results.
        second, options
            As in `Numbering`.
        """
        arrays = list(self.columns.values())
        sizes = ((math.nan,) * arrays[0].numblocks[0],)
        recipe = Numbering(
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


def sorted_distinct(array: Any, columns: Columns, equal_nan: bool) -> SortedDistinct:
    """The sorted distinct keys of an array of any dimensions.

    Raises
    ------
    TypeError
        If CuPy chunks of its dtype cannot be sorted.
    """
    options = Options(stable=True)
    keys = options.keys(array, "both")
    options.request("both", keys)
    found = local_distinct(array, keys.order, columns, equal_nan)
    of_keys = {name: found.pop(name) for name in OF_KEYS if name in found}
    if found["values"].numblocks[0] > 1:
        found = _sorted(options, found, array.size)
    return SortedDistinct(found, of_keys, equal_nan)


def _sorted(options: Options, columns: dict[str, Any], most_keys: float) -> dict[str, Any]:
    """The columns, sorted by the values; the chunks are sorted already, and have no more keys than the input."""
    values, *others = columns.values()
    want: Want = "both" if others else "keys"
    keys = options.keys(values, "both")
    presorted = ((0, values.numblocks[0]),)
    found = global_sort(
        replace(options.request(want, keys), most_keys=most_keys), keys, others, values.chunks[0], presorted
    )
    return dict(zip(columns, found, strict=True))


@dataclass(frozen=True)
class Unique:
    """What `unique` gives besides the values, and how NaN compare."""

    index: bool = False
    inverse: bool = False
    counts: bool = False
    equal_nan: bool = True


def in_one_chunk(array: Any) -> Any:
    """The array in one chunk, where one GPU holds all of it and what a sort needs: then nothing is exchanged."""
    options = Options(stable=True)
    keys = options.keys(array, "both")
    if math.prod(array.numblocks) == 1 or not joins_rows(options.request("both", keys), keys, ()):
        return array
    return rechunk(array, dict.fromkeys(range(array.ndim), -1))


def build_unique(array: Any, wanted: Unique) -> tuple[Any, ...]:
    """The distinct values of an array, then what is wanted of them, in NumPy's order: index, inverse, counts."""
    # The first of equal keys is the first in C order.
    source = in_one_chunk(flatten(array, None)[0] if wanted.index else array)
    if math.prod(source.numblocks) == 1:
        return _unique_of_one_chunk(array, source, wanted)
    columns = Columns(origins=wanted.inverse, counts=wanted.counts, firsts=wanted.index, inverse=wanted.inverse)
    found = sorted_distinct(source, columns, wanted.equal_nan)
    makes: dict[str, Callable[[Numbered], Any]] = {"values": OfGroups("values")}
    if wanted.index:
        makes["index"] = OfGroups("firsts")
    if wanted.inverse:
        makes["inverse"] = numbers
    if wanted.counts:
        makes["counts"] = OfGroups("counts")
    dtypes = [array.dtype, *[np.dtype(np.int64)] * (len(makes) - 1)]
    made = dict(zip(makes, found.number(list(makes.values()), dtypes, counted=wanted.counts), strict=True))
    if wanted.inverse:
        flat = spread_back(made["inverse"], found.columns["chunks"], [found.of_keys["inverse"]])
        made["inverse"] = _shaped_as(flat, array)
    return tuple(made.values())


def _unique_of_one_chunk(array: Any, source: Any, wanted: Unique) -> tuple[Any, ...]:
    """The same of an array whose keys are in one chunk: `source`."""
    columns = Columns(counts=wanted.counts, firsts=wanted.index, inverse=wanted.inverse)
    options = Options(stable=True)
    keys = options.keys(source, "both")
    options.request("both", keys)
    found = local_distinct(source, keys.order, columns, wanted.equal_nan)
    if wanted.inverse:
        inverse = found["inverse"]
        wide = inverse.astype(np.int64)
        found["inverse"] = _shaped_as(wide, array)
    return tuple(found[name] for name in ("values", "firsts", "inverse", "counts") if name in found)


def _shaped_as(found: Any, array: Any) -> Any:
    """The array in the shape and the chunks of another one."""
    shaped = found if found.ndim == array.ndim else found.reshape(array.shape)
    return shaped if shaped.numblocks == array.numblocks else shaped.rechunk(array.chunks)


def build_nunique(array: Any, equal_nan: bool) -> Any:
    """The number of distinct values, a dask array of shape ()."""
    found = sorted_distinct(in_one_chunk(array), Columns(), equal_nan)
    (counts,) = found.number([count_begun], [np.dtype(np.int64)])
    return counts.map_blocks(_as_known, chunks=((1,) * counts.numblocks[0],), dtype=np.int64, meta=counts._meta).sum()


def _as_known(block: Any) -> Any:
    """Task: a chunk whose size is known, other than that of its array."""
    return block
