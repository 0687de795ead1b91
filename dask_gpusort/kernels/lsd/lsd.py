"""Stable least-significant-digit radix sort: one onesweep pass for each byte of the code.

Bytes that all keys share need no pass. The time depends on the number of passes and not on the distribution of the
keys, so this sort is the fallback for skewed keys.

Adinets and Merrill, "Onesweep", arXiv 2206.01784, 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import Arrays, DeviceKey, Elements
from ..launch.launch import Launch, Readback, blocks_for, instance, side_by_side
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import fit_stable, multiprocessors

SOURCE = "lsd/onesweep.cu"
DIGIT_BITS, RADIX, COUNT_THREADS, COUNT_TILE = (
    cxx_constant("lsd/onesweep_tile.cuh", name) for name in ("kDigitBits", "kRadix", "kCountThreads", "kCountTile")
)
COUNT_BLOCKS = 4  # blocks of count_digits for each multiprocessor
NARROW_KEYS = 1 << 30  # 32-bit status words hold two flags, and counts below this


def count_type(n: int) -> tuple[str, Any]:
    """C++ and NumPy type of a status word that can count n keys."""
    return ("u32", np.uint32) if n < NARROW_KEYS else ("u64", np.uint64)


def scan_digits(source: str, keys: Any, n: int, num_bytes: int) -> tuple[Any, list[int]]:
    """Scan histograms of all bytes of the codes, shape (num_bytes, 256), and list the bytes to sort by."""
    # Up to `tuning.LSD_ALL_PASSES` keys are sorted by all bytes: a pass takes less time than a readback. For more keys,
    # bytes that all keys share are left out.
    cupy = require_cupy()
    counts = cupy.zeros((num_bytes + 1) * RADIX, np.uint64)
    trivial = counts[num_bytes * RADIX :]
    cxx, dtype = count_type(n)
    starts = cupy.empty((num_bytes, RADIX), dtype)
    blocks = min(blocks_for(n, COUNT_TILE), COUNT_BLOCKS * multiprocessors())
    Launch(SOURCE, instance("count_digits", source), blocks, COUNT_THREADS, (keys, np.uint64(n), counts)).run()
    Launch(SOURCE, instance("scan_digits", cxx), num_bytes, RADIX, (counts, np.uint64(n), starts, trivial)).run()
    flags = [0] * num_bytes if n <= tuning.LSD_ALL_PASSES else Readback(trivial[:num_bytes]).wait()
    return starts, [byte for byte in range(num_bytes) if not flags[byte]] or [0]


@dataclass(slots=True)
class OnesweepPass:
    """Describe one stable pass over one byte of the codes."""

    elements: Elements
    source: str  # C++ type that reads the inputs
    sink: str  # C++ type that writes the outputs
    inputs: tuple[Any, Any]  # keys or codes, and payloads, each of n elements; `None` where there are none
    outputs: tuple[Any, Any]  # as `inputs`
    n: int
    byte: int  # its number, from the least significant one
    starts: Any  # shape (256,): first rank of each digit, in keys

    def run(self) -> None:
        """Launch the pass, with fresh status words and a fresh ticket counter."""
        widths = self.elements.shape
        shape = fit_stable(tuning.LSD[widths], *widths)
        tiles = blocks_for(self.n, shape.keys)
        cxx, dtype = count_type(self.n)
        types = self.source, self.sink, self.elements.payload_type, cxx
        name = instance("onesweep", *types, shape.threads, shape.items, shape.blocks)
        digit = np.uint64(self.n), np.int32(DIGIT_BITS * self.byte), self.starts

        def arguments() -> tuple[Any, ...]:
            status = require_cupy().zeros(tiles * RADIX + 1, dtype)
            return (*self.inputs, *self.outputs, *digit, status, status[-1:])

        Launch(SOURCE, name, tiles, shape.threads, arguments, tuning.stable_shared_bytes(shape, *widths)).run()


def sort(elements: Elements, keys: Any, n: int, arrays: Arrays, values: Any = None) -> None:
    """Sort n elements stably into the outputs, with a launch for each pass; without values, payloads are positions."""
    # Keys may be the memory of `arrays.codes[1]` and the outputs, if these have the same width. The last pass reads
    # `codes[0]` and `payloads[0]`.
    with side_by_side:
        starts, passes = scan_digits(elements.source, keys, n, elements.code_bytes)
        overwritten = [array.data.ptr for array in (arrays.codes[1], arrays.keys_out) if array is not None]
        if len(passes) % 2 and keys.data.ptr in overwritten:
            keys = keys.copy()  # the first of an odd number of passes writes to one of these
        inputs, source = (keys, values), elements.source
        for later, byte in zip(reversed(range(len(passes))), passes, strict=True):
            slot = (later - 1) % 2
            outputs = (arrays.codes[slot], arrays.payloads[slot]) if later else (arrays.keys_out, arrays.positions_out)
            sink = elements.codes if later else elements.sink
            OnesweepPass(elements, source, sink, inputs, outputs, n, byte, starts[byte]).run()
            inputs, source = outputs, elements.codes


def prefers_lsd(key: DeviceKey, n: int) -> bool:
    """Tell whether a launch for each byte takes less time than an MSD sort: launches bound the time of few keys."""
    least, most = tuning.PARTITIONED_KEYS.get(key.itemsize, (0, n))
    return not least < n <= most
