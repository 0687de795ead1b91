"""The entries of the tuning tables that fit the current device: shared memory differs twofold between GPUs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..keys.dtypes import Elements
from ..launch.loader import require_cupy
from . import tuning

Shape = TypeVar("Shape", tuning.Tile, tuning.ScatterShape)


@functools.cache
def _attributes(cupy: Any, device: int) -> dict[str, int]:
    # Cached, since CuPy asks the driver for all of them, one by one.
    return dict(cupy.cuda.Device(device).attributes)


def attribute(name: str) -> int:
    """An attribute of the current device."""
    cupy = require_cupy()
    return int(_attributes(cupy, cupy.cuda.runtime.getDevice())[name])


def multiprocessors() -> int:
    """Multiprocessors of the current device."""
    return attribute("MultiProcessorCount")


def shared_limit() -> int:
    """Count the bytes of shared memory that a block may ask for."""
    return attribute("MaxSharedMemoryPerBlockOptin")


@functools.cache
def _fitting(
    shapes: tuple[tuning.BlockSortShape, ...], widths: tuple[int, int], limit: int
) -> tuple[tuning.BlockSortShape, ...]:
    return tuple(shape for shape in shapes if shape.shared_bytes(*widths) <= limit)


def block_sort_shapes(elements: Elements) -> tuple[tuning.BlockSortShape, ...]:
    """Blocks of the block sort, from small to large."""
    return _fitting(tuning.BLOCK_SORT[elements.shape], elements.shape, shared_limit())


def main_shapes(elements: Elements) -> tuple[tuning.BlockSortShape, ...]:
    """Blocks of the block sort of large arrays, from the preferred one on."""
    shapes = block_sort_shapes(elements)
    return shapes[min(tuning.MAIN_BLOCK_SORT[elements.shape], len(shapes) - 1) :]


def fit(shape: Shape, shared_bytes: Callable[[Shape], int], by_halves: bool = False) -> Shape:
    """A block, with fewer items a thread, perhaps a power of two, if its shared memory would not fit the device."""
    while shape.items > 1 and shared_bytes(shape) > shared_limit():
        shape = replace(shape, items=shape.items // 2 if by_halves else shape.items - 1)
    return shape


def fit_tile(tile: tuning.Tile, elements: Elements, map_words: int) -> tuning.Tile:
    """A tile of a partition that fits the device."""
    return fit(tile, lambda tile: tile.shared_bytes(*elements.shape, tile.digits, map_words))


def fit_stable(
    tile: tuning.Tile, code_bytes: int, payload_bytes: int, map_words: int = 0, keeps_digits: bool = False
) -> tuning.Tile:
    """A tile of a stable pass that fits the device."""
    return fit(tile, lambda tile: tuning.stable_shared_bytes(tile, code_bytes, payload_bytes, map_words, keeps_digits))


def needs_spare(elements: Elements, n: int) -> bool:
    """Tell whether a sort of n elements, or of rows of n, does not fit one block and needs memory for its codes."""
    return n > block_sort_shapes(elements)[-1].capacity


def count_bytes(num_buckets: int, map_words: int) -> int:
    """Count the bytes of shared memory of count_fine: the map, and a 16-bit counter for each bucket."""
    return 4 * map_words + 2 * (num_buckets + num_buckets % 2)


def count_row_bytes(num_digits: int) -> int:
    """Count the bytes of shared memory of count_rows: the map, and a counter for each digit and lane."""
    return 4 * (tuning.MAP_WORDS + num_digits * tuning.WARP_THREADS)


def most_row_digits() -> int:
    """Most digits that count_rows can count."""
    return (shared_limit() - count_row_bytes(0)) // (count_row_bytes(1) - count_row_bytes(0))


def most_fine() -> int:
    """Most fine buckets that one histogram can count beside its map, a power of two."""
    most = tuning.MAX_FINE
    while count_bytes(most, tuning.MAP_WORDS) > shared_limit():
        most //= 2
    return most
