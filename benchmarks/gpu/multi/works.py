"""What is sorted on several GPUs."""

from __future__ import annotations

from dataclasses import dataclass

REPEATS = 5
#: log2 of the keys of each GPU, for 34, 48, 55 and 75 GB: a quarter to a half of an H200's memory. The tasks that sort
#: the input make it, and it is not kept.
LARGE = {"large-u64-34": 32, "large-u64-48": 32.48, "large-u64-55": 32.68, "large-u64": 33.13}
#: Seconds after which a run counts as failed; more for large works, which may spill to the host's memory.
PATIENCE = 150
LARGE_PATIENCE = 400


@dataclass(frozen=True)
class Work:
    """What is sorted: `2**log2` keys of each GPU, in chunks, and what travels with them."""

    dtype: str
    log2: float
    chunks: int = 1
    keys: str = "uniform"
    want: str = "keys"
    baseline: str | None = None
    placed: bool = True
    kept: bool = True
    repeats: int = REPEATS
    patience: float = PATIENCE


WORKS = {
    "u32-28": Work("u4", 28, baseline="int32"),
    "u32-30": Work("u4", 30, baseline="int32"),
    "u64-29": Work("u8", 29, baseline="int64"),
    "pairs-29": Work("u4", 29, want="pairs", baseline="int32"),
    "u32-28-x4": Work("u4", 28, chunks=4),
    "u32-30-x4": Work("u4", 30, chunks=4),
    "u32-28-x4-spread": Work("u4", 28, chunks=4, placed=False),
    "pairs-29-x4": Work("u4", 29, chunks=4, want="pairs"),
    "zipf-28": Work("u4", 28, keys="zipf"),
    "equal-28": Work("u4", 28, keys="equal"),
    "sorted-28": Work("u4", 28, keys="sorted"),
    "zipf-30": Work("u4", 30, keys="zipf"),
    "equal-30": Work("u4", 30, keys="equal"),
    "sorted-30": Work("u4", 30, keys="sorted"),
    "argsort-28": Work("u4", 28, want="positions"),
    "f64-29": Work("f8", 29),
    **{
        name: Work("u8", log2, chunks=8, repeats=1, kept=False, patience=LARGE_PATIENCE) for name, log2 in LARGE.items()
    },
}
DEFAULT = [name for name in WORKS if name not in (*LARGE, "zipf-30", "equal-30", "sorted-30", "f64-29")]
