"""Merging of sorted runs into one, in rounds of pairs (``merge.cu``).

::

    runs   r0   r1   r2   r3   r4          anywhere in memory, of any sizes
            └─┬──┘    └─┬──┘    │          round 1: all pairs in one launch, cut into parts of equal size
              └────┬────┘       │          round 2
                   └──────┬─────┘          round 3: into the result

Memory beyond input and output: one copy of the keys (none for two runs), and 64 bytes per part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .keys.dtypes import USER_LESS, by_expression, device_key
from .keys.transform import gather, search_ranks
from .launch.arrays import INDEX_LIMIT, check_array, check_indexable, prepare_out, type_of_bytes
from .launch.launch import Launch, blocks_for, instance
from .launch.loader import require_cupy
from .merge import merge_sort
from .merge.merge_sort import PART_BYTES, SOURCE, MergeTypes, plan_blocks
from .policy import tuning
from .wide import word_sort

WORD_BYTES = 8
MOST_WORDS = 4  # wider keys are sorted again: few fit a block, and comparing them costs more than moving positions
TRAVELLING_BYTES = (4, 8)  # of companions that travel with the keys
THREADS = 256


@dataclass(frozen=True)
class RunSlice:
    """One run: addresses of its keys and values (0: no values), and its size in keys."""

    keys: int
    values: int
    size: int


@dataclass(frozen=True)
class Round:
    """One round of merging: a `Pair` of ``merge_tile.cuh`` per row, their parts, and the output of the two."""

    pairs: Any
    parts: int
    slot: int


def merge_runs(
    runs: Sequence[Any],
    companions: Sequence[Sequence[Any]] = (),
    *,
    ties_of: Any = None,
    descending: bool = False,
    less: str | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """Merge sorted runs of codes, or of rows of words, the most significant first, into one, in the order of the runs.

    Runs are contiguous and of one dtype, perhaps slices of one array; companions have their rows run by run.
    """
    # A single companion of 4 or 8 bytes moves with the keys in the merge, others are gathered at the end. With
    # `ties_of`, the keys' dtype, keys that NumPy calls equal compare equal, and the earlier run goes first;
    # `descending` says whether its codes are those of a descending sort. With `less`, as for
    # `sort_by_comparison`, the runs are the user's keys.
    #
    # Odeh, Green, Mwassi, Shmueli, Birk, Merge Path, IPDPS workshops 2012; Green, McColl, Bader, GPU Merge Path, ICS
    # 2012; Satish, Harris, Garland, IPDPS 2009, section 5.
    check_runs(runs, companions, coded=less is None)
    total = sum(len(run) for run in runs)
    if total == 0 or len(runs) == 1 or is_too_wide(runs[0]):
        return concatenate_and_sort(runs, companions)
    carried = companions[0] if len(companions) == 1 and can_travel(companions[0]) else None
    position_bytes = 4 if total < INDEX_LIMIT else 8
    value_bytes = carried[0].itemsize if carried else position_bytes if companions else 0
    types = choose_types(runs[0], value_bytes, ties_of, descending, less)
    keys, payload = merge_rounds(types, runs, carried)
    if carried:
        return keys, (payload.view(carried[0].dtype),)
    cupy = require_cupy()
    return keys, tuple(gather(cupy.concatenate(companion), payload) for companion in companions)


def prefers_merging(num_runs: int, key_bytes: int) -> bool:
    """Tell whether sorted runs are merged faster than their keys, all words included, are sorted again."""
    return num_runs <= tuning.MOST_MERGED_RUNS.get(key_bytes, tuning.MOST_MERGED_WIDE_RUNS)


def check_runs(runs: Sequence[Any], companions: Sequence[Sequence[Any]], coded: bool) -> None:
    """Raise `ValueError` or `TypeError` unless runs and companions can be merged."""
    if not runs:
        raise ValueError("there are no runs to merge; give at least one.")
    first = runs[0]
    is_code = first.dtype.kind == "u" if first.ndim == 1 else first.ndim == 2 and first.dtype == np.uint64
    if coded and not is_code:
        raise TypeError(f"runs are {first.dtype} of {first.ndim} dimensions; give unsigned codes, or rows of uint64.")
    for run in runs:
        if run.dtype != first.dtype or run.shape[1:] != first.shape[1:] or not run.flags.c_contiguous:
            raise ValueError(f"a run is {run.dtype} of shape {run.shape}; give contiguous runs like the first one.")
    for companion in companions:
        if [len(part) for part in companion] != [len(run) for run in runs]:
            raise ValueError(f"a companion's rows, {[len(p) for p in companion]}, are not those of the runs.")


def is_too_wide(run: Any) -> bool:
    """Tell whether keys are rows of more words than the kernels merge, or of none."""
    return run.ndim == 2 and not 1 <= run.shape[1] <= MOST_WORDS


def can_travel(companion: Sequence[Any]) -> bool:
    """Tell whether the kernels can move a companion's rows with the keys."""
    first = companion[0]
    return all(
        part.ndim == 1 and part.itemsize in TRAVELLING_BYTES and part.dtype == first.dtype and part.flags.c_contiguous
        for part in companion
    )


def choose_types(run: Any, value_bytes: int, ties_of: Any, descending: bool, less: str | None) -> MergeTypes:
    """Choose the C++ types for merging runs like `run`; parameters as `merge_runs`."""
    value = type_of_bytes(value_bytes)
    if less is not None:
        by_less = by_expression(run.dtype, less)
        return MergeTypes(by_less.code, by_less.code_bytes, value, USER_LESS, less)
    if run.ndim == 2:
        return MergeTypes(f"Words<{run.shape[1]}>", WORD_BYTES * run.shape[1], value, "NaturalLess")
    compare = "NaturalLess"
    if ties_of is not None and device_key(ties_of, descending).has_ties:
        compare = f"CanonicalLess<{device_key(ties_of, descending).order}>"
    return MergeTypes(type_of_bytes(run.itemsize), run.itemsize, value, compare)


def concatenate_and_sort(runs: Sequence[Any], companions: Sequence[Sequence[Any]]) -> tuple[Any, tuple[Any, ...]]:
    """Concatenate runs, and sort them if there are several: for keys too wide to merge."""
    cupy = require_cupy()
    keys = cupy.concatenate(runs)
    rows = tuple(cupy.concatenate(companion) for companion in companions)
    if len(runs) == 1 or len(keys) == 0:
        return keys, rows
    positions = word_sort.argsort_words(keys)
    return keys[positions], tuple(gather(row, positions) for row in rows)


def merge_rounds(types: MergeTypes, runs: Sequence[Any], values: Sequence[Any] | None) -> tuple[Any, Any]:
    """Run all rounds; returns the merged keys, and the merged values or positions."""
    cupy = require_cupy()
    slices = [
        RunSlice(run.data.ptr, 0 if values is None else values[i].data.ptr, len(run))
        for i, run in enumerate(runs)
        if len(run)
    ]
    num_rounds = max(1, (len(slices) - 1).bit_length())
    total = sum(map(len, runs))
    shape = (total, *runs[0].shape[1:])
    others = [cupy.empty(shape if num_rounds > 1 else 0, runs[0].dtype)]
    keys = [cupy.empty(shape, runs[0].dtype), *others]
    payloads = [None, None]
    if types.value_bytes:
        dtype = np.dtype(f"u{types.value_bytes}")
        payloads = [cupy.empty(total, dtype), cupy.empty(others[0].size and total, dtype)]
    rounds = []
    for number in reversed(range(num_rounds)):
        slot = number % 2  # the last round writes the first of the two
        pairs, parts, slices = pair_slices(types, slices, keys[slot], payloads[slot])
        rounds.append(Round(pairs, parts, slot))
    uploaded = cupy.asarray(np.concatenate([each.pairs for each in rounds]))
    first = 0
    for each in rounds:
        end = first + len(each.pairs)
        launch_round(types, uploaded[first:end], each.parts, keys[each.slot], payloads[each.slot])
        first = end
    return keys[0], payloads[0]


def pair_slices(types: MergeTypes, slices: list[RunSlice], keys: Any, payload: Any) -> tuple[Any, int, list[RunSlice]]:
    """Pair the runs of one round, and give a `Pair` of ``merge_tile.cuh`` per row, the parts, and the merged runs."""
    # `keys` and `payload` (merged values or positions, or None) are the round's outputs.
    part_keys = types.shape.keys
    rows, merged, out, parts = [], [], 0, 0
    for p in range(0, len(slices), 2):
        a, b = slices[p], slices[p + 1] if p + 1 < len(slices) else RunSlice(0, 0, 0)
        rows.append((a.keys, b.keys, a.values, b.values, a.size, b.size, out, parts))
        values = 0 if payload is None else payload.data.ptr + out * types.value_bytes
        merged.append(RunSlice(keys.data.ptr + out * types.code_bytes, values, a.size + b.size))
        out += a.size + b.size
        parts += blocks_for(a.size + b.size, part_keys)
    return np.array(rows, np.uint64), parts, merged


def launch_round(types: MergeTypes, pairs: Any, count: int, keys: Any, payload: Any) -> None:
    """Plan `count` parts of all pairs of a round, and merge them."""
    shape = types.shape
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    split = instance("split_listed_runs", types.code, types.value, types.less, shape.keys)
    types.plan(SOURCE, split, plan_blocks(count), (pairs, np.uint64(len(pairs)), parts, np.uint64(count)))
    sink = instance("Plain", types.code, types.value if types.value_bytes else "u32")
    types.launch("merge_parts", (sink, types.code), shape, count, parts, keys, payload)


def sort_by_comparison(keys: Any, *, less: str, out: Any = None) -> Any:
    """Sort contiguous keys stably by a strict weak order: a CUDA C++ expression that is true where ``a`` comes first.

    If it is no such order, the result holds keys of the input in no useful order, some perhaps missing or repeated.
    `out` may be `keys`, which have a radix dtype but float16, or are complex128.
    """
    # Odeh et al., IPDPS workshops 2012.
    check_array(keys, "keys")
    out, comparison = prepare_out(out, keys.shape, keys.dtype), by_expression(keys.dtype, less)
    if keys.size:
        spare = require_cupy().empty(keys.size, keys.dtype)
        merge_sort.sort(comparison, keys, merge_sort.Buffers([spare, out], [None, None], out, None))
    return out


def argsort_by_comparison(keys: Any, *, less: str, out: Any = None) -> Any:
    """Find the int64 positions that sort the keys by comparing them, stably, as `sort_by_comparison` does."""
    cupy = require_cupy()
    check_array(keys, "keys")
    check_indexable(keys.size)
    out, comparison = prepare_out(out, keys.shape, np.int64), by_expression(keys.dtype, less)
    if keys.size:
        codes = [cupy.empty(keys.size, keys.dtype) for _ in range(2)]
        positions = [cupy.empty(keys.size, np.uint32) for _ in range(2)]
        merge_sort.sort(comparison, keys, merge_sort.Buffers(codes, positions, None, out))
    return out


def compare_elements(first: Any, second: Any, less: str) -> Any:
    """Test, element by element of one dtype, whether a key comes before another by an expression."""
    check_same_dtype(first, second)
    comparison = by_expression(first.dtype, less)
    before = require_cupy().empty(first.size, np.bool_)
    name = instance("compare_elements", comparison.code, USER_LESS)
    arguments = (first, second, before, np.uint64(first.size))
    Launch(SOURCE, name, blocks_for(first.size, THREADS), THREADS, arguments, expression=less).run()
    return before


def check_same_dtype(first: Any, second: Any) -> None:
    """Raise `TypeError` or `ValueError` unless these are two arrays of keys of one dtype."""
    check_array(first, "keys")
    check_array(second, "needles")
    if first.dtype != second.dtype:
        raise ValueError(f"`needles` are {second.dtype} and `keys` {first.dtype}; give one dtype.")


def search_by_comparison(keys: Any, needles: Any, side: str, less: str) -> Any:
    """Rank needles among keys that are sorted by an expression, as `numpy.searchsorted`, into int64."""
    check_same_dtype(keys, needles)
    comparison = by_expression(keys.dtype, less)
    return search_ranks(SOURCE, "search_compared", (comparison.code, USER_LESS), keys, needles, side, expression=less)
