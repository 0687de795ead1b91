"""Stable least-significant-digit sort: one pass a byte of the code, bytes that all keys share left out.

The universal fallback: its time depends on the number of passes alone, never on the distribution of the keys. Small
arrays are sorted in one launch, large ones in one a pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey
from ..keys.elements import Arrays, Elements
from ..launch.launch import Launch, Readback
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import fit_stable, multiprocessors, resident_blocks

RADIX = 256
COUNT_THREADS, COUNT_TILE = 512, 512 * 8  # kCountThreads, times kCountItems, in lsd_digits.cuh
COUNT_BLOCKS = 4  # a multiprocessor
NARROW_KEYS = 1 << 30  # a 32-bit status word counts fewer, beside two flags


def count_type(n: int) -> tuple[str, Any]:
    """C++ and NumPy type of what counts n keys in a status word."""
    return ("u32", np.uint32) if n < NARROW_KEYS else ("u64", np.uint64)


def scan_digits(source: str, keys: Any, n: int, num_bytes: int) -> tuple[Any, list[int]]:
    """First output place of every digit of every byte (device), and the bytes to sort by: those in which keys differ.

    Of few keys all: a pass takes less time than to ask the device.
    """
    cupy = require_cupy()
    counts = cupy.zeros((num_bytes + 1) * RADIX, np.uint64)
    trivial = counts[num_bytes * RADIX :]
    cxx, dtype = count_type(n)
    starts = cupy.empty((num_bytes, RADIX), dtype)
    blocks = min(-(-n // COUNT_TILE), COUNT_BLOCKS * multiprocessors())
    Launch("lsd/onesweep.cu", f"count_digits<{source}>", blocks, COUNT_THREADS, (keys, np.uint64(n), counts)).run()
    Launch("lsd/onesweep.cu", f"scan_digits<{cxx}>", num_bytes, RADIX, (counts, np.uint64(n), starts, trivial)).run()
    flags = [0] * num_bytes if n <= tuning.LSD_ALL_PASSES else Readback(trivial[:num_bytes]).wait()
    return starts, [byte for byte in range(num_bytes) if not flags[byte]] or [0]


def run_pass(
    elements: Elements,
    source: str,
    sink: str,
    inputs: tuple[Any, Any],
    outputs: tuple[Any, Any],
    n: int,
    byte: int,
    starts: Any,
) -> None:
    """One stable pass over one byte of the codes."""
    cupy = require_cupy()
    shape = fit_stable(tuning.LSD[elements.shape], *elements.shape)
    tiles = -(-n // shape.keys)
    cxx, dtype = count_type(n)
    status = cupy.zeros(tiles * RADIX + 1, dtype)
    name = f"onesweep<{source}, {sink}, {elements.payload_type}, {cxx}, {shape.threads}, {shape.items}, {shape.blocks}>"
    arguments = (*inputs, *outputs, np.uint64(n), np.int32(8 * byte), starts[byte], status, status[-1:])
    Launch(
        "lsd/onesweep.cu", name, tiles, shape.threads, arguments, tuning.stable_shared_bytes(shape, *elements.shape)
    ).run()


def sort(elements: Elements, keys: Any, n: int, arrays: Arrays, values: Any = None) -> None:
    """Sort n elements into the outputs, stable.

    Parameters
    ----------
    elements : Elements
        What is sorted.
    keys : cupy.ndarray
        n raw keys, contiguous. May be the same memory as `arrays.codes[1]` and the outputs.
    arrays : Arrays
        `codes[1]` and `payloads[1]` may be outputs of the same width: the last pass reads the others.
    values : cupy.ndarray, optional
        What travels with the keys; their positions, where the elements have a payload and this is `None`.
    """
    num_bytes = elements.code_bytes
    starts, passes = scan_digits(elements.source, keys, n, num_bytes)
    if len(passes) % 2 and any(
        a is not None and a.data.ptr == keys.data.ptr for a in (arrays.codes[1], arrays.keys_out)
    ):
        # The first pass would write what it reads.
        keys = keys.copy()
    current, source = (keys, values), elements.source
    for left, byte in zip(reversed(range(len(passes))), passes, strict=True):
        slot = (left - 1) % 2
        target = (arrays.codes[slot], arrays.payloads[slot]) if left else (arrays.keys_out, arrays.positions_out)
        run_pass(elements, source, elements.codes if left else elements.sink, current, target, n, byte, starts)
        current, source = target, elements.codes


def is_small(key: DeviceKey, n: int) -> bool:
    """Whether the whole sort of n keys alone in one launch takes less time than a launch a step."""
    least, most = tuning.LSD_SMALL_KEYS.get(key.itemsize, (0, 0))
    return least <= n < most


def prefers_passes(key: DeviceKey, n: int) -> bool:
    """Whether a launch for each byte takes less time than partitions: of few keys those are bound by their launches."""
    least, most = tuning.PARTITIONED_KEYS.get(key.itemsize, (0, n))
    return not least < n <= most


def sort_small(elements: Elements, keys: Any, n: int, arrays: Arrays) -> None:
    """Sort few keys by their one-to-one codes, in one launch; as `sort`."""
    cupy = require_cupy()
    width = elements.code_bytes
    shapes = tuning.LSD_SMALL[width]
    shape = fit_stable(shapes[0] if n <= shapes[0].keys * multiprocessors() else shapes[1], width, 0)
    shared_bytes = tuning.stable_shared_bytes(shape, width, 0)
    tiles = -(-n // shape.keys)
    blocks = min(tiles, resident_blocks(shape, shared_bytes + tuning.LSD_SMALL_STATIC[width]))
    cleared = cupy.zeros(width * RADIX * (1 + tiles) + 1, np.uint32)
    counts, status, arrivals = cleared, cleared[width * RADIX :], cleared[-1:]
    out = arrays.keys_out
    source = keys.copy() if out.data.ptr == keys.data.ptr else keys
    types = f"{elements.source}, {elements.sink}, NoValue"
    name = f"onesweep_cooperative<{types}, {shape.threads}, {shape.items}, {shape.blocks}>"
    arguments = (source, *arrays.codes, None, None, out, None, np.uint32(n), counts, status, arrivals)
    Launch("lsd/onesweep_cooperative.cu", name, blocks, shape.threads, arguments, shared_bytes, cooperative=True).run()
