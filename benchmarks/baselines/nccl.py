"""A sort on the GPUs of one host with PyTorch and NCCL: the baseline of `gpu.multi`.

    python benchmarks/baselines/nccl.py '[["int32", 28, false]]' 4 baseline.json

Each GPU has one process: `torch.sort`, splitters from regular samples, one all-to-all with unequal sizes, and
`torch.sort` again. One GPU needs only one `torch.sort`. Keys are signed, because PyTorch cannot sort unsigned ones; the
work is the same. Pairs are sorted stably, and their values are gathered. The cuts are approximate, so the GPUs end with
different numbers of keys. A work is a dtype, log2 of the keys of a GPU, and whether there are values; the file
gets the seconds of each.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SAMPLES = 1024
REPEATS = 7


def order(keys: Any, values: Any | None) -> tuple[Any, Any | None]:
    """Sort keys, or pairs stably."""
    if values is None:
        return torch.sort(keys)[0], None
    ordered, index = torch.sort(keys, stable=True)
    return ordered, values[index]


def send_counts(keys: Any, world: int) -> Any:
    """How many of the sorted keys go to each process, by splitters that all processes share."""
    own = keys[torch.arange(SAMPLES, device=keys.device) * (len(keys) - 1) // (SAMPLES - 1)]
    samples = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(samples, own)
    splitters = torch.sort(torch.cat(samples))[0][SAMPLES * torch.arange(1, world, device=keys.device)]
    ends = torch.searchsorted(keys, splitters)
    zero, size = ends.new_zeros(1), ends.new_full((1,), len(keys))
    return torch.diff(torch.cat([zero, ends, size]))


def exchange(keys: Any, values: Any | None, world: int) -> tuple[Any, Any | None]:
    """Send each process its part of the keys."""
    sent = send_counts(keys, world)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    outputs, inputs = received.tolist(), sent.tolist()
    moved: list[Any] = []
    for array in (keys, values):
        if array is None:
            moved.append(None)
            continue
        moved.append(array.new_empty(sum(outputs)))
        dist.all_to_all_single(moved[-1], array, outputs, inputs)
    return moved[0], moved[1]


def timed(keys: Any, values: Any | None, world: int) -> float:
    """Seconds of one sort by all processes."""
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    whole(keys, values, world)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def whole(keys: Any, values: Any | None, world: int) -> tuple[Any, Any | None]:
    """The whole sort."""
    first = order(keys, values)
    return first if world == 1 else order(*exchange(*first, world))


def measure(dtype: str, log2: int, pairs: bool, rank: int, world: int) -> float:
    """Median seconds of one work."""
    device = torch.device("cuda", rank)
    torch.manual_seed(rank)
    kind = getattr(torch, dtype)
    limits = torch.iinfo(kind)
    keys = torch.randint(limits.min, limits.max, (1 << log2,), dtype=kind, device=device)
    values = torch.arange(1 << log2, dtype=torch.int32, device=device) if pairs else None
    for _ in range(2):
        sorted_keys, _ = whole(keys, values, world)
    assert bool((sorted_keys[1:] >= sorted_keys[:-1]).all())
    del sorted_keys
    return statistics.median(timed(keys, values, world) for _ in range(REPEATS))


def process(rank: int, world: int, works: list[Any], out: str) -> None:
    """Run one process. The first process writes the results after each work."""
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    found = []
    for dtype, log2, pairs in works:
        found.append(measure(dtype, log2, pairs, rank, world))
        torch.cuda.empty_cache()
        if rank == 0:
            Path(out).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    works, gpus, out = sys.argv[1:]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29571")
    mp.spawn(process, (int(gpus), json.loads(works), out), nprocs=int(gpus))
