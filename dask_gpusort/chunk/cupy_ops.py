"""Every step of the sort on one CuPy chunk: the steps of `numpy_ops`, under the same names.

Keys, codes and companions stay on the device. A round of counting copies some thousand keys to the host. The kind of
order (see `order.Order`) decides how keys are sorted::

    order         keys in transit                    sort
    coded         unsigned codes                     radix sort
    words         rows of uint64                     radix sorts, 64 bits at a time
    complex128    the user's                         radix sorts of two words, each made when needed
    less          the user's                         merge sort by a CUDA C++ expression
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import cupy
import numpy as np

from .. import kernels
from .. import keys as key_codes
from ..chunk import cupy_staging, numpy_less, numpy_ops, numpy_words, summarize, word_layout
from ..order import Order
from ..table import Brackets, Digits, RankSummary, Side
from .cupy_buffers import empty as empty
from .device_memory import gate_of
from .run import Run

#: Keys compared at a time in the search for the first descent: the masks of 2**24 keys take 16 MB of device memory.
_SCANNED_KEYS = 1 << 24
#: Bytes of the widest elements that CuPy copies.
_WIDE_BYTES = 16

check_lengths, key_order = numpy_ops.check_lengths, numpy_ops.key_order


def local_sort(block: Any, values: Sequence[Any], order: Order, *, positions: bool) -> Run:
    """Sort one chunk; see `numpy_ops.local_sort`."""
    check_lengths(block, values)
    keys = cupy.ascontiguousarray(block)
    if not values and not positions:
        return Run(_sort_keys(keys, order))
    if order.coded and len(values) + positions == 1:
        return _sort_pairs(keys, values, order)
    permutation = _argsort(keys, order)
    ordered = kernels.gather(keys, permutation)
    companions = [kernels.gather(cupy.ascontiguousarray(value), permutation) for value in values]
    if positions:
        # Positions fit 32 bits: the kernels sort fewer than 2**32 keys with positions.
        companions.append(permutation.astype(np.uint32))
    return Run(_encode_own(ordered, order), tuple(companions))


def _joined(chunks: Sequence[Any], memory: Any = None) -> tuple[Any, bool]:
    """Chunks end to end along their first dimension, and whether the result is a copy.

    Neighbours in memory, such as slices of one array, are not copied. A copy goes to the start of `memory`, if given.
    """
    if len({(chunk.dtype, chunk.shape[1:]) for chunk in chunks}) > 1:
        return cupy.concatenate(chunks), True
    first = chunks[0]
    ends = accumulate((chunk.nbytes for chunk in chunks), initial=first.data.ptr)
    shape = (sum(map(len, chunks)), *first.shape[1:])
    if all(
        chunk.data.mem is first.data.mem and chunk.data.ptr == end and chunk.flags.c_contiguous
        for chunk, end in zip(chunks, ends, strict=False)
    ):
        return cupy.ndarray(shape, first.dtype, memptr=first.data), False
    memory = cupy.empty(shape, first.dtype) if memory is None else memory
    joined = cupy.ndarray(shape, first.dtype, memptr=memory.data)
    stream, start = cupy.cuda.get_current_stream(), 0
    for chunk in map(cupy.ascontiguousarray, chunks):
        # cupy.concatenate copies element by element: 1.3 ms for 2^28 uint32 keys, this 0.5 ms.
        (joined.data + start).copy_from_device_async(chunk.data, chunk.nbytes, stream)
        start += chunk.nbytes
    return joined, True


def sort_chunks(chunks: Sequence[Any], order: Order) -> Any:
    """Sort the user's keys of several chunks as one array."""
    keys, copied = _joined(chunks)
    if order.coded:
        out = keys if copied else None
        return kernels.sort_keys(keys, descending=order.descending, stable=order.has_ties, out=out)
    if order.less is not None:
        _check_less(keys, order)
        return _require_sorted(kernels.sort_by_comparison(keys, less=_expression(order)), order)
    return kernels.sort_wide(keys, descending=order.descending)


def argsort_chunks(chunks: Sequence[Any], order: Order) -> Any:
    """Stable permutation, int64, that sorts the user's keys of several chunks as one array."""
    if not order.coded:
        return _argsort(_joined(chunks)[0], order)
    # The keys are read before the positions take their place.
    positions = cupy.empty(sum(map(len, chunks)), np.int64)
    return kernels.argsort(_joined(chunks, positions)[0], descending=order.descending, out=positions)


def sort_chunks_by_key(
    chunks: Sequence[Any], values: Sequence[Sequence[Any]], order: Order, *, with_keys: bool
) -> tuple[Any, ...]:
    """The user's keys, if wanted, and each companion, sorted; each is given in several chunks."""
    keys, *companions = (_joined(column)[0] for column in (chunks, *values))
    if order.coded and len(companions) == 1:
        found: tuple[Any, ...] = kernels.sort_pairs(keys, companions[0], descending=order.descending)
        return found if with_keys else found[1:]
    permutation = _argsort(keys, order)
    return tuple(kernels.gather(array, permutation) for array in ((keys, *companions) if with_keys else companions))


def exclusive() -> contextlib.AbstractContextManager[Any]:
    """The whole memory of the current device: sorts that take turns need the scratch memory of one."""
    return gate_of(cupy.cuda.runtime.getDevice()).reserved(1)


def _sort_pairs(keys: Any, values: Sequence[Any], order: Order) -> Run:
    """Sort the user's keys with one companion, or with their positions, in one sort."""
    if not values:
        ordered, companion = kernels.sort_with_positions(keys, descending=order.descending)
    else:
        value = cupy.ascontiguousarray(values[0])
        ordered, companion = kernels.sort_pairs(keys, value, descending=order.descending)
    return Run(_encode_own(ordered, order), (companion,))


def _encode_own(keys: Any, order: Order) -> Any:
    """Encode the user's keys for transit, in the same memory."""
    if not order.coded:
        return keys
    return kernels.encode(keys, order.descending, out=keys.view(f"u{keys.itemsize}"))


def _sort_keys(keys: Any, order: Order) -> Any:
    """Sort the user's keys, and encode them for transit."""
    if order.coded and order.stable and order.has_ties:
        return _encode_own(kernels.sort_keys(keys, descending=order.descending, stable=True), order)
    if order.coded:
        return kernels.sorted_codes(keys, descending=order.descending)
    if order.less is not None:
        _check_less(keys, order)
        return _require_sorted(kernels.sort_by_comparison(keys, less=_expression(order)), order)
    return kernels.gather(keys, _argsort(keys, order))


def _argsort(keys: Any, order: Order) -> Any:
    """Stable permutation, int64, that sorts the user's keys."""
    if order.coded:
        return kernels.argsort(keys, descending=order.descending)
    if order.less is not None:
        _check_less(keys, order)
        permutation = kernels.argsort_by_comparison(keys, less=_expression(order))
        _require_sorted(kernels.gather(keys, permutation), order)
        return permutation
    if order.words:
        return kernels.argsort_words(keys)
    return kernels.argsort_wide(keys, descending=order.descending)


def _expression(order: Order) -> str:
    if not isinstance(order.less, str):
        raise TypeError(f"less of CuPy chunks must be a CUDA C++ expression in a and b, not {order.less!r}")
    return order.less


def comparison_on_host(less: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A comparison of host arrays that runs on the device, for the few keys that the rounds of counting compare."""

    def compare(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        one, other = (cupy.asarray(cupy_staging.native(keys)) for keys in (first, second))
        found: np.ndarray = cupy.asnumpy(kernels.compare_elements(one, other, less))
        return found

    return compare


def _check_less(keys: Any, order: Order) -> None:
    """Raise if the expression contradicts itself for some of the keys; see `numpy_less.check`."""
    if len(keys):
        tested = np.unique(np.linspace(0, len(keys) - 1, numpy_less.TESTED_KEYS).astype(np.int64))
        numpy_less.check(cupy.asnumpy(keys[cupy.asarray(tested)]), comparison_on_host(_expression(order)))


def _require_sorted(keys: Any, order: Order) -> Any:
    """Return the keys; raise if a sort by `less` left two neighbours out of order."""
    descent = first_descent(keys, order)
    if descent is not None:
        second, first = cupy.asnumpy(keys[descent - 1 : descent + 1])
        raise ValueError(
            f"less is no strict weak order: sorting by it leaves {first!r} behind {second!r}; for any two elements one "
            "must come first, or neither, without contradictions"
        )
    return keys


def encode(block: Any, order: Order) -> Any:
    """Encode the user's keys for transit, into a new array."""
    if not order.coded:
        return cupy.array(block, order="C", copy=True)
    return kernels.encode(cupy.ascontiguousarray(block).ravel(), order.descending).reshape(block.shape)


def decode(array: Any, order: Order) -> Any:
    """Decode keys in transit to the user's; may reuse their memory."""
    if not order.coded:
        return array
    codes = cupy.ascontiguousarray(array)
    return kernels.decode(codes, order.dtype, order.descending, out=codes.view(order.dtype))


def pack(parts: Sequence[Any], directions: Sequence[bool]) -> Any:
    """Pack several keys of one chunk into one; see `numpy_ops.pack`."""
    columns = [
        column
        for part, descending in zip(parts, directions, strict=True)
        for column in _columns(cupy.ascontiguousarray(part).ravel(), descending)
    ]
    packed = word_layout.pack([codes for codes, _ in columns], [bits for _, bits in columns])
    return packed.reshape(*parts[0].shape, *packed.shape[1:])


def _columns(part: Any, descending: bool) -> list[tuple[Any, int]]:
    """The columns of one key and their bits, as `numpy_columns` makes them."""
    if key_codes.code_dtype(part.dtype) is not None:
        codes = kernels.floor_codes(kernels.encode(part, descending), part.dtype, descending)
        return [(codes, 1 if part.dtype.kind == "b" else 8 * part.dtype.itemsize)]
    rows = kernels.encode_words(part, descending)
    return [(rows[:, word], word_layout.WORD_BITS) for word in range(rows.shape[1])]


class CupyKeys:
    """Sorted keys in transit on the device, for `summarize`."""

    def __init__(self, array: Any, order: Order):
        self.array, self.order = array, order

    @property
    def size(self) -> int:
        return len(self.array)

    def at(self, positions: np.ndarray) -> np.ndarray:
        return numpy_ops.floor(cupy.asnumpy(self.array[cupy.asarray(positions)]), self.order)

    def search(self, needles: np.ndarray, side: Side) -> np.ndarray:
        if self.order.coded and side == "right":
            needles = numpy_ops.ceiling(needles, self.order)
        return cupy.asnumpy(self._ranks(cupy.asarray(np.ascontiguousarray(needles)), side))

    def _ranks(self, needles: Any, side: Side) -> Any:
        if self.order.coded:
            return kernels.search_sorted(self.array, needles, side)
        if self.order.less is not None:
            return kernels.search_by_comparison(self.array, needles, side, _expression(self.order))
        if self.order.words:
            return kernels.search_words(self.array, needles, side)
        return kernels.search_wide(self.array, needles, side, descending=self.order.descending)

    def differ(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return numpy_ops.differ(first, second, self.order)

    def ranked(self, samples: summarize.Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not self.order.coded:
            return summarize.summarize_samples(self, samples)
        positions = samples.distance if samples.are_of_all(self.size) else samples.positions
        ties_of = self.order.dtype if self.order.has_ties else None
        return kernels.rank_samples(self.array, positions, ties_of=ties_of, descending=self.order.descending)


def floor(array: Any, order: Order) -> Any:
    """Replace keys in transit by the least key of their tie class."""
    if not order.has_ties:
        return array
    codes = cupy.array(array, order="C", copy=True).ravel()
    return kernels.floor_codes(codes, order.dtype, order.descending).reshape(array.shape)


def _words(keys: Any, order: Order) -> Any:
    """Uncoded keys as rows of words."""
    return keys if order.words else kernels.encode_words(cupy.ascontiguousarray(keys), order.descending)


def before(first: Any, second: Any, order: Order) -> Any:
    """Elementwise: whether keys in transit come before others; all are the least of their tie class."""
    if order.coded:
        return first < second
    if order.less is not None:
        return kernels.compare_elements(
            cupy.ascontiguousarray(first), cupy.ascontiguousarray(second), _expression(order)
        )
    return numpy_words.less(_words(first, order), _words(second, order))


def sorted_keys(run: Run, order: Order) -> CupyKeys:
    """The keys of a run, for `summarize`."""
    return CupyKeys(run.keys, order)


def summarize_run(
    run: Run, brackets: Brackets | None, order: Order, *, samples: int | None, radix_bits: int = 0
) -> RankSummary:
    """Summarize one chunk's keys inside some brackets; see `numpy_ops.summarize_run`."""
    digits = histogram(run.keys, order, radix_bits) if radix_bits and len(run) else None
    return summarize.summarize_keys(sorted_keys(run, order), brackets, samples, digits)


def histogram(array: Any, order: Order, radix_bits: int) -> Digits:
    """Count the leading digits of sorted codes."""
    keys = CupyKeys(array, order)
    shift, first, edges = summarize.leading_digits(keys, radix_bits)
    return summarize.count_digits(keys.size, shift, first, keys.search(numpy_ops.floor(edges, order), "left"))


def merge(runs: Sequence[Run], order: Order) -> Run:
    """Merge sorted runs into one, equal keys in the order of the runs; see `numpy_ops.merge`."""
    if len(runs) == 1:
        return runs[0].own()
    keys = runs[0].keys
    key_bytes = keys.itemsize * math.prod(keys.shape[1:])
    if order.less is not None or kernels.prefers_merging(len(runs), key_bytes):
        return _merge_runs(runs, order)
    return _sort_runs(runs, order)


def _sort_runs(runs: Sequence[Run], order: Order) -> Run:
    """Concatenate runs and sort the result."""
    joined = Run.concat(runs)
    if not joined.values and order.coded and not order.has_ties:
        return Run(kernels.sort_keys(joined.keys, out=joined.keys))
    keys = decode(joined.keys, order)
    if not joined.values and order.coded:
        ordered = kernels.sort_keys(keys, descending=order.descending, stable=True, out=keys)
        return Run(_encode_own(ordered, order))
    permutation = _argsort(keys, order)
    companions = tuple(kernels.gather(value, permutation) for value in joined.values)
    return Run(_encode_own(kernels.gather(keys, permutation), order), companions)


def _merge_runs(runs: Sequence[Run], order: Order) -> Run:
    """Merge runs with the merge kernels."""
    keys = [cupy.ascontiguousarray(run.keys) for run in runs]
    companions = [list(column) for column in zip(*(run.values for run in runs), strict=True)]
    if order.coded:
        # Runs with companions are sorted by the least codes of the tie classes.
        ties_of = order.dtype if companions or order.has_ties else None
        return Run(*kernels.merge_runs(keys, companions, ties_of=ties_of, descending=order.descending))
    if order.less is not None or order.words:
        less = None if order.less is None else _expression(order)
        return Run(*kernels.merge_runs(keys, companions, less=less))
    as_words = [kernels.encode_words(key, order.descending) for key in keys]
    _, (merged, *merged_companions) = kernels.merge_runs(as_words, [keys, *companions])
    return Run(merged, tuple(merged_companions))


def first_descent(array: Any, order: Order) -> int | None:
    """Position of the first key in transit that is less than the key before it; None if the keys are sorted."""
    for start in range(0, len(array) - 1, _SCANNED_KEYS):
        part = floor(array[start : start + _SCANNED_KEYS + 1], order)
        descents = before(part[1:], part[:-1], order)
        if bool(descents.any()):
            return start + 1 + int(descents.argmax())
    return None


def edges(block: Any, order: Order, axis: int) -> tuple[bool, Any, Any]:
    """Whether the rows of a chunk are sorted, and the first and last key of each row; see `numpy_ops.edges`."""
    keys = floor(encode(cupy.moveaxis(block, axis, 0), order), order)
    shape = keys.shape[keys.ndim - bool(order.words) :]
    rows = math.prod(keys.shape[1 : keys.ndim - bool(order.words)])
    ordered = not bool(before(keys[1:].reshape(-1, *shape), keys[:-1].reshape(-1, *shape), order).any())
    count = rows if len(keys) else 0
    return ordered, keys[:1].reshape(count, *shape), keys[-1:].reshape(count, *shape)


def sort_rows(block: Any, order: Order, axis: int, *, overwrite: bool = False) -> Any:
    """Sort a chunk along an axis of one chunk; `overwrite` allows the result in the chunk's memory."""
    if not order.coded:
        return take_rows(block, argsort_rows(block, order, axis), axis)
    rows, shape = _rows(block, axis)
    out = rows if overwrite or rows.data.ptr != block.data.ptr else None
    ordered = kernels.sort_rows(rows, descending=order.descending, stable=order.stable, out=out)
    return cupy.moveaxis(ordered.reshape(shape), -1, axis)


def argsort_rows(block: Any, order: Order, axis: int) -> Any:
    """Stable indices, int64, that sort a chunk along an axis of one chunk; see `numpy_ops.argsort_rows`."""
    if order.coded:
        rows, shape = _rows(block, axis)
        found = kernels.argsort_rows(rows, descending=order.descending)
    else:
        moved = cupy.ascontiguousarray(cupy.moveaxis(block, axis, -2 if order.words else -1))
        shape = moved.shape[:-1] if order.words else moved.shape
        count, length = math.prod(shape[:-1]), shape[-1]
        found = _argsort_batch(moved.reshape(count * length, *moved.shape[len(shape) :]), count, length, order)
    return cupy.moveaxis(found.reshape(shape), -1, axis)


def _argsort_batch(keys: Any, count: int, length: int, order: Order) -> Any:
    """Indices that sort `count` contiguous rows of uncoded keys."""
    if order.less is not None:
        rows = [_argsort(keys[row * length : (row + 1) * length], order) for row in range(count)]
        return cupy.concatenate(rows) if rows else cupy.empty(0, np.int64)
    if count <= 1:
        return _argsort(keys, order)
    # All rows are sorted together, with the number of the row as the first word.
    number = (cupy.arange(count * length, dtype=np.uint64) // np.uint64(max(length, 1)))[:, None]
    by_row = cupy.ascontiguousarray(cupy.concatenate([number, _words(keys, order)], axis=1))
    return kernels.argsort_words(by_row) % max(length, 1)


def _rows(block: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """A chunk as a matrix of the rows to sort, and the chunk's shape with the axis moved last."""
    moved = cupy.moveaxis(block, axis, -1)
    rows = cupy.ascontiguousarray(moved).reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    return rows, moved.shape


def take_rows(block: Any, indices: Any, axis: int) -> Any:
    """A chunk's elements in the order of indices along an axis."""
    return cupy.take_along_axis(block, indices, axis)


def add_starts(positions: Sequence[Any], starts: Sequence[int]) -> Any:
    """Positions in several chunks, end to end, as int64 positions in the whole array."""
    found = cupy.concatenate(positions, dtype=cupy.int64)
    ends = accumulate(map(len, positions), initial=0)
    for (first, last), start in zip(pairwise(ends), starts, strict=True):
        found[first:last] += start
    return found


def concatenate(arrays: Sequence[Any]) -> Any:
    """Join arrays along their first dimension; neighbours in memory are not copied."""
    return _joined(arrays)[0]


def paste(block: Any, part: Any) -> None:
    """Copy a chunk into its part of a whole array."""
    layouts = (block.data.ptr, part.data.ptr, block.shape[-1] * block.itemsize, *block.strides[:-1], *part.strides[:-1])
    contiguous = block.strides[-1] == part.strides[-1] == block.itemsize == part.itemsize
    if contiguous and not any(number % _WIDE_BYTES for number in layouts):
        # CuPy copies element by element: the wider they are, the less time it takes.
        block, part = block.view(np.complex128), part.view(np.complex128)
    part[...] = block


def synchronize() -> None:
    """Wait until the current stream is done."""
    cupy.cuda.get_current_stream().synchronize()
