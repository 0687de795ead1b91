"""Builds kernels as a shared library for the CPU."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

SHIM = Path(__file__).with_name("host_cuda.hpp")
SHIM_PARTS = (Path(__file__).with_name("fibers.hpp"), SHIM)

#: O1 runs these kernels nearly as fast as O2 and compiles them in half the time. Og compiles faster still, but its
#: kernels take twice as long to run. Kernels reinterpret shared memory, which device compilers allow. FORTIFY_SOURCE, a
#: default of some distributions, forbids leaving a stack by longjmp. Shared memory has no constructors, so dynamic
#: shared memory (extern, thread-local) is not constructed. NVRTC allows a flat loop over a shared two-dimensional
#: array; g++ must not treat it as undefined. Hidden symbols keep the loader from merging the static variables of
#: libraries that hold the same kernel.
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-pthread", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-w")
FLAGS += ("-fno-aggressive-loop-optimizations", "-fno-extern-tls-init", "-fvisibility=hidden")

INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
#: A library is deleted after it has not been loaded for this long.
KEPT_SECONDS = 14 * 24 * 3600

#: A library exports, for the instance of index i, ``launch_i`` and ``parameter_bytes_i``.
EXPORT = '\n#define EXPORT extern "C" __attribute__((visibility("default")))\n'
ENTRY = """
EXPORT const char* launch_{i}(unsigned blocks, unsigned threads, uint64_t dynamic_bytes, uint64_t seed,
                                  void** arguments) {{
    return host_cuda::launch({name}, dim3{{blocks}}, dim3{{threads}}, {{dynamic_shared, dynamic_bytes}}, seed,
                             arguments);
}}
EXPORT const unsigned* parameter_bytes_{i}() {{ return host_cuda::parameter_bytes({name}); }}
"""

#: ``extern __shared__ TYPE NAME[];`` in the kernels' namespace. The host also needs a definition.
DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(?P<type>[\w ]+?) (?P<name>\w+)\[\];")
DYNAMIC_DEFINITION = """
namespace gpusort {{
thread_local __align__(16) {type} {name}[(host_cuda::kMostDynamicBytes + host_cuda::kCheckedBytes) / sizeof({type})];
}}
static unsigned char* dynamic_shared() {{ return reinterpret_cast<unsigned char*>(gpusort::{name}); }}
"""
NO_DYNAMIC = "\nstatic unsigned char* (*const dynamic_shared)() = nullptr;\n"


def compiler() -> str | None:
    """Path of g++; None if there is none."""
    return shutil.which("g++")


def build(source: str, names: Sequence[str], include: Path, cache: Path) -> ctypes.CDLL:
    """Compile template instances of a kernel source, or load them from the cache.

    The sources, the compiler and its flags select the library in the cache.

    Parameters
    ----------
    source : str
        Text of the ``.cu`` file.
    names : sequence of str
        C++ names of the instances, relative to the kernels' namespace.
    include : path
        Folder of the headers that the source includes.
    cache : path
        Folder for the libraries.

    Raises
    ------
    RuntimeError
        If there is no compiler, or if it fails; the text then holds its messages.
    """
    cxx = compiler()
    if cxx is None:
        raise RuntimeError("kernels on the host need a C++ compiler: install g++")
    entries = "".join(ENTRY.format(i=i, name=name) for i, name in enumerate(names))
    program = (
        f'#include "{SHIM.name}"\n{source}\n{_dynamic_shared(source)}\nusing namespace gpusort;\n{EXPORT}{entries}'
    )
    headers = (f"{path}\0{text}" for path, text in sorted(_included(source, include).items()))
    shim = _precompiled_shim(cxx, cache)
    library = cache / f"{_digest([shim.name, program, *headers])}.so"
    if library.exists():
        os.utime(library)
    else:
        _compile([cxx, *FLAGS, "-shared", f"-I{shim}", f"-I{include}"], program, library)
    return ctypes.CDLL(str(library))


def forget_old(cache: Path) -> None:
    """Delete libraries that have not been loaded for `KEPT_SECONDS`."""
    for library in cache.glob("*.so"):
        if library.stat().st_mtime < time.time() - KEPT_SECONDS:
            library.unlink(missing_ok=True)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()[:32]


def _included(source: str, include: Path) -> dict[str, str]:
    """Texts, by name, of the headers that a source includes directly or indirectly."""
    found: dict[str, str] = {}
    wanted = INCLUDE.findall(source)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = (include / name).read_text()
            wanted += INCLUDE.findall(found[name])
    return found


@functools.cache
def _precompiled_shim(cxx: str, cache: Path) -> Path:
    """Folder with a precompiled copy of the shim's headers, which take longer to parse than one kernel.

    Its name holds a digest of the shim, the compiler and the flags, because every library depends on them.
    """
    version = subprocess.run([cxx, "--version"], capture_output=True, text=True, check=True).stdout
    folder = cache / f"shim-{_digest([version, cxx, *FLAGS, *(path.read_text() for path in SHIM_PARTS)])}"
    if not folder.exists():
        unfinished = Path(tempfile.mkdtemp(dir=cache))
        for path in SHIM_PARTS:
            shutil.copy(path, unfinished)
        header = unfinished / SHIM.name
        _run([cxx, *FLAGS, "-x", "c++-header", str(header), "-o", f"{header}.gch"])
        try:
            unfinished.rename(folder)
        except OSError:  # another process has made it
            shutil.rmtree(unfinished)
    return folder


def _dynamic_shared(source: str) -> str:
    """C++ definition of the dynamic shared memory that a source declares: one array with one name."""
    declared = {match.groups() for match in DYNAMIC_SHARED.finditer(source)}
    if source.count("extern __shared__") and len(declared) != 1:
        raise RuntimeError(f"a source must declare its dynamic shared memory under one name and type, found {declared}")
    return "".join(DYNAMIC_DEFINITION.format(type=cxx, name=name) for cxx, name in declared) or NO_DYNAMIC


def _compile(command: list[str], program: str, library: Path) -> None:
    unit = library.with_suffix(f".{os.getpid()}.cpp")
    built = unit.with_suffix(".so")
    unit.write_text(program)
    _run([*command, str(unit), "-o", str(built)])
    unit.unlink()
    built.replace(library)  # atomic, so that another process never loads an incomplete library


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} does not compile the kernels:\n{done.stderr[:4000]}")
