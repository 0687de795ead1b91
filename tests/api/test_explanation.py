"""What `explain` and the like say, against what happens."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from support import strategies as ours

import dask_gpusort
from dask_gpusort.builders import staging
from dask_gpusort.graph import runtime

N, CHUNKS = 240, 8


class Source:
    """An array whose chunks count how often they are made."""

    def __init__(self, shape, chunks, dtype="i8"):
        self.reads = 0
        values = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
        self.array = da.from_array(values, chunks=chunks).map_blocks(self.read, dtype=dtype, name=f"counted-{id(self)}")

    def read(self, block):
        self.reads += block.size > 0
        return block


def flat(dtype="i8"):
    return Source((N,), N // CHUNKS, dtype)


def rows():
    return Source((N // CHUNKS, CHUNKS), (N // CHUNKS, 1))


def long_rows():
    return Source((2, 60 * CHUNKS), (2, 60))


AT = da.from_array(np.arange(N)[::-1], chunks=40)
LABELS = np.arange(N) % 5
#: Of each kind of plan: the function, the source, arguments, options, settings, and the exchange.
CASES = {
    "gather": ("sort", flat, (), {}, {"gpusort.groups": 3}, "gather"),
    "join": ("sort", flat, (), {}, {}, "join"),
    "tasks": ("sort", flat, (), {"exchange": "tasks"}, {}, "tasks"),
    "key": ("sort", flat, (), {"key": np.negative}, {"gpusort.groups": 3}, "gather"),
    "whole rows": ("sort", rows, (0,), {}, {}, None),
    "rechunked rows": ("sort", rows, (1,), {}, {}, "rechunk"),
    "joined rows": ("sort", rows, (1,), {"exchange": "join"}, {}, "join"),
    "long rows": ("sort", long_rows, (1,), {}, {"array.chunk-size": "8 B", "gpusort.groups": 2}, "gather"),
    "flattened": ("sort", rows, (None,), {}, {"gpusort.groups": 2}, "gather"),
    "samples": ("quantile", flat, (0.5,), {"strategy": "samples"}, {}, "samples"),
    "read again": ("quantile", flat, (0.5,), {"strategy": "samples"}, {"gpusort.held_share": 0.0}, "samples"),
    "rechunked lanes": ("quantile", rows, (0.5, 1), {}, {}, "rechunk"),
    "whole lanes": ("quantile", rows, (0.5, 0), {}, {}, None),
    "joined lanes": ("quantile", flat, (0.5,), {"strategy": "join"}, {}, "join"),
    "groups": ("quantile", flat, (0.5, 0), {"by": LABELS, "strategy": "sort"}, {"gpusort.groups": 2}, "gather"),
    "groups of lanes": ("quantile", flat, (0.5, 0), {"by": LABELS}, {}, "rechunk"),
    "ranks": ("rank", flat, (), {}, {"gpusort.groups": 2}, "gather"),
    "ranks of rows": ("rank", rows, (1,), {}, {}, "rechunk"),
    "ranks of whole rows": ("rank", rows, (0,), {}, {}, None),
    "distinct": ("unique", flat, (True, True, True), {}, {"gpusort.groups": 2}, "gather"),
    "joined distinct": ("unique", flat, (), {}, {"gpusort.exchange": "join"}, "join"),
    "membership": ("isin", flat, (da.from_array([1, 5]),), {}, {}, "join"),
    "never equal": ("isin", flat, (np.array(["a"]),), {}, {}, None),
    "search": ("searchsorted", flat, (AT,), {}, {}, "join"),
    "search by groups": ("searchsorted", flat, (AT,), {}, {"gpusort.groups": 3}, "gather"),
    "take": ("take", flat, (AT,), {}, {}, "gather"),
    "take by groups": ("take", flat, (AT,), {}, {"gpusort.exchange": "tasks"}, "tasks"),
    "take along": ("take_along_axis", rows, (da.zeros((30, 8), dtype=int, chunks=(30, 1)), 1), {}, {}, "gather"),
}


def explained(case):
    function, make, arguments, options, settings, _ = CASES[case]
    source, name = make(), "explain" if function == "sort" else f"explain_{function}"
    with dask.config.set({"num_workers": 2, **settings}):
        found = getattr(dask_gpusort, function)(source.array, *arguments, **options)
        return getattr(dask_gpusort, name)(source.array, *arguments, **options), source, found


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_happens(case):
    said, source, found = explained(case)
    assert source.reads == 0
    found = found if isinstance(found, tuple) else (found,)
    made = {key for array in found for key in array.__dask_graph__()} - {*source.array.__dask_graph__()}
    others = [one for one in CASES[case][2] if isinstance(one, da.Array)]
    assert said.tasks == len(made - {key for array in others for key in array.__dask_graph__()})
    assert said.chunks == (math.prod(source.array.numblocks), math.prod(found[0].numblocks))
    dask.compute(*found, scheduler="threads", num_workers=2)
    assert source.reads == said.reads * CHUNKS
    assert said.exchange == CASES[case][-1]
    assert not said.disk
    assert said.notes[0] == "for the threads of this process, without a Client"


@pytest.mark.parametrize("case", CASES)
def test_memory(case):
    """The limit is that of whom the peak is of."""
    said, *_ = explained(case)
    assert said.limit == runtime.host_memory() // (2 if said.whose == "each thread" else 1)
    assert said.fits
    assert (said.peak == 0) == ("never equal" in said.detail)
    with mock.patch.object(runtime, "host_memory", return_value=8):
        said, *_ = explained(case)
    assert said.limit == (4 if said.whose == "each thread" else 8)
    assert said.fits == (said.peak == 0)
    remedy = "over the memory: use smaller chunks, or fewer threads for each worker"
    assert (remedy in said.notes) == ("does not fit: peak" in str(said)) == (said.peak > 0)


def test_printed_text():
    x = da.zeros(10_000_000, chunks=500_000)
    settings = {"num_workers": 2, "gpusort.merged_runs": 0}
    with dask.config.set(settings), mock.patch.object(runtime, "host_memory", return_value=3 << 30):
        said, full = dask_gpusort.explain(x), dask_gpusort.explain(x, detail=True)
    assert str(said) == repr(said) == str(full).split("\n\n")[0]
    assert str(said).splitlines() == [
        "memory    fits: peak 13.11 MiB for each thread, of 1.50 GiB",
        "disk      not used",
        "reads     the source once",
        "chunks    20 in, 20 out",
        "tasks     40, 2 a chunk",
        "exchange  gather",
        "note      for the threads of this process, without a Client",
    ]
    assert str(full) == f"{said}\n\n{said.detail}"
    assert said.peak / 2**20 == pytest.approx(13.11, abs=0.005)
    assert said.stages[0] == ("source", x.nbytes)
    assert said.stages[-1] == ("result", x.nbytes)
    assert [name for name, _ in said.stages[1:-1]] == ["sort chunks", "count", "gather"]


def test_html_has_the_answers_and_a_bar_for_each_stage():
    said = dask_gpusort.explain_isin(da.zeros(10, chunks=5), np.array(["<b>"]))
    html = said._repr_html_()
    assert html.count("<meter") == len(said.stages)
    assert html.count("<tr>") == len(str(said).splitlines()) + len(said.stages)
    assert "<b>" not in html
    assert "<details>" in html
    full = dask_gpusort.explain(da.zeros(10, chunks=5), detail=True)._repr_html_()
    assert "<details open>" in full
    assert "gather" not in full


def test_unknown_sizes_are_noted():
    x = ours.forget_sizes(da.zeros(100, chunks=10))
    for said in (dask_gpusort.explain(x), dask_gpusort.explain_rank(x), dask_gpusort.explain_unique(x)):
        assert said.peak is None
        assert said.fits is False
        assert said.stages[0] == ("source", None)
        assert "sizes of chunks are unknown: call compute_chunk_sizes() first" in said.notes
        assert "peak unknown for each thread" in str(said)


def test_an_array_that_is_flattened_is_noted():
    said = dask_gpusort.explain(da.zeros((40, 40), chunks=10), None)
    assert "flattened first, which the peak does not count: 16 chunks rechunked to 20 in C order" in said.notes[-1]
    assert len(dask_gpusort.explain(da.zeros((40, 40), chunks=(10, 40)), None).notes) == 1


@pytest.mark.parametrize(
    ("scheduler", "who"),
    [("synchronous", "one thread"), ("processes", "processes of this machine")],
)
def test_the_scheduler_is_noted(scheduler, who):
    with dask.config.set(scheduler=scheduler):
        said = dask_gpusort.explain(da.zeros(100, chunks=10))
    assert said.notes == (f"for {who}, without a Client",)
    assert said.limit == runtime.host_memory()


@pytest.mark.parametrize("number", [1, 2])
def test_gpus(monkeypatch, number):
    """Plans need the memory of the GPU alone, and no CuPy."""
    monkeypatch.setattr(runtime, "own_device_memory", lambda: 1 << 30)
    monkeypatch.setattr(runtime, "chunk_library", lambda array: "cupy")
    if number == 2:
        workers = runtime.Workers(threads=2, memory=1 << 30, devices=True)
        monkeypatch.setattr(runtime, "workers_in_use", lambda *_: workers)
    whose, use = ("the GPU", "NumPy chunks and device='cuda'") if number == 1 else ("each GPU", "more GPUs, or NumPy")
    for share, fits in ((0.45, True), (0.55, False)):
        n = int(share * number * 2**30 / 8)
        said = dask_gpusort.explain(da.zeros(n, chunks=-(-n // 64)))
        assert (said.exchange, said.fits, said.whose, said.limit) == ("device", fits, whose, 1 << 30)
        assert any(use in note for note in said.notes) == (not fits)
        assert said.notes[0] == "for the GPU of this process, without a Client"
    said = dask_gpusort.explain_quantile(da.zeros(1 << 21, chunks=1 << 19))
    assert (said.whose, said.limit) == (("the GPU", 1 << 30) if number == 1 else ("all GPUs together", 2 << 30))


@pytest.mark.parametrize(
    ("memory", "noted"),
    [
        (1 << 20, "chunks and groups to the GPU, some at a time: together they take"),
        (1 << 30, "NumPy chunks to the GPU"),
    ],
)
def test_chunks_that_are_staged_are_noted(monkeypatch, memory, noted):
    monkeypatch.setattr(runtime, "own_device_memory", lambda: memory)
    monkeypatch.setattr(staging, "require_cupy", lambda: None)
    monkeypatch.setattr(staging, "_copies", lambda: SimpleNamespace(metadata_without_device=nullcontext))
    monkeypatch.setattr(staging.Staging, "to_device", lambda self, array: array)
    monkeypatch.setattr(staging.Staging, "to_host", lambda self, array, *_: array)
    said = dask_gpusort.explain(da.zeros(1 << 20, chunks=1 << 16), device="cuda")
    assert said.notes[1].startswith(noted)
    assert said.detail.startswith(f"staging   {said.notes[1]}\n")


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 2, "memory_limit": "512 MiB", "processes": False}
    with LocalCluster(**options, dashboard_address=None) as cluster, Client(cluster) as made:
        yield made


def test_on_a_cluster(client):
    x = da.zeros(1 << 20, chunks=1 << 17)
    said = dask_gpusort.explain(x)
    assert (said.exchange, said.disk, said.notes, said.whose) == ("runs", True, (), "each thread")
    assert said.limit == 256 << 20
    assert "disk      used for sorted chunks that memory does not hold" in str(said)
    joined = dask_gpusort.explain_isin(x, [1.0])
    assert (joined.exchange, joined.disk, joined.whose, joined.limit) == ("join", False, "each worker", 512 << 20)
    samples = dask_gpusort.explain_quantile(da.zeros(1 << 21, chunks=1 << 18))
    assert (samples.whose, samples.limit) == ("all workers together", 1 << 30)
    assert dask_gpusort.explain_unique(x).disk
    many = da.zeros(1 << 21, chunks=1 << 18)
    assert dask_gpusort.explain(dask_gpusort.partition, many, 5).disk  # by the sort behind the selection
    assert dask_gpusort.explain(dask_gpusort.topk, x, 3).fits
    with dask.config.set({"array.chunk-size": "1 MiB"}):
        assert dask_gpusort.explain_take(x, x.astype(int)).disk
    for exchange in ("tasks", "gather"):
        assert not dask_gpusort.explain(x, exchange=exchange).disk


def test_a_rechunk_by_p2p_uses_the_disk(client):
    x = da.zeros((16, 16), chunks=(4, 4))
    for method in ("p2p", "tasks"):
        with dask.config.set({"array.rechunk.method": method}):
            said = dask_gpusort.explain(x, 1)
        assert (said.exchange, said.disk) == ("rechunk", method == "p2p")


def test_every_function_is_explained():
    """Those of the arrays that test_peaks.py has, and others of the same builders; nothing is computed."""
    x, at = da.random.default_rng(0).random((40, 40), chunks=10), da.zeros((40, 40), dtype=int, chunks=10)
    first = {"lexsort": ([x, at],), "merge_sorted": (x[0], x[1]), "permutation": (40,), "interp": (x, x[0], x[1])}
    more = {
        **dict.fromkeys(["quantile", "nanquantile", "percentile", "nanpercentile"], (x, 0.5)),
        **dict.fromkeys(["partition", "argpartition", "topk", "argtopk", "top_k"], (x, 3)),
        **dict.fromkeys(["union1d", "intersect1d", "setdiff1d", "setxor1d", "isin", "sort_by_key"], (x, at)),
        "searchsorted": (x[0], at),
        "merge_asof": (at, x[0]),
        "join_indices": (at[0], x[0]),
        "take": (x, at[0], 0),
        "take_along_axis": (x, at, 0),
        "put_along_axis": (x, at, x, 0),
    }
    functions = {*dask_gpusort.api.__all__} - {name for name in dask_gpusort.api.__all__ if "explain" in name}
    functions -= {"to_zarr"}  # which has no plan
    assert {*first, *more} <= functions
    for name in functions:
        said = dask_gpusort.explain(getattr(dask_gpusort, name), *{**more, **first}.get(name, (x,)))
        assert said.fits, name
        assert said.peak, name
        assert said.tasks, name
        assert said.limit, name
        assert "strategy" in said.detail or "path" in said.detail, name


def test_pairs_are_not_counted():
    x = da.zeros(100, chunks=10)
    said = str(dask_gpusort.explain(dask_gpusort.join_indices, x, x))
    assert "the peak does not count the pairs" in said


def test_arguments_by_name_and_what_has_no_plan():
    x = da.zeros(100, chunks=10)
    assert dask_gpusort.explain(a=x, descending=True).detail == dask_gpusort.explain(x, descending=True).detail
    assert dask_gpusort.explain(dask_gpusort.topk, a=x, k=3).exchange == "tree"
    for function in (np.sort, len, dask_gpusort.show_versions):
        with pytest.raises(TypeError, match="function must be one of dask_gpusort"):
            dask_gpusort.explain(function, x)
    with pytest.raises(TypeError, match="explain makes no Dask array"):
        dask_gpusort.explain(dask_gpusort.explain, x)


def test_the_plan_nearest_to_its_limit_gives_the_peak():
    """Of a partition, the sort by the buckets takes more than the search for the keys at the ranks."""
    x = da.zeros(1 << 21, chunks=1 << 17)
    with dask.config.set({"num_workers": 2}):
        said = dask_gpusort.explain(dask_gpusort.partition, x, 5)
    assert (said.exchange, said.whose) == ("samples", "each thread")
    assert "select-extract" in said.detail
    assert "sort-merge" in said.detail
