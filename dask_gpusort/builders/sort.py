"""From checked arguments to output arrays: one function for each public one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..graph.explain import note
from ..graph.inputs import companion, concatenate_inputs, flat_plan, flatten, output_chunks
from .global_sort import global_sort, shortage_of
from .request import Keys, Options, Request, Want, lexsort_keys
from .rows import is_ordered, sort_rows
from .staging import Staging, staging


def build_sort(
    options: Options, want: Want, array: Any, values: Sequence[Any] = (), axis: int | None = None, chunks: Any = None
) -> tuple[Any, ...]:
    """Sort an array and its companions along an axis, flat if None, into chunks as for `dask_gpusort.sort`."""
    # With a key function, "keys" and "both" give values alone, and the array is the first of them.
    note(flat_plan(array, axis))
    array, axis = flatten(array, axis)
    if options.key is not None and want != "positions":
        want, values = "values", (array, *values)
    with staging(options.device, array, nat_last=options.nat_last) as copies:
        copies, keys, staged = _stage(options, copies, array, values, want)
        note(copies.stated(array))
        found = _sort_keys(_request(options, copies, want, keys), keys, staged, axis, chunks)
        if want == "positions":
            return (copies.to_host(found[0], array, np.dtype(np.int64)),)
        inputs = values if want == "values" else (array, *values)
        return tuple(copies.to_host(out, own, own.dtype) for out, own in zip(found, inputs, strict=True))


def _stage(
    options: Options, copies: Staging, array: Any, values: Sequence[Any], want: Want
) -> tuple[Staging, Keys, list[Any]]:
    """The staging, and the keys and the values where it has them; a key function takes the user's chunks."""
    keys = options.keys(array, want)
    if copies.device is None:
        return copies, keys, list(values)
    copies = _limited(options, copies, want, keys, values)
    keys = options.keys(copies.to_device(array), want) if options.key is None else copies.keys_to_device(keys)
    return copies, keys, [copies.to_device(value) for value in values]


def _stage_several(
    options: Options,
    copies: Staging,
    want: Want,
    arrays: Sequence[Any],
    directions: Sequence[bool],
    names: Sequence[str] | None = None,
    values: Sequence[Any] = (),
) -> tuple[Staging, Keys]:
    """As `_stage` does, of several keys, the last one most significant, and without the values."""
    if copies.device is not None:
        copies = _limited(options, copies, want, lexsort_keys(arrays, directions, names), values)
    turned = [replace(copies, nat_last=not descending) for descending in directions]
    staged = [own.to_device(array) for own, array in zip(turned, arrays, strict=True)]
    return copies, lexsort_keys(staged, directions, names)


def _limited(options: Options, copies: Staging, want: Want, keys: Keys, values: Sequence[Any] = ()) -> Staging:
    """The staging of these keys and values: with the shortage of memory, if there is one."""
    if copies.runtime.library == "cupy":
        return copies
    request = Request(keys.order, want, options.method, copies.runtime, options.exchange)
    return replace(copies, shortage=shortage_of(request, keys, values))


def _request(options: Options, copies: Staging, want: Want, keys: Keys) -> Request:
    return replace(options.request(want, keys, copies.runtime), staged=copies.shortage is not None)


def build_lexsort(
    options: Options, arrays: Sequence[Any], directions: Sequence[bool], axis: int | None, chunks: Any
) -> Any:
    """Indices that sort by several keys; ``axis=None``: the keys are 0-d, and there is one index."""
    flat = [flatten(array, axis)[0] for array in arrays]
    with staging(options.device, flat[-1], nat_last=True) as copies:
        copies, keys = _stage_several(options, copies, "positions", flat, directions)
        (found,) = _sort_keys(_request(options, copies, "positions", keys), keys, (), axis or 0, chunks)
        found = copies.to_host(found, flat[-1], found.dtype)
    return found[0] if axis is None else found


def build_moved(
    arrays: Sequence[Any], directions: Sequence[bool], values: Sequence[Any], chunks: Any
) -> tuple[Any, ...]:
    """Sort values alone by several one-dimensional keys, the last one most significant."""
    keys = _without_parts(lexsort_keys(arrays, directions))
    return _sort_keys(Options().request("values", keys), keys, values, 0, chunks)


def build_packed(arrays: Sequence[Any], directions: Sequence[bool]) -> Any:
    """Sort several one-dimensional keys alone, packed into one array, the last one most significant."""
    keys = _without_parts(lexsort_keys(arrays, directions))
    return _sort_keys(Options().request("keys", keys), keys, (), 0, None)[0]


def build_sort_by_keys(
    options: Options,
    arrays: Sequence[Any],
    directions: Sequence[bool],
    values: Sequence[Any],
    axis: int,
    chunks: Any,
) -> tuple[Any, ...]:
    """Sort several keys, and values, by the keys, the **first** one most significant.

    By default the outputs have the chunks of the first key.
    """
    names = [f"key {number}" for number in range(len(arrays))][::-1]
    moved = (*arrays, *values)
    with staging(options.device, arrays[0], nat_last=True) as copies:
        given = arrays[::-1], directions[::-1], names, moved
        copies, keys = _stage_several(options, copies, "values", *given)
        keys = _without_parts(keys)
        values = [copies.to_device(one) for one in moved]
        found = _sort_keys(_request(options, copies, "values", keys), keys, values, axis, chunks, -len(arrays))
        return tuple(copies.to_host(out, own, own.dtype) for out, own in zip(found, moved, strict=True))


def _without_parts(keys: Keys) -> Keys:
    """Keys that are packed before the sort: a task that packs parts moves no values, and gives no packed keys."""
    return Keys(keys.array, keys.order)


def _sort_keys(
    request: Request, keys: Keys, values: Sequence[Any], axis: int, chunks: Any, first: int = 0
) -> tuple[Any, ...]:
    """The sort of keys and values; `first` is the number of the first of these, for error messages."""
    template = keys.template
    outputs = output_chunks(template, chunks)
    values = [companion(template, value, number) for number, value in enumerate(values, first)]
    if template.ndim == 1 and (template.numblocks[0] > 1 or request.staged or any(value.ndim > 1 for value in values)):
        return global_sort(request, keys, values, outputs[0])
    return sort_rows(request, keys, values, axis, outputs)


def build_merge(options: Options, arrays: Sequence[Any], chunks: Any) -> Any:
    """Merge one-dimensional arrays of sorted chunks."""
    joined, origins = concatenate_inputs(arrays)
    presorted = tuple((f"array {number}", chunks) for number, chunks in origins)
    want: Want = "keys" if options.key is None else "values"
    with staging(options.device, joined, nat_last=options.nat_last) as copies:
        copies, keys, values = _stage(options, copies, joined, () if options.key is None else (joined,), want)
        sizes = output_chunks(keys.template, chunks)[0]
        (found,) = global_sort(_request(options, copies, want, keys), keys, values, sizes, presorted)
        return copies.to_host(found, joined, joined.dtype)


def build_is_sorted(options: Options, array: Any, axis: int | None) -> Any:
    """Whether an array is sorted along an axis, a dask array of shape ()."""
    array, axis = flatten(array, axis)
    keys = options.keys(array, "positions")
    return is_ordered(options.request("keys", keys), keys, axis)
