"""Graphs of sorts with ``device="cuda"``: copies around the sort, early errors, and results on a stand-in of CuPy."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.late_cupy import LateCupy
from support.sorting import check_sizes, computed, groups

import dask_gpusort
from dask_gpusort.builders import global_sort, staging
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.graph import runtime
from dask_gpusort.graph.runtime import chunk_library
from dask_gpusort.kernels import KernelsUnavailable

FUNCTIONS = {
    "sort": dask_gpusort.sort,
    "argsort": dask_gpusort.argsort,
    "sort_by_key": lambda x, **options: dask_gpusort.sort_by_key(x, x, **options)[1],
    "lexsort": lambda x, **options: dask_gpusort.lexsort((x, x), **options),
    "merge_sorted": dask_gpusort.merge_sorted,
    "explain": dask_gpusort.explain,
}
DTYPES = ["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "m8[ns]", ">i8", ">f4", ">c16", ">M8[D]"]
UNSUPPORTED = ["S3", "U2", "O", "V3", np.longdouble, np.clongdouble, ours.PLAIN_RECORD]


@pytest.fixture(params=FUNCTIONS)
def function(request):
    return FUNCTIONS[request.param]


@pytest.fixture
def metadata(monkeypatch, raise_if_computes):
    """Graphs may be built without a GPU, and building them computes nothing."""
    pytest.importorskip("cupy", reason="no CuPy: install dask_gpusort[cu13]")
    monkeypatch.setattr(staging, "require_cupy", lambda: None)
    with raise_if_computes():
        yield


@pytest.fixture
def stand_in(monkeypatch):
    """A stand-in of CuPy: its arrays are sorted by the operations on NumPy chunks."""
    copies = pytest.importorskip("dask_gpusort.chunk.cupy_staging", reason="no CuPy: install dask_gpusort[cu13]")
    cupy = LateCupy()
    for name, value in {"cupy": cupy, "PIECE_BYTES": 256, "SMALL_BYTES": 64, "_streams": copies._Streams()}.items():
        monkeypatch.setattr(copies, name, value)
    monkeypatch.setattr(copies, "metadata_without_device", nullcontext)
    monkeypatch.setattr(staging, "require_cupy", lambda: None)
    steps = import_module("dask_gpusort.chunk.cupy_staged_ops")
    for name, value in {"cupy": cupy, "cupy_ops": numpy_ops}.items():
        monkeypatch.setattr(steps, name, value)
    return cupy


@pytest.fixture(params=["at once", "in parts"])
def late(request, stand_in, monkeypatch):
    """The stand-in; all chunks are sorted at once, or some at a time as if they did not fit the device."""
    if request.param == "in parts":
        limit_memory(stand_in, monkeypatch, 32 << 10)
        monkeypatch.setattr(global_sort, "fits_devices", lambda *given: False)
    yield stand_in
    assert stand_in.emptied == 0


def limit_memory(cupy, monkeypatch, nbytes):
    cupy.memory = nbytes
    monkeypatch.setattr(runtime, "own_device_memory", lambda: nbytes)


def copied(collection):
    """Numbers of tasks that copy a chunk to the device, and back: these have the name of the called function."""
    called = [getattr(task, "func", None) for task in dict(collection.__dask_graph__()).values()]
    return [called.count(staging.copy_to_device), called.count(staging.copy_to_host)]


def same(one, other):
    assert type(one) is type(other) is np.ndarray
    oracle.assert_same_bits(one, other)


@pytest.mark.parametrize("device", ["cpu", "gpu", 0, True, ""])
def test_unknown_device(function, device):
    with pytest.raises(ValueError, match="device must be None or 'cuda'"):
        function(da.zeros(4, chunks=2), device=device)


def test_unknown_device_in_the_configuration(function):
    message = r"gpusort\.device must be None or 'cuda' \(got 'gpu'\)"
    with dask.config.set({"gpusort.device": "gpu"}), pytest.raises(ValueError, match=message):
        function(da.zeros(4, chunks=2))


def test_without_a_gpu_the_error_comes_early_and_names_the_remedy(function, monkeypatch, raise_if_computes):
    def refuse():
        raise KernelsUnavailable("No usable GPU.")

    monkeypatch.setattr(staging, "require_cupy", refuse)
    x = da.zeros(4, chunks=2)
    message = r"device='cuda' needs a GPU and CuPy, or else leave out device= .*gpusort\.device.*No usable GPU"
    with raise_if_computes(), pytest.raises(KernelsUnavailable, match=message):
        function(x, device="cuda")
    with dask.config.set({"gpusort.device": "cuda"}), pytest.raises(KernelsUnavailable, match=message):
        function(x)
    function(x)


def test_the_client_needs_no_gpu_but_cupy(on_cluster, monkeypatch):
    def refuse():
        raise KernelsUnavailable("CuPy is not installed.")

    monkeypatch.setattr(staging, "require_cupy", refuse)
    x = da.zeros(40, chunks=10)
    monkeypatch.setattr(staging, "find_spec", lambda name: None)
    with pytest.raises(KernelsUnavailable, match="not installed"):
        dask_gpusort.sort(x, device="cuda")
    monkeypatch.undo()
    pytest.importorskip("cupy", reason="no CuPy: install dask_gpusort[cu13]")
    assert dask_gpusort.explain(x, device="cuda").exchange == "device"
    assert isinstance(dask_gpusort.sort(x, device="cuda")._meta, np.ndarray)


@pytest.mark.parametrize("dtype", UNSUPPORTED, ids=str)
def test_dtypes_that_cupy_lacks(function, metadata, dtype):
    x = da.from_array(np.zeros(9, dtype), chunks=3, name=False)
    with pytest.raises(TypeError, match=r"CuPy lacks the dtype: leave out device="):
        function(x, device="cuda")


def test_companions_of_dtypes_that_cupy_lacks(metadata):
    x = da.zeros(9, chunks=3)
    with pytest.raises(TypeError, match="<U3.*CuPy lacks"):
        dask_gpusort.sort_by_key(x, da.from_array(np.zeros(9, "U3"), chunks=3), device="cuda")


def test_keys_of_dtypes_that_cupy_lacks(metadata):
    x = da.zeros(9, chunks=3)
    for key in (lambda block: block.astype("U5"), lambda block: (block, block.astype(np.longdouble))):
        with pytest.raises(TypeError, match="CuPy lacks"):
            dask_gpusort.sort(x, key=key, device="cuda")


def test_less_must_be_an_expression(metadata):
    x = da.zeros(9, chunks=3)
    with pytest.raises(TypeError, match=r"device='cuda'.*CUDA C\+\+ expression.*not ufunc"):
        dask_gpusort.sort(x, less=np.less, device="cuda")
    dask_gpusort.sort(x, less="a < b", device="cuda")
    with pytest.raises(TypeError, match="NumPy chunks must be a function"):
        dask_gpusort.sort(x, less="a < b")


def test_chunks_of_cupy_stay_where_they_are(metadata):
    x = da.zeros(9, chunks=3)
    with staging.staging("cuda", x, nat_last=True) as copies:
        staged = copies.to_device(x)
        assert chunk_library(staged) == "cupy"
        assert copies.to_device(staged) is staged
        found = dask_gpusort.sort(staged, device="cuda")
    assert chunk_library(found) == "cupy"
    assert copied(found) == [3, 0]


def test_every_chunk_is_copied_once_each_way(metadata):
    x, y = da.zeros(40, chunks=10), da.zeros((40, 2), chunks=(10, 1), dtype="M8[s]")
    assert copied(dask_gpusort.sort(x, device="cuda", chunks=5)) == [4, 8]
    assert copied(dask_gpusort.argsort(x, device="cuda")) == [4, 4]
    for out in dask_gpusort.sort_by_key(x, y, device="cuda"):
        assert isinstance(out._meta, np.ndarray)
        assert copied(out) == [12, 4]
    # The key function takes the user's chunks: keys and values travel.
    found = dask_gpusort.sort(x, device="cuda", key=lambda block: (block, -block))
    assert copied(found) == [8, 4]


def test_the_setting_gives_the_default(metadata):
    x = da.zeros(40, chunks=10)
    with dask.config.set({"gpusort.device": "cuda"}):
        assert dask_gpusort.sort(x).name == dask_gpusort.sort(x, device="cuda").name
        assert "staging   NumPy chunks to the GPU" in dask_gpusort.explain(x).detail
        dask_gpusort.is_sorted(x)
    assert dask_gpusort.sort(x).name != dask_gpusort.sort(x, device="cuda").name
    assert "staging" not in dask_gpusort.explain(x).detail


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_as_without_device(late, dtype, descending):
    host = np.concatenate([ours.special(np.dtype(dtype)), ours.make(dtype, 300, "few"), ours.make(dtype, 100, "bits")])
    x = ours.dask_array(host, 37)
    values = [ours.dask_array(ours.make(kind, len(host), "bits"), 50) for kind in ("M8[s]", ">i4", "f8")]
    with groups(4):
        for unknown in (False, True):
            keys = ours.forget_sizes(x) if unknown else x
            for function in (dask_gpusort.sort, dask_gpusort.argsort):
                found = function(keys, descending=descending, stable=True, device="cuda")
                if not unknown:
                    check_sizes(found)
                assert (found.dtype, type(found._meta)) == (function(keys).dtype, np.ndarray)
                same(computed(found), computed(function(keys, descending=descending, stable=True)))
        found = dask_gpusort.sort_by_key(x, *values, descending=descending, device="cuda")
        wanted = dask_gpusort.sort_by_key(x, *values, descending=descending)
        for one, other in zip(found, wanted, strict=True):
            same(computed(one), computed(other))


@pytest.mark.parametrize("dtypes", [("M8[s]", "i4"), ("f8", ">m8[s]", "?"), (">c16", "M8[s]")], ids=str)
def test_several_keys(late, dtypes):
    hosts = [
        np.concatenate([ours.special(np.dtype(dtype))[:6], ours.make(dtype, 200, "few")])[:180] for dtype in dtypes
    ]
    hosts = [host if len(host) == 180 else np.resize(host, 180) for host in hosts]
    with groups(3):
        for descending in (False, True, [number % 2 == 0 for number in range(len(dtypes))]):
            for shape, chunks in (((180,), 33), ((9, 20), (4, 7))):
                arrays = [ours.dask_array(host.reshape(shape), chunks) for host in hosts]
                found = dask_gpusort.lexsort(arrays, descending=descending, device="cuda")
                same(computed(found), computed(dask_gpusort.lexsort(arrays, descending=descending)))
                moved = dask_gpusort.sort_by_key(arrays, arrays[0], descending=descending, device="cuda")
                wanted = dask_gpusort.sort_by_key(arrays, arrays[0], descending=descending)
                for one, other in zip(moved, wanted, strict=True):
                    same(computed(one), computed(other))


@pytest.mark.parametrize("dtype", ["f4", ">i8", "M8[s]"])
def test_merge_sorted(late, dtype):
    hosts = [oracle.sort(ours.make(dtype, n, "few", n)) for n in (200, 0, 71)]
    arrays = [ours.dask_array(host, 41) for host in hosts]
    with groups(3):
        same(computed(dask_gpusort.merge_sorted(*arrays, device="cuda")), computed(dask_gpusort.merge_sorted(*arrays)))


@pytest.mark.parametrize("limit", ["128MiB", "8B"])
@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("dtype", ["f8", "M8[s]"])
def test_rows(late, axis, dtype, limit):
    x = ours.dask_array(ours.make(dtype, 5 * 6 * 40, "special").reshape(5, 6, 40), (2, 4, 9))
    with groups(3), dask.config.set({"array.chunk-size": limit}):
        for function in (dask_gpusort.sort, dask_gpusort.argsort):
            found, wanted = function(x, axis, device="cuda"), function(x, axis)
            assert found.chunks == wanted.chunks
            same(computed(found), computed(wanted))


def test_arrays_without_dimensions(late):
    x = da.from_array(np.array(2.5))
    for options in ({"device": "cuda"}, {}):
        assert computed(dask_gpusort.argsort(x, **options)) == 0
        assert computed(dask_gpusort.sort(x, None, **options)) == [2.5]
        assert computed(dask_gpusort.lexsort((x, x), **options)) == 0


KEYS = {
    "one": lambda block: -block,
    "dates": lambda block: block.astype("M8[s]"),
    "several": lambda block: (block % 7, block),
    "words": lambda block: (block.astype("f8"), block.astype("M8[s]"), block),
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", KEYS)
def test_key_functions(late, name, descending):
    options = {"key": KEYS[name], "descending": descending}
    x = ours.dask_array(ours.make("i8", 300, "few"), 40)
    with groups(3):
        for function in (dask_gpusort.sort, dask_gpusort.argsort):
            same(computed(function(x, device="cuda", **options)), computed(function(x, **options)))


@pytest.mark.parametrize("exchange", ["join", "gather", "tasks", "device"])
def test_threads_and_exchanges(late, exchange):
    x = ours.dask_array(ours.make("i8", 2_000, "bits"), 130)
    with groups(4), dask.config.set(scheduler="threads", num_workers=8):
        same(dask_gpusort.sort(x, exchange=exchange, device="cuda").compute(), np.sort(x.compute()))


def test_chunks_that_contradict_the_meta(late):
    for make in (lambda block: np.ma.masked_equal(block, 3), lambda block: block.astype("f4")):
        x = da.arange(12, chunks=4).map_blocks(make, dtype="i8", meta=np.empty(0, "i8"))
        with pytest.raises(TypeError, match=r"chunk (\d )?of the input"):
            computed(dask_gpusort.sort(x, device="cuda"))


@pytest.fixture
def small(stand_in, monkeypatch):
    """A device of 96 KiB."""
    limit_memory(stand_in, monkeypatch, 96 << 10)
    return stand_in


@pytest.mark.parametrize("chunks", [3_000, -1, ((0, 29_000, 1, 999, 10_000),)])
def test_arrays_larger_than_the_device(small, chunks):
    host = ours.make("i8", 40_000, "bits")
    x, rows = da.from_array(host, chunks=chunks), da.from_array(np.arange(80_000).reshape(-1, 2), chunks=7_000)
    order = np.argsort(host, kind="stable")
    with dask.config.set(scheduler="threads", num_workers=8):
        found = dask_gpusort.sort(x, device="cuda")
        assert found.chunks == x.chunks
        check_sizes(found)
        same(found.compute(), host[order])
        same(dask_gpusort.argsort(x, device="cuda", chunks=9_000).compute(), order)
        same(dask_gpusort.lexsort((-x, x % 100), device="cuda").compute(), np.lexsort((-host, host % 100)))
        keys, values = dask.compute(*dask_gpusort.sort_by_key(x, rows, device="cuda"))
        same(keys, host[order])
        same(values, rows.compute()[order])
    assert copied(found) == [0, 0]
    # The steps side by side filled the memory, and none of them had to be done again.
    assert small.emptied == 0
    assert small.used == 0
    assert 0 < small.peak <= small.memory


def test_arrays_that_fit_are_copied_at_once(small):
    x = da.from_array(ours.make("i8", 3_000, "bits"), chunks=1_000)
    assert copied(dask_gpusort.sort(x, device="cuda"))[0] == 3
    assert copied(dask_gpusort.sort(da.concatenate([x] * 5), device="cuda"))[0] == 0
    # A companion takes memory too.
    found = dask_gpusort.sort_by_key(x, da.zeros((3_000, 4), chunks=(1_000, 4)), device="cuda")[0]
    assert copied(found)[0] == 0
    # What needs chunks on the device has them there.
    large = da.concatenate([x] * 5)
    for exchange in ("device", "join"):
        assert copied(dask_gpusort.sort(large, exchange=exchange, device="cuda"))[0] == 15


def test_chunks_of_unknown_sizes_are_sorted_in_parts(small):
    host = ours.make("i8", 12_000, "bits")
    x = da.from_array(host, chunks=1_000)
    found = dask_gpusort.sort(x[x % 3 == 0], device="cuda")
    assert copied(found)[0] == 0
    same(computed(found), np.sort(host[host % 3 == 0]))


def test_explain_says_why_chunks_stay_on_the_host(small):
    x = da.zeros(40_000, chunks=1_000)
    lines = dict(line.split(maxsplit=1) for line in dask_gpusort.explain(x, device="cuda").detail.splitlines())
    assert lines["staging"].endswith("together they take 0.92 MiB, it has 96.00 kiB")
    assert lines["exchange"] == "gather"
    assert lines["step"].endswith("of the GPU's 96.00 kiB, several side by side")
    assert lines["chunks"] == "120 in, 40 out"
    assert "step  " not in dask_gpusort.explain(x).detail
    rows = dask_gpusort.explain(da.zeros((100, 400), chunks=(10, 400)), device="cuda").detail
    assert "together they take" in rows
    assert "an unknown size" in dask_gpusort.explain(x[x > 0], device="cuda").detail
    one = dask_gpusort.explain(da.zeros(40_000, chunks=-1), device="cuda").detail
    assert "1 out" in one
    assert "120 in" not in one


def test_rows_larger_than_the_device_name_the_remedy(small):
    x = da.zeros((2, 20_000), chunks=(2, -1))
    with pytest.raises(MemoryError, match=r"rechunk the array to smaller chunks, or leave out device="):
        computed(dask_gpusort.sort(x, device="cuda"))
    with dask.config.set({"array.chunk-size": "8KiB"}):
        same(computed(dask_gpusort.sort(x.rechunk((1, 500)), device="cuda")), np.zeros((2, 20_000)))


def test_memory_is_that_of_the_pool(monkeypatch):
    limit = 0
    pool = SimpleNamespace(get_limit=lambda: limit)
    monkeypatch.setattr(runtime, "_smallest_device", lambda: 1_000)
    monkeypatch.setattr(runtime, "import_module", lambda name: SimpleNamespace(get_default_memory_pool=lambda: pool))
    assert runtime.own_device_memory() == 1_000
    limit = 300
    assert runtime.own_device_memory() == 300
    limit = 3_000
    assert runtime.own_device_memory() == 1_000
