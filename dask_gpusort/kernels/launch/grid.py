"""Names of template instances, and sizes of grids."""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=None, typed=True)  # formatting a name takes as long as launching it
def instance(kernel: str, *arguments: str | int | bool) -> str:
    """Name a template instance as C++ writes it, such as ``"scan_tiles<256, 4>"``."""
    return f"{kernel}<{', '.join(str(a).lower() if isinstance(a, bool) else str(a) for a in arguments)}>"


def blocks_for(n: int, per_block: int) -> int:
    """Number of blocks for `n` elements, `per_block` each; the last block may have fewer. Rounds up."""
    return -(-n // per_block)
