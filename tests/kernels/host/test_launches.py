"""Kernels are compiled once, and those that a call needs together side by side; none is compiled or launched here."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from support.host_cuda.device import stand_in
from support.host_cuda.recorder import MAP_FLAGS, Recorder
from support.marks import for_each

from dask_gpusort import kernels
from dask_gpusort.kernels import complex_keys
from dask_gpusort.kernels.launch import launch as launching
from dask_gpusort.kernels.launch import loader
from dask_gpusort.kernels.launch.launch import Launch, Readback, side_by_side
from dask_gpusort.kernels.launch.loader import KernelCache
from dask_gpusort.kernels.msd import partition
from dask_gpusort.kernels.msd.partition import allocate_workspace
from dask_gpusort.kernels.policy import tuning
from dask_gpusort.kernels.wide.columns import Width

SECONDS = 30


def test_threads_that_need_the_same_kernel_compile_it_once():
    compiled, entered, leave = [], threading.Event(), threading.Event()

    def compile(key):
        compiled.append(key)
        entered.set()
        assert leave.wait(SECONDS)
        return key.upper()

    cache = KernelCache(compile)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(cache.get, "a") for _ in range(4)]
        assert entered.wait(SECONDS)
        assert not cache.request("a")
        leave.set()
        assert [future.result(SECONDS) for future in found] == ["A"] * 4
    assert cache.request("a")
    assert cache.get("a") == "A"
    assert compiled == ["a"]


def test_a_launch_that_waits_makes_its_arguments_when_it_runs(monkeypatch):
    made, launched = [], []

    def arguments():
        made.append(len(launched))
        return (7,)

    stand_in(monkeypatch, lambda launch: launched.append(launch.made_arguments()), lambda *_: False, Recorder().cupy)
    with side_by_side:
        for _ in range(2):
            Launch("a.cu", "kernel", 1, 1, arguments).run()
        assert made == []
    # The second one's are made after the first one was launched, which had let go of its own.
    assert (made, launched) == ([0, 1], [(7,), (7,)])


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor compiles one kernel at a time")
def test_requested_kernels_compile_at_the_same_time():
    barrier = threading.Barrier(2, timeout=SECONDS)
    cache = KernelCache(lambda key: (barrier.wait(), key)[1])
    assert not cache.request(1)
    assert cache.get(2) == 2  # neither is compiled before both have started
    assert cache.get(1) == 1


def test_a_kernel_that_does_not_compile_raises_in_every_call():
    results = iter([ValueError("first"), ValueError("second"), "compiled"])

    def compile(_):
        found = next(results)
        if isinstance(found, Exception):
            raise found
        return found

    cache = KernelCache(compile)
    for message in ("first", "second"):
        with pytest.raises(ValueError, match=message):
            cache.get("key")
    assert cache.get("key") == "compiled"


def test_the_oldest_kernels_are_dropped():
    compiled = []
    cache = KernelCache(lambda key: compiled.append(key) or key, most=2)
    for key in (1, 2, 3, 3, 2, 1):
        assert cache.get(key) == key
    assert compiled == [1, 2, 3, 1]


def test_a_less_that_does_not_compile_is_a_value_error(monkeypatch):
    class CompileError(Exception):
        pass

    def refuse(**options):
        assert "a << b" in options["code"]
        raise CompileError("expected an expression")

    cuda = SimpleNamespace(
        Device=lambda number: threading.Lock(),  # any context manager
        runtime=SimpleNamespace(getDevice=lambda: 0),
        compiler=SimpleNamespace(CompileException=CompileError),
    )
    monkeypatch.setattr(loader, "_find_cupy", lambda: SimpleNamespace(cuda=cuda, RawModule=refuse))
    monkeypatch.setattr(loader, "_load_compiler", lambda device: None)
    with pytest.raises(ValueError, match="`less` does not compile: 'a << b'"):
        loader.kernel("merge/merge.cu", "compare<int>", expression="a << b")


def test_kernels_wait_until_one_thread_has_loaded_the_compiler(monkeypatch):
    compiled, entered, leave = [], threading.Event(), threading.Event()

    class Module:
        def __init__(self, code, options, name_expressions=("nothing",)):
            if name_expressions == ("nothing",):
                entered.set()
                assert leave.wait(SECONDS)
            compiled.append(*name_expressions)

        def get_function(self, name):
            return name

    cuda = SimpleNamespace(Device=lambda number: contextlib.nullcontext())
    monkeypatch.setattr(loader, "_find_cupy", lambda: SimpleNamespace(cuda=cuda, RawModule=Module))
    loader._load_compiler.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(loader._compile, (0, "primitives/scan.cu", name, None)) for name in "abcd"]
        assert entered.wait(SECONDS)
        assert compiled == []
        leave.set()
        assert {kernel.result(SECONDS).function for kernel in found} == set("abcd")
    loader._load_compiler.cache_clear()
    assert compiled[0] == "nothing"
    assert sorted(compiled[1:]) == list("abcd")


#: Prints the text that a compiler sees, first as the files were at the import, then after one header has changed.
_COMPILED = """
import pathlib, re, sys
from types import SimpleNamespace
from dask_gpusort.kernels.launch import loader

def preprocess(code, options):
    for folder in (option[2:] for option in options if option.startswith("-I")):
        text = lambda include: preprocess((pathlib.Path(folder) / include[1]).read_text(), options)
        code = re.sub('#include "(.+)"', text, code)
    return code

keys = []
def compile(code, options, **_):
    keys.append((code, options))
    print(preprocess(code, options).count("a later version"))

class Device:
    def __init__(self, number): ...
    def __enter__(self): ...
    def __exit__(self, *_): ...

class Module:
    def __init__(self, **options): compile(**options)
    def get_function(self, name): return name

loader._find_cupy = lambda: SimpleNamespace(cuda=SimpleNamespace(Device=Device), RawModule=Module)
loader._load_compiler(0)
assert keys.pop()[1] == loader.compile_options(), "the compiler's version is that of the options"
for wanted in ((0, "msd/partition.cu", "a", None), (0, "msd/partition.cu", "b", None)):
    loader._compile(wanted)
    for name in ("primitives/block.cuh", "msd/partition.cu"):
        with (loader.SOURCES / name).open("a") as file:
            file.write("// a later version\\n")
assert keys[0] == keys[1], "the cache must find the same kernel"
"""


def test_sources_that_change_under_a_process_change_no_kernel(tmp_path):
    """CuPy's cache hashes the text and the options, so what they do not hold may not change what is compiled."""
    package = loader.SOURCES.parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", _COMPILED]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ended.stdout.split() == ["0", "0", "0"], ended.stderr
    assert ended.returncode == 0, ended.stderr


class SlowAttribute:
    """A kernel's function whose attribute takes a while to set: another thread may set it meanwhile.

    Attributes
    ----------
    limit : int
        What the driver allows a launch.
    entered : threading.Event
        Set while the first thread is in the driver; `left` ends its wait.
    """

    shared_size_bytes = 0

    def __init__(self):
        self.limit = loader.FREE_SHARED_BYTES
        self.entered, self.left = threading.Event(), threading.Event()

    def _set(self, shared_bytes):
        is_first = not self.entered.is_set()
        self.limit = shared_bytes
        self.entered.set()
        if is_first:
            self.left.wait(0.5)

    max_dynamic_shared_size_bytes = property(fset=_set)


def test_threads_that_ask_for_shared_memory_get_the_most_that_one_asked_for():
    function = SlowAttribute()
    kernel = loader._Kernel(function)
    with ThreadPoolExecutor(2) as pool:
        more = pool.submit(kernel.with_shared, 60 << 10)
        assert function.entered.wait(SECONDS)
        less = pool.submit(kernel.with_shared, 50 << 10)
        less.add_done_callback(lambda _: function.left.set())
        assert more.result(SECONDS) is less.result(SECONDS) is function
    assert function.limit == kernel.shared_limit == 60 << 10


class PinnedMemory(bytearray):
    """Pinned memory of CuPy's pool, which says when it is given back."""

    ptr = 0

    def __del__(self):
        self.events.append("given back")


def fake_copies(events):
    """The parts of CuPy that copy words to the host."""

    def allocate(size):
        memory = PinnedMemory(size)
        memory.events = events
        return memory

    record = SimpleNamespace(record=lambda stream: events.append("recorded"), synchronize=lambda: events.append("over"))
    cuda = SimpleNamespace(alloc_pinned_memory=allocate, Event=lambda **_: record, get_current_stream=lambda: None)
    return SimpleNamespace(cuda=cuda)


class Words:
    """Words of a device."""

    nbytes, dtype, size = 8, np.dtype(np.uint32), 2
    data = SimpleNamespace(copy_to_host_async=lambda *_: None)


@pytest.mark.parametrize("is_waited_for", [False, True])
def test_the_memory_of_a_readback_is_kept_until_the_copy_is_over(monkeypatch, is_waited_for):
    events = []
    monkeypatch.setattr(loader, "_find_cupy", lambda: fake_copies(events))

    def read_and_fail():
        readback = Readback(Words())
        if is_waited_for:
            assert readback.wait() == [0, 0]
        raise MemoryError

    with pytest.raises(MemoryError) as error:
        read_and_fail()
    del error  # its traceback holds the readback
    gc.collect()
    assert events == ["recorded", "over", "given back"]


class ColdRecorder(Recorder):
    """Records which kernels a process that has compiled none compiles side by side.

    Attributes
    ----------
    events : list of str
        Requests and launches, in order.
    rounds : list of list of (str, str)
        Kernels that are compiled at the same time, by source file and C++ name.
    """

    def __init__(self):
        super().__init__()
        self.events = []
        self.rounds = []
        self._missing = {}

    def request(self, source, name, *_):
        """Record a request for a kernel; it is compiled once a launch has waited for it."""
        if any((source, name) in compiled for compiled in self.rounds):
            return True
        self.events.append(f"request {name}")
        self._missing[source, name] = None
        return False

    def launch(self, launch):
        """Record a launch, which waits for its kernel; the others that are missing compile meanwhile."""
        super().launch(launch)
        self.events.append(f"launch {launch.kernel}")
        if not any((launch.source, launch.kernel) in compiled for compiled in self.rounds):
            self.rounds.append([*{**self._missing, (launch.source, launch.kernel): None}])
            self._missing = {}

    def replace_cupy(self, monkeypatch):
        """Make the package launch kernels and allocate arrays on this recorder."""
        stand_in(monkeypatch, self.launch, self.request, self.cupy)


@pytest.fixture
def cold(monkeypatch):
    recorder = ColdRecorder()
    recorder.replace_cupy(monkeypatch)
    return recorder


def make_launch(name, blocks=1):
    return Launch("some.cu", name, blocks, 32, ())


def test_launches_wait_until_the_kernels_of_the_block_are_requested(cold):
    with side_by_side:
        for name in ("a", "b", "a"):
            make_launch(name).run()
        make_launch("c", blocks=0).run()
    assert cold.events == ["request a", "request b", "request a", "launch a", "launch b", "launch a"]
    assert cold.rounds == [[("some.cu", "a"), ("some.cu", "b")]]
    cold.events.clear()
    with side_by_side:
        make_launch("b").run()
        assert cold.events == ["launch b"]  # its kernel is compiled
        make_launch("d").run()
        make_launch("a").run()  # compiled, but its launch may need what d writes
        assert cold.events == ["launch b", "request d"]
    assert cold.events == ["launch b", "request d", "launch d", "launch a"]


def test_launches_outside_a_block_run_at_once(cold):
    make_launch("a").run()
    make_launch("b").run()
    assert cold.events == ["launch a", "launch b"]


def test_a_readback_follows_the_launches_before_it(cold):
    words = cold.zeros(1, np.uint32)
    cold.reads_of_ones = 1
    with side_by_side:
        make_launch("a").run()
        readback = Readback(words)
        make_launch("b").run()
        assert cold.events == ["request a", "request b"]
        assert cold.reads_of_ones == 1  # not read yet
        assert readback.wait() == [1]
        assert cold.events == ["request a", "request b", "launch a", "launch b"]


def test_launches_of_a_block_that_fails_are_discarded(cold):
    def fail():
        with side_by_side:
            make_launch("a").run()
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert cold.events == ["request a"]
    make_launch("b").run()
    assert cold.events == ["request a", "launch b"]


def test_memory_that_is_kept_outlives_the_block():
    class Memory:
        pass

    def kept():
        memory = Memory()
        side_by_side.keep(memory)
        return weakref.ref(memory)

    assert kept()() is None
    with side_by_side:
        with side_by_side:
            memory = kept()
        assert memory() is not None
    assert memory() is None


@pytest.mark.parametrize("dtype", ["u4", "f8"])
def test_tables_that_launches_know_by_address_live_until_they_run(cold, monkeypatch, dtype):
    made, start = [], Launch.start

    def allocate(**sizes):
        workspace = allocate_workspace(**sizes)
        made.append(weakref.ref(workspace.memory))
        return workspace

    def check(launch):
        assert all(memory() is not None for memory in made)
        start(launch)

    monkeypatch.setattr(partition, "allocate_workspace", allocate)
    monkeypatch.setattr(Launch, "start", check)
    kernels.sort_keys(cold.cupy.empty(1 << 26, np.dtype(dtype)))
    assert made


def presume_in_block(cold, rest):
    with side_by_side:
        make_launch("a").run()
        side_by_side.presume(rest)
        assert not any(event.startswith("launch") for event in cold.events)
        make_launch("c").run()


@pytest.fixture
def many_compilers(monkeypatch):
    monkeypatch.setattr(launching, "COMPILERS", launching.PRESUMING_COMPILERS)


def test_what_is_presumed_is_requested_and_never_launched(cold, many_compilers):
    def rest():
        with side_by_side:
            make_launch("b").run()
            side_by_side.presume(lambda: make_launch("never").run())
        make_launch("d").run()

    presume_in_block(cold, rest)
    assert cold.events == [*(f"request {name}" for name in "abdc"), "launch a", "launch c"]
    cold.events.clear()
    with side_by_side:
        make_launch("a").run()
        side_by_side.presume(make_launch("e").run)  # the host waits for no kernel
    assert cold.events == ["launch a"]


def test_few_compilers_presume_nothing(cold, monkeypatch):
    monkeypatch.setattr(launching, "COMPILERS", launching.PRESUMING_COMPILERS - 1)
    presume_in_block(cold, lambda: make_launch("b").run())
    assert cold.events == ["request a", "request c", "launch a", "launch c"]


def test_a_presumption_that_fails_discards_the_block(cold, many_compilers):
    def fail():
        with side_by_side:
            raise MemoryError

    with pytest.raises(MemoryError):
        presume_in_block(cold, fail)
    assert cold.events == ["request a"]
    with side_by_side:
        make_launch("b").run()
    assert cold.events == ["request a", "request b", "launch b"]


#: Kernels that compile in a few hundredths of a second.
SMALL_SOURCE = "keys/transform.cu"
DTYPES, SIZES = ("u1", "f2", "u4", "f4", "i8", "f8", "c8"), (1000, 1 << 14, 1 << 20, 1 << 23, 1 << 26)


@for_each(product(DTYPES, SIZES, MAP_FLAGS[:4], [False, True]))
def test_a_first_call_compiles_in_two_rounds(dtype, n, flags, presumes):
    """One round before the host reads what a sample says of the keys, and one after, of what was not presumed."""
    cold = ColdRecorder()
    cold.map_flags = flags
    is_usual = presumes and (flags[1] or np.dtype(dtype).kind not in "fc")
    keys, values = cold.empty(n, dtype), cold.empty(n, np.uint64)
    calls = (
        lambda: kernels.sort_keys(keys),
        lambda: kernels.sorted_codes(keys),
        lambda: kernels.argsort(keys),
        lambda: kernels.sort_with_positions(keys),
        lambda: kernels.sort_pairs(keys, values),
    )
    for call in calls:
        cold.rounds.clear()
        with pytest.MonkeyPatch.context() as patch:
            cold.replace_cupy(patch)
            patch.setattr(launching, "COMPILERS", launching.PRESUMING_COMPILERS if presumes else 1)
            call()
        large = [compiled for compiled in cold.rounds if any(source != SMALL_SOURCE for source, _ in compiled)]
        values_first = call is calls[-1] and n >= min(tuning.EARLY_VALUES_PAIRS.values())
        assert 1 <= len(large) <= 2 - bool(is_usual and not values_first), cold.rounds


@pytest.mark.parametrize("sort", [kernels.sort_wide, kernels.argsort_wide])
@pytest.mark.parametrize("first_bits", [15, 64])
def test_complex_keys_compile_their_own_kernels_with_the_first(cold, monkeypatch, many_compilers, sort, first_bits):
    widths = [Width(0, 0, first_bits), Width(0, 0, 64)]
    monkeypatch.setattr(complex_keys, "read_widths", lambda ranges: widths)
    sort(cold.empty(1 << 20, "c16"))
    measured, sorted_, *rest = cold.rounds
    own = {"measure_complex", "make_complex_word", "resolve_ties", "list_ties"}
    assert {name.partition("<")[0] for _, name in measured} == own
    assert any(source == "block_sort/block_sort.cu" for source, _ in sorted_)
    assert all(source == SMALL_SOURCE for compiled in rest for source, _ in compiled)
