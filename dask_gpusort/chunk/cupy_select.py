"""Order statistics of CuPy chunks: of lanes that are whole in a chunk, and steps of a selection by samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from .. import kernels
from .. import keys as key_codes
from ..keys import code_dtype
from ..order import Order
from ..table import Statistic
from . import numpy_keys
from .cupy_keys import encode
from .cupy_sorts import concatenate_chunks, sort_chunks, sort_rows
from .lanes import has_nan, lanes_last, reduce_sorted, result_shape

#: Most quantiles that are selected; for more, lanes are sorted. Each read of the keys selects 16 ranks, and a sort
#: takes some five reads and writes.
_SELECTED_QUANTILES = 32
#: Keys for which `extract` has memory at first: brackets by samples have fewer inside, and there is a second attempt.
_FIRST_SHARE = 16
_FEWEST = 1 << 16
#: Most keys that CuPy sorts in less time than our launches take.
_FEW_KEYS = 1 << 22


def reduce_lanes(block: Any, statistic: Statistic, axes: Sequence[int], keepdims: bool = False) -> Any:
    """Give the statistic of each lane of a chunk; see `numpy_select.reduce_lanes`."""
    lanes, kept, length = lanes_last(block, axes)
    few = math.prod(statistic.shape) <= _SELECTED_QUANTILES
    if block.size and few and code_dtype(block.dtype) is not None:
        found = _by_selection(*_matrix(block, lanes, axes, length), statistic)
    else:
        found = _by_sort(cupy.ascontiguousarray(lanes).reshape(math.prod(kept), length), statistic)
    return found.reshape(result_shape(statistic, block.shape, axes, keepdims))


def _matrix(block: Any, lanes: Any, axes: Sequence[int], length: int) -> tuple[Any, int]:
    """The lanes as columns of a matrix if they are in memory so, else as rows; and the axis of the matrix to reduce."""
    if block.flags.c_contiguous and tuple(axes) == tuple(range(len(axes))):
        return block.reshape(length, -1), 0
    return cupy.ascontiguousarray(lanes).reshape(-1, length), 1


def _by_selection(keys: Any, axis: int, statistic: Statistic) -> Any:
    lanes, length = keys.shape[1 - axis], keys.shape[axis]
    with_nan = has_nan(keys.dtype)
    if statistic.skip_nan and with_nan:
        nans = kernels.select_rows(keys, cupy.empty((lanes, 0), np.int64), axis)[1]
        counts = length - nans
        return statistic.result(_at_ranks(keys, axis, statistic.ranks(counts))[0], counts, nans)
    # What is the same of all lanes is computed on the host, and nothing waits for the device.
    counts = np.array([length])
    ranks = cupy.asarray(statistic.ranks(counts))
    found, nans = _at_ranks(keys, axis, cupy.broadcast_to(ranks, (*ranks.shape[:-1], lanes)))
    results = statistic.result(found, counts, np.zeros(1, np.int64))
    return cupy.where(nans > 0, results.dtype.type(np.nan), results) if with_nan else results


def _at_ranks(keys: Any, axis: int, ranks: Any) -> tuple[Any, Any]:
    """The keys at ranks, shape (2, quantiles, lanes), of each lane, and how many NaN it has."""
    # Both neighbours of a quantile are side by side, where the second one costs little.
    lanes = ranks.shape[-1]
    selected, nans = kernels.select_rows(keys, cupy.ascontiguousarray(ranks.T.reshape(lanes, -1)), axis)
    return selected.reshape(lanes, -1, 2).T, nans


def _by_sort(rows: Any, statistic: Statistic) -> Any:
    length = rows.shape[1]
    nans = cupy.isnan(rows).sum(axis=1) if has_nan(rows.dtype) else cupy.zeros(len(rows), np.int64)
    rows = sort_rows(rows, Order(rows.dtype), 1) if length else cupy.zeros((len(rows), 1), rows.dtype)
    return reduce_sorted(rows, statistic, nans, length)


def count_nans(*parts: Any) -> int:
    """Count the keys of some parts that are NaN or NaT."""
    if not has_nan(parts[0].dtype):
        return 0
    nothing = np.empty((1, 0), key_codes.code_dtype(parts[0].dtype))
    return int(kernels.extract(_rows(parts), nothing, nothing, 0).nans[0])


def _rows(parts: Sequence[Any]) -> list[Any]:
    """Give the parts as matrices of one row."""
    return [cupy.ascontiguousarray(part).reshape(1, -1) for part in parts]


def keys_at(parts: Sequence[Any], ranks: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Keys at some ranks, on the host; NaN are last."""
    if not len(ranks):
        return np.empty(0, parts[0].dtype)
    # CuPy sorts few codes in a third of the time in which a host makes our launches: five quantiles of 2^27 float64
    # took 5.3 ms in place of 6.6 (H200).
    order = Order(parts[0].dtype)
    by_codes = order.coded and sum(map(len, parts)) <= _FEW_KEYS
    ordered = cupy.sort(encode(concatenate_chunks(parts)[0], order)) if by_codes else sort_chunks(parts, order)
    found: npt.NDArray[Any] = cupy.asnumpy(ordered[cupy.asarray(ranks)])
    return numpy_keys.decode(found, order) if by_codes else found


def moved_here(array: Any) -> Any:
    """An array of either library, on the device."""
    return cupy.asarray(array)


def extract(keys: Any, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], Any]:
    """Count the keys less than and up to both ends of brackets, shape (4, brackets), and take those strictly inside."""
    # They come once, in any order; keys that NumPy calls equal to an end count as equal (see `table.Counts`).
    ends, inside, _ = extract_all([keys], low, high)
    return ends, inside


def extract_all(
    parts: Sequence[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], Any, int]:
    """Extract from several arrays, and count NaN and NaT."""
    read = [
        _extract(parts, low[first : first + kernels.MOST_BRACKETS], high[first : first + kernels.MOST_BRACKETS])
        for first in range(0, max(len(low), 1), kernels.MOST_BRACKETS)
    ]
    ends, inside, nans = zip(*read, strict=True)
    return np.concatenate(ends, axis=1), inside[0] if len(inside) == 1 else cupy.concatenate(inside), nans[0]


def _extract(
    parts: Sequence[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], Any, int]:
    dtype, size = parts[0].dtype, sum(part.size for part in parts)
    codes = [key_codes.encode(np.asarray(end, dtype)).reshape(1, -1) for end in (low, high)]
    capacity = min(max(size // _FIRST_SHARE, _FEWEST), size)
    while True:
        extracted = kernels.extract(_rows(parts), codes[0], codes[1], capacity)
        found = int(extracted.found[0])
        if found <= capacity:
            # A copy: a slice would keep all of the memory.
            return extracted.ends[0], extracted.inside[0, :found].copy(), int(extracted.nans[0])
        capacity = found


def draw(parts: Sequence[Any], stratum: int) -> Any:
    """One key of each whole stratum of the keys of some parts, end to end."""
    return kernels.draw_samples([cupy.ascontiguousarray(part) for part in parts], stratum)
