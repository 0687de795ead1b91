"""Compile the CUDA C++ below ``kernels/`` with NVRTC, through CuPy, and keep the kernels.

The first call imports CuPy, so that a scheduler or a client without a GPU can import the package. All sources are read
when the package is imported. What is compiled is one text, with the included files in their places: CuPy's cache on
disk hashes it, and files that change under a running process (an upgrade) change nothing.

A user's comparison, such as ``"a % 10 < b % 10"``, becomes a function in front of the text, and so part of the hash.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Kernel = TypeVar("Kernel")

# Few calls have more kernels, and a compiler takes some hundred MB of host memory while it runs.
COMPILERS = min(16, os.cpu_count() or 1)


# NVRTC runs on all of them at a time. They start when there is something to compile.
_compilers = ThreadPoolExecutor(COMPILERS, "gpusort-compiler")
SOURCES = pathlib.Path(__file__).parents[1]
SOURCE_TEXTS = {path.relative_to(SOURCES).as_posix(): path.read_text("utf-8") for path in SOURCES.rglob("*.cu*")}
# The kernels are compiled for 7.5 and newer: CUDA 13 no longer compiles for 7.0 (Volta).
OLDEST_CAPABILITY = 75
# A kernel that takes more shared memory per block must ask for it first (CUDA C++ Programming Guide).
FREE_SHARED_BYTES = 48 * 1024
# `UserLess` in front of a source; the `#line` directives make the compiler's messages name the user's expression.
_USER_LESS = """namespace gpusort {{
struct UserLess {{
    template <class Key>
    static __device__ __forceinline__ bool less(const Key& a, const Key& b) {{
        return bool(
#line 1 "less"
{expression}
        );
    }}
}};
}}
#line 1 "{source}"
"""
_NOTHING = 'extern "C" __global__ void nothing() {}'
_loading = threading.Lock()
_INCLUDE = re.compile(r'#include\s"([^"]+)"')
_ONCE = "#pragma once"
# What is compiled: device, source, name, and the user's comparison.
_Instance = tuple[int, str, str, str | None]
_DEFINITION = re.compile(r"constexpr (?:int|u32|u64|unsigned|Offset) (k\w+) = ([^;{}]+);")
_NAME = re.compile(r"\bk[A-Z]\w*")


class KernelCache(Generic[Key, Kernel]):
    """Compile kernels when they are first asked for, on a thread of the pool, and keep `most` of them, the newest."""

    def __init__(self, compile: Callable[[Key], Kernel], most: int | None = None) -> None:
        self._compile = compile
        self._most = most
        self._compiled: dict[Key, Kernel] = {}  # read without the lock
        self._compiling: dict[Key, Future[Kernel]] = {}
        self._lock = threading.Lock()

    def request(self, key: Key) -> bool:
        """Start to compile a kernel unless it is compiled; whether it is."""
        if key in self._compiled:
            return True
        self._start(key)
        return False

    def get(self, key: Key) -> Kernel:
        """Return a compiled kernel; wait for it if it is missing."""
        # An error of the compiler is raised, and the next call compiles again.
        found = self._compiled.get(key)
        return self._start(key).result() if found is None else found

    def _start(self, key: Key) -> Future[Kernel]:
        with self._lock:
            future = self._compiling.get(key)
            if future is None:
                future = self._compiling[key] = _compilers.submit(self._run, key)
            return future

    def _run(self, key: Key) -> Kernel:
        try:
            found = self._compiled.get(key)  # another thread may have started, and finished, before the lock was taken
            if found is None:
                found = self._compile(key)
                self._keep(key, found)
            return found
        finally:
            with self._lock:
                del self._compiling[key]

    def _keep(self, key: Key, compiled: Kernel) -> None:
        with self._lock:
            self._compiled[key] = compiled
            if self._most is not None and len(self._compiled) > self._most:
                del self._compiled[next(iter(self._compiled))]


class KernelsUnavailable(RuntimeError):
    """The GPU kernels cannot run here; the message names the remedy."""


def require_cupy() -> Any:
    """Import CuPy and check the GPU."""
    return _find_cupy()


@functools.cache
def _find_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise KernelsUnavailable(
            "CuPy is not installed. For CUDA 13 call `pip install '.[cu13]'` in a clone of this project, or "
            "`pip install cupy-cuda13x` beside a CUDA toolkit; for CUDA 12, cu12 and cupy-cuda12x."
        ) from error
    try:
        capability = int(cupy.cuda.Device().compute_capability)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise KernelsUnavailable(
            f"No usable GPU: {error}. Check `nvidia-smi`, and that CuPy's CUDA version is not newer than the driver's."
        ) from error
    if capability < OLDEST_CAPABILITY:
        raise KernelsUnavailable(
            f"This GPU has compute capability {capability / 10}; the kernels need {OLDEST_CAPABILITY / 10} or newer. "
            "Use NumPy-backed chunks here."
        )
    return cupy


@functools.cache
def whole_text(source: str) -> str:
    """Give the text of a source file below ``kernels/``, with the files that it includes in their places."""
    return "\n".join(_whole_lines(source, set())) + "\n"


def _whole_lines(path: str, seen: set[str]) -> list[str]:
    """Give the lines of a file; the `#line` directives make the compiler's messages name the files."""
    seen.add(path)
    lines: list[str] = []
    for number, text in enumerate(SOURCE_TEXTS[path].splitlines(), 1):
        include = _INCLUDE.match(text)
        if include is None:
            lines.append("" if text == _ONCE else text)
            continue
        if include[1] not in seen:
            lines += [f'#line 1 "{include[1]}"', *_whole_lines(include[1], seen)]
        lines.append(f'#line {number + 1} "{path}"')
    return lines


def read_source(source: str, expression: str | None = None) -> str:
    """Read the text to compile: the user's comparison, if there is one, and a source file."""
    # The text opens the namespace, so that names of kernels and of their template arguments are short.
    text = whole_text(source) + "using namespace gpusort;\n"
    return text if expression is None else _USER_LESS.format(expression=expression, source=source) + text


def compile_options() -> tuple[str, ...]:
    """NVRTC options of every kernel."""
    return ("-std=c++17",)


@dataclass
class _Kernel:
    """A compiled kernel of one device, and the dynamic shared memory (bytes) that its launches may take so far."""

    function: Any
    shared_limit: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def with_shared(self, shared_bytes: int) -> Any:
        """Return the kernel, allowed to take this much dynamic shared memory."""
        if shared_bytes > self.shared_limit:
            self._raise_limit(shared_bytes)
        return self.function

    def _raise_limit(self, shared_bytes: int) -> None:
        # All launches of the compiled function share the attribute, so it may only grow.
        with self.lock:
            if shared_bytes <= self.shared_limit:
                return
            if shared_bytes + self.function.shared_size_bytes > FREE_SHARED_BYTES:
                self.function.max_dynamic_shared_size_bytes = shared_bytes
            self.shared_limit = shared_bytes


@functools.cache
def _load_compiler(device: int) -> None:
    """Compile a kernel of nothing: with the first one, CuPy loads the compiler, and asks for its version."""
    module = require_cupy().RawModule(code=_NOTHING, options=compile_options())
    module.get_function("nothing")


def _compile(wanted: _Instance) -> _Kernel:
    cupy = require_cupy()
    device, source, name, expression = wanted
    with cupy.cuda.Device(device):  # each thread has its own current device
        with _loading:  # all threads would do it, one after the other
            _load_compiler(device)
        module = cupy.RawModule(
            code=read_source(source, expression), options=compile_options(), name_expressions=(name,)
        )
        return _Kernel(module.get_function(name))


def _compile_with_expression(wanted: _Instance) -> _Kernel:
    try:
        return _compile(wanted)
    except require_cupy().cuda.compiler.CompileException as error:
        raise ValueError(
            f"`less` does not compile: {wanted[-1]!r}; give a CUDA C++ expression in `a` and `b`.\n{error}"
        ) from error


_kernels = KernelCache(_compile)
# Each entry keeps a compiled module: expressions may come from a loop.
_kernels_with_expression = KernelCache(_compile_with_expression, most=256)


def request(source: str, name: str, expression: str | None = None) -> bool:
    """Start to compile a kernel for the current device, with parameters as `kernel`; whether it is compiled already."""
    cache = _kernels if expression is None else _kernels_with_expression
    return cache.request((require_cupy().cuda.runtime.getDevice(), source, name, expression))


def kernel(source: str, name: str, shared_bytes: int = 0, expression: str | None = None) -> Any:
    """Return a kernel compiled once for the current device, by its file below ``kernels/`` and its C++ name."""
    # The other arguments are as in `Launch`; an expression that does not compile quotes the compiler.
    cache = _kernels if expression is None else _kernels_with_expression
    compiled = cache.get((require_cupy().cuda.runtime.getDevice(), source, name, expression))
    return compiled.with_shared(shared_bytes)


@functools.cache
def _definitions(source: str) -> dict[str, str]:
    """Give the constants of a file and of the files that it includes."""
    return dict(_DEFINITION.findall(whole_text(source)))


def cxx_constant(source: str, name: str) -> int:
    """Read an integer constant at namespace scope from a file below ``kernels/`` or a file that it includes."""
    expression = _NAME.sub(lambda found: str(cxx_constant(source, found[0])), _definitions(source)[name])
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}))
