"""Launches that merge listed runs (``merge_runs.cu``, ``merge_parts.cu``): k sorted runs to one, in rounds of pairs.

::

    runs   r0   r1   r2   r3   r4          anywhere in memory, ragged, some empty
            └─┬──┘    └─┬──┘    │          round 1: all pairs in one launch of parts of even size
              └────┬────┘       │          round 2
                   └──────┬─────┘          round 3: into the result

Memory beyond input and output: one copy of the keys (none for two runs), and 64 bytes a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .keys.dtypes import device_key
from .keys.less import by_expression
from .keys.transform import gather
from .launch.array_checks import INDEX_LIMIT
from .launch.launch import Launch
from .launch.loader import require_cupy
from .merge.merge_sort import PART_BYTES, PARTS_SOURCE, merge_instance, plan_blocks
from .policy import merge_tuning
from .wide import word_sort

SOURCE = "merge/merge_runs.cu"
CODE_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
MOST_WORDS = 4  # wider keys are sorted again: few fit a block, and comparing them costs more than moving positions


@dataclass(frozen=True)
class Types:
    """What a merge moves and how it compares: C++ names, and bytes."""

    code: str
    code_bytes: int
    value: str
    value_bytes: int
    less: str
    expression: str | None = None


@dataclass(frozen=True)
class Piece:
    """One run: addresses of its keys and values (0: none yet), and how many they are."""

    keys: int
    values: int
    size: int


def merge_runs(
    runs: Sequence[Any],
    companions: Sequence[Sequence[Any]] = (),
    *,
    ties_of: Any = None,
    descending: bool = False,
    less: str | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """Merge sorted runs into one, stably in the order of the runs.

    Parameters
    ----------
    runs : sequence of cupy.ndarray, each of shape (n,) or (n, words)
        Ascending unsigned codes of 1 to 8 bytes, or rows of uint64 words, the most significant first; contiguous, one
        dtype. Slices of one array will do.
    companions : sequence of sequences of cupy.ndarray
        For each companion its rows, run by run; moved with the keys. One companion of 4 or 8 bytes travels with the
        keys, others are gathered.
    ties_of : dtype, optional
        Codes of this dtype whose keys NumPy calls equal (signed zeros, NaNs) are equal: the earlier run goes first.
    descending : bool
        Of the codes of `ties_of`.
    less : str, optional
        As for `comparing.sort_by_comparison`: the runs are then keys of the user, sorted by this expression.

    Returns
    -------
    keys : cupy.ndarray, shape (sum of n,) or (sum of n, words)
    companions : tuple of cupy.ndarray

    Raises
    ------
    ValueError
        No runs, runs of different kinds, or companions that do not fit them.
    TypeError
        Keys that are neither unsigned codes nor rows of words.

    References
    ----------
    Odeh, Green, Mwassi, Shmueli, Birk, Merge Path, IPDPS workshops 2012; Satish, Harris, Garland, section 5.
    """
    check_runs(runs, companions, coded=less is None)
    total = sum(len(run) for run in runs)
    if total == 0 or len(runs) == 1 or wide_rows(runs[0]):
        return sort_again(runs, companions)
    carried = companions[0] if len(companions) == 1 and can_travel(companions[0]) else None
    position_bytes = 4 if total < INDEX_LIMIT else 8
    value_bytes = carried[0].itemsize if carried else position_bytes if companions else 0
    types = choose_types(runs[0], value_bytes, ties_of, descending, less)
    keys, moved = merge_rounds(types, runs, carried, total)
    if carried:
        return keys, (moved.view(carried[0].dtype),)
    cupy = require_cupy()
    return keys, tuple(gather(cupy.concatenate(companion), moved) for companion in companions)


def prefers_merging(num_runs: int, key_bytes: int) -> bool:
    """Whether sorted runs are merged faster than their keys are sorted again.

    Parameters
    ----------
    num_runs : int
    key_bytes : int
        Bytes of a key, all its words included.
    """
    return num_runs <= merge_tuning.MOST_MERGED_RUNS.get(key_bytes, merge_tuning.MOST_MERGED_WIDE_RUNS)


def check_runs(runs: Sequence[Any], companions: Sequence[Sequence[Any]], coded: bool) -> None:
    """Raise unless runs and companions can be merged."""
    if not runs:
        raise ValueError("there are no runs to merge; give one at least.")
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


def wide_rows(run: Any) -> bool:
    """Whether keys have more words than the kernels merge (or none at all)."""
    return run.ndim == 2 and not 1 <= run.shape[1] <= MOST_WORDS


def can_travel(companion: Sequence[Any]) -> bool:
    """Whether a companion's rows can be moved with the keys by the kernels."""
    return all(p.ndim == 1 and p.itemsize in (4, 8) and p.dtype == companion[0].dtype for p in companion) and all(
        part.flags.c_contiguous for part in companion
    )


def choose_types(run: Any, value_bytes: int, ties_of: Any, descending: bool, less: str | None) -> Types:
    """C++ names for a merge."""
    value = {0: "NoValue", 4: "u32", 8: "u64"}[value_bytes]
    if less is not None:
        by_less = by_expression(run.dtype, less, False)
        return Types(by_less.code, by_less.code_bytes, value, value_bytes, by_less.less, less)
    if run.ndim == 2:
        return Types(f"Words<{run.shape[1]}>", 8 * run.shape[1], value, value_bytes, "NaturalLess")
    compare = "NaturalLess"
    if ties_of is not None and device_key(ties_of, descending).has_ties:
        compare = f"CanonicalLess<{device_key(ties_of, descending).order}>"
    return Types(CODE_TYPES[run.itemsize], run.itemsize, value, value_bytes, compare)


def sort_again(runs: Sequence[Any], companions: Sequence[Sequence[Any]]) -> tuple[Any, tuple[Any, ...]]:
    """Runs that need no merging, or too wide for it, as one."""
    cupy = require_cupy()
    keys = cupy.concatenate(runs)
    rows = tuple(cupy.concatenate(companion) for companion in companions)
    if len(runs) == 1 or len(keys) == 0:
        return keys, rows
    positions = word_sort.argsort_words(keys)
    return keys[positions], tuple(gather(row, positions) for row in rows)


def merge_rounds(types: Types, runs: Sequence[Any], values: Sequence[Any] | None, total: int) -> tuple[Any, Any]:
    """All rounds; the merged keys, and the merged values or positions."""
    cupy = require_cupy()
    pieces = [
        Piece(run.data.ptr, 0 if values is None else values[i].data.ptr, len(run))
        for i, run in enumerate(runs)
        if len(run)
    ]
    rounds = max(1, (len(pieces) - 1).bit_length())
    shape = (total, *runs[0].shape[1:])
    keys = [cupy.empty(shape if used else 0, runs[0].dtype) for used in (True, rounds > 1)]
    moved = [None, None]
    if types.value_bytes:
        moved = [cupy.empty(array.size and total, f"u{types.value_bytes}") for array in keys]
    tables = []
    for step in range(rounds):
        slot = (rounds - 1 - step) % 2
        table, pieces = pair_pieces(types, pieces, keys[slot], moved[slot])
        tables.append((table, slot))
    uploaded = cupy.asarray(np.concatenate([table for table, _ in tables]))
    first = 0
    for table, slot in tables:
        launch_round(types, uploaded[first : first + len(table)], table, keys[slot], moved[slot])
        first += len(table)
    return keys[0], moved[0]


def pair_pieces(types: Types, pieces: list[Piece], keys: Any, moved: Any) -> tuple[Any, list[Piece]]:
    """The table of one round, and the runs it leaves.

    Returns
    -------
    table : uint64 array, shape (pairs, 8)
        A `Pair` of merge_parts.cuh a row.
    merged : list of Piece
    """
    part_keys = merge_tuning.merge_shape(types.code_bytes, types.value_bytes).keys
    rows, merged, out, part = [], [], 0, 0
    for p in range(0, len(pieces), 2):
        a, b = pieces[p], pieces[p + 1] if p + 1 < len(pieces) else Piece(0, 0, 0)
        rows.append((a.keys, b.keys, a.values, b.values, a.size, b.size, out, part))
        values = 0 if moved is None else moved.data.ptr + out * types.value_bytes
        merged.append(Piece(keys.data.ptr + out * types.code_bytes, values, a.size + b.size))
        out += a.size + b.size
        part += -(-(a.size + b.size) // part_keys)
    return np.array(rows, np.uint64), merged


def launch_round(types: Types, pairs: Any, table: Any, keys: Any, moved: Any) -> None:
    """Plan and merge all pairs of a round."""
    shape = merge_tuning.merge_shape(types.code_bytes, types.value_bytes)
    last = table[-1]
    count = int(last[7]) + -(-int(last[4] + last[5]) // shape.keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    split = f"split_listed_runs<{types.code}, {types.value}, {types.less}, {shape.keys}>"
    arguments = (pairs, np.uint64(len(table)), parts, np.uint64(count))
    Launch(SOURCE, split, plan_blocks(count), merge_tuning.PLAN_THREADS, arguments, expression=types.expression).run()
    sink = f"Plain<{types.code}, {types.value if types.value_bytes else 'u32'}>"
    merge = merge_instance(sink, types.code, types.value, types.less, shape)
    shared = shape.shared_bytes(types.code_bytes, types.value_bytes)
    Launch(PARTS_SOURCE, merge, count, shape.threads, (parts, keys, moved), shared, expression=types.expression).run()
