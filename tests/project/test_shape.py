"""Limits on lines and parameters of functions, and no constants of the kernels repeated in Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import mutants
from support.marks import for_each

import dask_gpusort

ROOT = Path(dask_gpusort.__file__).parent
PYTHON = sorted(ROOT.rglob("*.py"))
CUDA = sorted(ROOT.rglob("*.cu*"))

#: Limits for a function: lines without its docstring, and parameters.
PYTHON_LINES, PYTHON_PARAMETERS = 60, 8
#: Limits for kernels and device functions: lines with the signature, and parameters. A kernel may have more
#: parameters, because they are its launch interface.
CUDA_LINES, DEVICE_PARAMETERS = 40, 8

#: Name of a function and opening bracket of its parameters, in code without comments and attributes.
_FUNCTION = re.compile(r"(?:__global__|__device__)[^;{}()]*?\b(\w+)\(")


def python_functions(path):
    """Name, number of lines without the docstring, and number of parameters of every function of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            lines = node.end_lineno - node.lineno + 1 - (docstring.count("\n") + 1 if docstring else 0)
            arguments = node.args
            yield node.name, lines, len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])


def closing(text, start, pair):
    """Index after the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == pair[0]) - (text[index] == pair[1])
        if depth == 0:
            return index + 1
    raise AssertionError(f"a bracket is not closed: {text[start : start + 80]}")


def split_parameters(parameters):
    """Number of parameters. Commas inside brackets do not count."""
    depth, count = 0, bool(parameters.strip())
    for character in parameters:
        depth += (character in "<([") - (character in ">)]")
        count += character == "," and depth == 0
    return int(count)


def cuda_functions(path):
    """Name, lines and parameters of every kernel and device function of a file. Kernels have 0 parameters here."""
    text = re.sub(r"//[^\n]*", "", path.read_text())
    text = re.sub(r"__launch_bounds__\([^()]*\)|__align__\(\d+\)", "", text)
    for found in _FUNCTION.finditer(text):
        ends = closing(text, found.end() - 1, "()")
        body = re.compile(r"[^;{]*([;{])").match(text, ends)
        if body[1] == "{":
            parameters = 0 if "__global__" in found[0] else split_parameters(text[found.end() : ends - 1])
            last = closing(text, body.end() - 1, "{}")
            yield found[1], text[found.start() : last].count("\n") + 1, parameters


@for_each(PYTHON)
def test_python_functions_are_short(path):
    parameters = 99 if path.parent.name == "api" else PYTHON_PARAMETERS  # public signatures are NumPy's
    large = [found for found in python_functions(path) if found[1] > PYTHON_LINES or found[2] > parameters]
    assert not large, "split these functions, or pass one object for several parameters (name, lines, parameters)"


@for_each(CUDA)
def test_device_functions_are_short(path):
    large = [found for found in cuda_functions(path) if found[1] > CUDA_LINES or found[2] > DEVICE_PARAMETERS]
    assert not large, "split these functions, or make parameters members of an agent (name, lines, parameters)"


def test_functions_of_both_languages_are_found():
    assert sum(1 for path in CUDA for _ in cuda_functions(path)) > 250
    assert sum(1 for path in PYTHON for _ in python_functions(path)) > 700


def test_python_repeats_no_constant_of_the_kernels():
    """C++ constants are named ``kName``. Python reads them with `cxx_constant`."""
    for path in PYTHON:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            repeated = re.search(r"= .*#.*\bk[A-Z]\w+|= .*#.*\bsizeof\(", line)
            assert not repeated, f"{path.relative_to(ROOT)}:{number} repeats a constant: {line.strip()}"


def test_each_planted_fault_has_one_line_of_code_to_change():
    texts = [file.read_text() for file in mutants.PACKAGE.rglob("*.py")]
    for planted in mutants.MUTANTS.values():
        for name, (old, _) in planted.items():
            assert sum(text.count(old) for text in texts) == 1, name
