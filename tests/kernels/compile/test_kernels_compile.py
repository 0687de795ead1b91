"""NVRTC compiles the kernels for every architecture, without a GPU.

The instances are those that the package launches on a GPU of an architecture; a recorder collects them and runs none.
Instances that differ only in the kind of order (signed, float, descending, ...) form one family. All families take half
an hour. By default every kernel is compiled for every architecture, and the families of two dtypes are spread over the
architectures; ``-m thorough`` compiles every family for every architecture.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.cubin import usage
from support.host_cuda.device import GPUS
from support.host_cuda.launches import record_everything
from support.host_cuda.recorder import Launched, Recorder

from dask_gpusort.kernels.launch import loader

nvrtc = pytest.importorskip(
    "cupy_backends.cuda.libs.nvrtc", reason="no CuPy: install dask_gpusort[cu13] to compile kernels"
)
try:
    nvrtc.getVersion()
except Exception as error:  # CuPy passes on any error of the platform's loader
    pytest.skip(f"CuPy finds no NVRTC: install dask_gpusort[cu13] ({error})", allow_module_level=True)

ARCHITECTURES = tuple(GPUS)
#: The narrowest and the widest keys of one word: sorts of these launch every kernel.
FEW_DTYPES = ("u1", "i8")
#: Of a multiprocessor, on all of them; a thread has a multiple of eight.
REGISTERS, REGISTER_STEP = 1 << 16, 8
#: From here on the compiler adds what the driver reserves to the static shared memory of a block that has any.
RESERVED_IN_STATIC = 90
#: Few, so that parallel compilers finish at about the same time; several, so that headers are parsed less often.
NAMES_PER_PROGRAM = 4
ORDER = re.compile(r"KeyOrder<(u\d+), Kind::\w+, \w+>")
GLOBAL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(")


def recorded_on(architecture, *dtypes_and_directions):
    """Launches on a GPU of an architecture: its limits decide the shapes of blocks."""
    recorder = Recorder(GPUS[architecture])
    record_everything(recorder, *dtypes_and_directions)
    return recorder


def families(recorder):
    """For each (source, kernel) its families; a family is a list of names that differ only in the kind of order."""
    found = defaultdict(lambda: defaultdict(list))
    for source, name in recorder.instances:
        found[source, name.partition("<")[0]][ORDER.sub(r"KeyOrder<\1>", name)].append(name)
    return {kernel: list(by_family.values()) for kernel, by_family in found.items()}


def choose(recorder, turn, turns):
    """Names to compile, by source and expression: one of each family of this turn, and at least one of every kernel.

    Other turns get other families and other orders of the same family.
    """
    chosen = defaultdict(list)
    for (source, _), of_kernel in families(recorder).items():
        mine = range(turn, len(of_kernel), turns) or (turn % len(of_kernel),)
        chosen[source, None] += [of_kernel[f][(turn + f) % len(of_kernel[f])] for f in mine]
    return chosen


def check_fit(architecture, name, taken, launched):
    """Check that a block of a kernel fits a multiprocessor, with its static shared memory and its registers."""
    limits = GPUS[architecture]
    reserved = limits.shared - limits.block_shared if architecture >= RESERVED_IN_STATIC else 0
    static = max(taken.static_bytes - reserved, 0)
    assert taken.registers > 0, f"{name} for sm_{architecture}: {taken}"
    assert static == 0 or launched.shared_bytes == 0, f"{name}: static beside dynamic shared memory is not counted"
    assert static + launched.shared_bytes <= limits.block_shared, f"{name} for sm_{architecture}: {taken}, {launched}"
    registers = -(-taken.registers // REGISTER_STEP) * REGISTER_STEP
    assert registers * launched.threads <= REGISTERS, f"{name} for sm_{architecture}: {taken}, {launched}"


def compile_for(architecture, recorder, source, expression, names):
    code = loader.read_source(source, expression)
    program = nvrtc.createProgram(code, source, [], [])
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        # CuPy adds the last two options to those of the loader.
        nvrtc.compileProgram(
            program, (*loader.compile_options(), f"-arch=sm_{architecture}", "-ftz=true", "-default-device")
        )
        taken = usage(nvrtc.getCUBIN(program))
        for name in names:
            launched = recorder.instances.get((source, name), Launched())
            check_fit(architecture, name, taken[nvrtc.getLoweredName(program, name)], launched)
    except nvrtc.NVRTCError:
        pytest.fail(f"{source} for sm_{architecture}:\n{nvrtc.getProgramLog(program)[:4000]}")
    finally:
        nvrtc.destroyProgram(program)


def compile_all(architecture, recorder, chosen):
    if architecture not in nvrtc.getSupportedArchs():
        pytest.skip(f"this NVRTC {nvrtc.getVersion()} does not compile for sm_{architecture}")
    programs = [
        (*key, names[first : first + NAMES_PER_PROGRAM])
        for key, names in chosen.items()
        for first in range(0, len(names), NAMES_PER_PROGRAM)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda program: compile_for(architecture, recorder, *program), programs))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_is_launched_and_compiles(architecture):
    recorder = recorded_on(architecture, FEW_DTYPES, (False,))
    chosen = choose(recorder, ARCHITECTURES.index(architecture), len(ARCHITECTURES))
    if architecture == ARCHITECTURES[0]:
        for expression, source, name in recorder.expressions:
            chosen[source, expression].append(name)
    with_expression = {(source, name.partition("<")[0]) for _, source, name in recorder.expressions}
    in_sources = {
        (path.relative_to(loader.SOURCES).as_posix(), kernel)
        for path in loader.SOURCES.rglob("*.cu")
        for kernel in GLOBAL.findall(path.read_text())
    }
    assert set(families(recorder)) | with_expression == in_sources
    compile_all(architecture, recorder, chosen)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_family_compiles(architecture):
    recorder = recorded_on(architecture)
    compile_all(architecture, recorder, choose(recorder, 0, 1))
