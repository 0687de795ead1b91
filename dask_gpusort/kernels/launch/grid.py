"""Names of template instances, and numbers of blocks."""

from __future__ import annotations


def instance(kernel: str, *arguments: str | int | bool) -> str:
    """Name one template instance of a kernel, as C++ writes it."""
    return f"{kernel}<{', '.join(str(a).lower() if isinstance(a, bool) else str(a) for a in arguments)}>"


def blocks_for(n: int, per_block: int) -> int:
    """Blocks that `n` elements take, `per_block` each, the last perhaps in part."""
    return -(-n // per_block)
