"""Exchanges by tasks on one GPU whose memory does not hold a join: the bits of NumPy chunks, and the projected peak."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import dask_gpusort
from dask_gpusort.builders import global_sort

cupy = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

MEMORY = 1 << 30
CHUNKS = 64
#: Functions, the bytes of a key and its companions in a run, and those of the input.
FUNCTIONS: dict[str, tuple[int, Callable[[Callable[[str], Any]], Sequence[Any]]]] = {
    "sort u4": (4, lambda draw: [dask_gpusort.sort(draw("u4"))]),
    "sort i8": (8, lambda draw: [dask_gpusort.sort(draw("i8"))]),
    "stable f8": (8, lambda draw: [dask_gpusort.sort(draw("f8"), stable=True)]),
    "argsort u4": (8, lambda draw: [dask_gpusort.argsort(draw("u4"))]),
    "argsort i8": (12, lambda draw: [dask_gpusort.argsort(draw("i8"))]),
    "pairs u4 u4": (8, lambda draw: dask_gpusort.sort_by_key(draw("u4"), draw("u4"))),
    "pairs i8 i8": (16, lambda draw: dask_gpusort.sort_by_key(draw("i8"), draw("i8"))),
    "two values": (20, lambda draw: dask_gpusort.sort_by_key(draw("i8"), draw("i8"), draw("u4"))),
    "lexsort": (12, lambda draw: [dask_gpusort.lexsort((draw("u4"), draw("u4")))]),
    "wide": (16, lambda draw: [dask_gpusort.sort(draw("c16"))]),
}


class Memory:
    """CuPy's default pool, limited, and the most bytes in use of it."""

    def __init__(self) -> None:
        self.pool = cupy.get_default_memory_pool()
        self.most = 0

    def malloc(self, size: int) -> Any:
        found = self.pool.malloc(size)
        self.most = max(self.most, self.pool.used_bytes())
        return found

    def peak(self, run: Callable[[], Any]) -> tuple[int, Any]:
        """Most bytes that a call takes beyond those in use before, and its result."""
        gc.collect()
        self.pool.free_all_blocks()
        before = self.most = self.pool.used_bytes()
        found = run()
        return self.most - before, found


@pytest.fixture
def memory() -> Iterator[Memory]:
    found = Memory()
    gc.collect()
    found.pool.free_all_blocks()
    found.pool.set_limit(size=found.pool.total_bytes() + MEMORY)
    allocator = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(found.malloc)
    try:
        yield found
    finally:
        cupy.cuda.set_allocator(allocator)
        found.pool.set_limit(size=0)
        gc.collect()


def drawn(dtype: str, keys: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "fc":
        return rng.standard_normal(keys * (1 + (dtype == "c16"))).view(dtype)
    # Some keys are equal, so that the order of ties shows.
    return (rng.integers(0, keys, keys) * 12_345_679).astype(dtype)


def made(host: np.ndarray) -> Any:
    """An array whose chunks are copied to the device by tasks."""
    return da.from_array(host, chunks=len(host) // CHUNKS).map_blocks(cupy.asarray, meta=cupy.empty(0, host.dtype))


def held(host: np.ndarray) -> Any:
    return made(host).persist(scheduler="sync")


def check(memory: Memory, function: str, share: float, make: Callable[[np.ndarray], Any], threads: int) -> None:
    """The exchange ends in a pool that is too small for a join, has NumPy's bits, and takes what the plan says."""
    width, build = FUNCTIONS[function]
    keys = int(share * MEMORY / width) // CHUNKS * CHUNKS
    hosts: list[np.ndarray] = []

    def draw(dtype: str) -> np.ndarray:
        hosts.append(drawn(dtype, keys, len(hosts)))
        return hosts[-1]

    recipes: list[Any] = []
    plans: list[Any] = []
    new_arrays, make_plan = global_sort.new_arrays, global_sort.make_plan

    def planned(*given: Any, **options: Any) -> Any:
        plans.append(make_plan(*given, **options))
        return plans[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(global_sort, "make_plan", planned)
        patch.setattr(
            global_sort, "new_arrays", lambda recipe, *rest: recipes.append(recipe) or new_arrays(recipe, *rest)
        )
        outputs = build(lambda dtype: make(draw(dtype)))
    assert [(type(recipe).__name__, recipe.driver) for recipe in recipes] == [("ProgramRecipe", "tasks")]
    (plan,) = plans
    options = {"scheduler": "threads" if threads > 1 else "sync", "num_workers": threads}
    dask.persist(*outputs, **options)  # loads kernels
    taken, found = memory.peak(lambda: dask.persist(*outputs, **options))
    wanted_bytes = plan.stated.peak
    assert abs(wanted_bytes - taken) <= 0.15 * taken, (wanted_bytes / MEMORY, taken / MEMORY)
    host_arrays = iter(hosts)
    wanted = build(lambda dtype: da.from_array(next(host_arrays), chunks=-1))
    for one, other in zip(found, dask.compute(*wanted, scheduler="sync"), strict=True):
        for block, part in zip(one.blocks, np.split(other, np.cumsum(one.chunks[0])[:-1]), strict=True):
            got = cupy.asnumpy(block.compute(scheduler="sync"))
            assert got.dtype == part.dtype
            assert got.tobytes() == part.tobytes()


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_chunks_made_by_tasks(memory: Memory, function: str, threads: int) -> None:
    check(memory, function, 0.4, made, threads)


@pytest.mark.parametrize(("function", "share"), [("sort i8", 0.32), ("argsort i8", 0.36), ("pairs i8 i8", 0.25)])
def test_chunks_that_are_kept(memory: Memory, function: str, share: float) -> None:
    check(memory, function, share, held, 8)


def test_explained_peak_is_of_the_gpu(memory: Memory) -> None:
    x = made(np.zeros(int(0.45 * MEMORY) // 4, "u4"))
    explained = dask_gpusort.explain(x)
    assert explained.exchange == "device"
    assert "a join would take" in explained.detail
    assert 0.45 * MEMORY < explained.peak < MEMORY
