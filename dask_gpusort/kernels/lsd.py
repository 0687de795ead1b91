"""Stable least-significant-digit sort: one pass a byte of the code, bytes that all keys share left out.

The universal fallback: its time depends on the number of passes alone, never on the distribution of the keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import tuning
from .dtypes import DeviceKey
from .loader import launch, require_cupy

RADIX = 256
RAW_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
COUNT_THREADS, COUNT_TILE = 512, 512 * 16  # kCountThreads, times kCountItems, in lsd_pass.cu


def scan_digits(source: str, keys: Any, n: int, num_bytes: int) -> tuple[Any, list[int]]:
    """First output place of every digit of every byte (device), and the bytes in which keys differ."""
    cupy = require_cupy()
    counts = cupy.zeros((num_bytes + 1) * RADIX, np.uint64)
    trivial = counts[num_bytes * RADIX :]
    starts = cupy.empty((num_bytes, RADIX), np.uint64)
    launch("lsd_pass.cu", f"count_digits<{source}>", -(-n // COUNT_TILE), COUNT_THREADS, (keys, np.uint64(n), counts))
    launch("lsd_pass.cu", "scan_digits", num_bytes, RADIX, (counts, np.uint64(n), starts, trivial))
    flags = trivial[:num_bytes].get()
    return starts, [byte for byte in range(num_bytes) if not flags[byte]]


def run_pass(
    source: str,
    sink: str,
    payload: str,
    code_bytes: int,
    arrays: tuple[Any, Any, Any, Any],
    n: int,
    byte: int,
    starts: Any,
) -> None:
    """One stable pass over one byte of the codes."""
    cupy = require_cupy()
    shape = tuning.LSD[code_bytes]
    tiles = -(-n // shape.keys)
    status = cupy.zeros(tiles * RADIX + 1, np.uint64)
    name = f"lsd_pass<{source}, {sink}, {payload}, {shape.threads}, {shape.items}>"
    payload_bytes = 0 if payload == "NoPayload" else 4
    arguments = (*arrays, np.uint64(n), np.int32(8 * byte), starts[byte], status, status[tiles * RADIX :])
    launch(
        "lsd_pass.cu", name, tiles, shape.threads, arguments, tuning.lsd_shared_bytes(shape, code_bytes, payload_bytes)
    )


def run_passes(
    source: str, sink: str, key: DeviceKey, keys: Any, codes: list[Any], payloads: list[Any], outputs: tuple[Any, Any]
) -> None:
    """All passes; the codes go through `codes`, alternately, so that the last pass reads `codes[0]`.

    One pass at least is run: it also transforms the keys.
    """
    n, raw = keys.size, RAW_TYPES[key.itemsize]
    between = f"Codes<{raw}>"
    payload = "NoPayload" if payloads[0] is None else "u32"
    starts, differing = scan_digits(source, keys, n, key.itemsize)
    passes = differing or [0]
    current = (keys, None)
    for step, byte in enumerate(passes):
        last = step == len(passes) - 1
        slot = (len(passes) - 2 - step) % 2
        target = outputs if last else (codes[slot], payloads[slot])
        run_pass(
            between if step else source,
            sink if last else between,
            payload,
            key.itemsize,
            (*current, *target),
            n,
            byte,
            starts,
        )
        current = target


def sort(key: DeviceKey, keys: Any, out: Any) -> None:
    """Sort keys by their one-to-one codes; `out` may be `keys`."""
    cupy = require_cupy()
    source = keys.copy() if out.data.ptr == keys.data.ptr else keys
    spare = cupy.empty(keys.size, key.code_dtype)
    run_passes(f"Keys<{key.order}>", f"Keys<{key.order}>", key, source, [spare, out], [None, None], (out, None))


def sort_indexed(key: DeviceKey, keys: Any, keys_out: Any, positions_out: Any) -> None:
    """Stable sort with positions; `positions_out` is int64 or uint32, `keys_out` may be `None`."""
    cupy = require_cupy()
    position_type = "long long" if positions_out.itemsize == 8 else "u32"
    codes = list(cupy.empty((2, keys.size), key.code_dtype))
    payloads = list(cupy.empty((2, keys.size), np.uint32))
    name = f"TiedKeys<{key.order}, {position_type}>"
    run_passes(name, name, key, keys, codes, payloads, (keys_out, positions_out))


def argsort(key: DeviceKey, keys: Any, out: Any) -> None:
    """Positions that sort the keys, stable."""
    sort_indexed(key, keys, None, out)
