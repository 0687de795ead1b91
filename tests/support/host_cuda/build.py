"""Builds kernels as a shared library for the CPU."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

SHIM = Path(__file__).with_name("host_cuda.hpp")
SHIM_PARTS = (Path(__file__).with_name("fibers.hpp"), SHIM)

#: O1 runs these kernels nearly as fast as O2 and compiles them in half the time. Kernels reinterpret shared memory,
#: which device compilers allow. FORTIFY_SOURCE, a default of some distributions, forbids to leave a stack by longjmp.
#: Shared memory has no constructors, so dynamic shared memory (extern, thread-local) needs no call to construct it.
#: A flat loop over a shared two-dimensional array is what it looks like, as NVRTC has it, and not undefined.
#: Hidden symbols keep the loader from merging the static variables of libraries that hold the same kernel.
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-pthread", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-w")
FLAGS += ("-fno-aggressive-loop-optimizations", "-fno-extern-tls-init", "-fvisibility=hidden")

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

#: ``extern __shared__ TYPE NAME[];`` in the kernels' namespace: the host needs a definition too.
DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(?P<type>[\w ]+?) (?P<name>\w+)\[\];")
DYNAMIC_DEFINITION = """
namespace gpusort {{
thread_local __align__(16) {type} {name}[(host_cuda::kMostDynamicBytes + host_cuda::kCheckedBytes) / sizeof({type})];
}}
static unsigned char* dynamic_shared() {{ return reinterpret_cast<unsigned char*>(gpusort::{name}); }}
"""
NO_DYNAMIC = "\nstatic unsigned char* (*const dynamic_shared)() = nullptr;\n"


def compiler() -> str | None:
    """Path of g++, if there is one."""
    return shutil.which("g++")


def build(source: str, names: Sequence[str], include: Path, cache: Path) -> ctypes.CDLL:
    """Compile template instances of a kernel source, once for each state of the sources.

    Parameters
    ----------
    source : str
        Text of the ``.cu`` file.
    names : sequence of str
        C++ names of the instances, as they read inside the kernels' namespace.
    include : path
        Folder of the headers it includes.
    cache : path
        Folder for the libraries.

    Raises
    ------
    RuntimeError
        If there is no compiler, or with its messages if it fails.
    """
    cxx = compiler()
    if cxx is None:
        raise RuntimeError("kernels on the host need a C++ compiler: install g++")
    entries = "".join(ENTRY.format(i=i, name=name) for i, name in enumerate(names))
    headers = "".join(path.read_text() for path in sorted(include.rglob("*.cuh")))
    program = f'#include "{SHIM}"\n{source}\n{_dynamic_shared(source)}\nusing namespace gpusort;\n{EXPORT}{entries}'
    parts = (cxx, *FLAGS, *(path.read_text() for path in SHIM_PARTS), headers, program)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    library = cache / f"{digest[:32]}.so"
    if not library.exists():
        _compile(cxx, program, include, library)
    return ctypes.CDLL(str(library))


def _dynamic_shared(source: str) -> str:
    """Define the dynamic shared memory that a source declares: one array, under one name."""
    declared = {match.groups() for match in DYNAMIC_SHARED.finditer(source)}
    if source.count("extern __shared__") and len(declared) != 1:
        raise RuntimeError(f"a source must declare its dynamic shared memory under one name and type, found {declared}")
    return "".join(DYNAMIC_DEFINITION.format(type=cxx, name=name) for cxx, name in declared) or NO_DYNAMIC


def _compile(cxx: str, program: str, include: Path, library: Path) -> None:
    unit = library.with_suffix(f".{os.getpid()}.cpp")
    built = unit.with_suffix(".so")
    unit.write_text(program)
    done = subprocess.run(
        [cxx, *FLAGS, f"-I{include}", str(unit), "-o", str(built)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{cxx} does not compile the kernels:\n{done.stderr[:4000]}")
    built.replace(library)  # at once, so that a second process never loads half a library
