"""Imports go one way, and what is not needed is not imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dask_gpusort

ROOT = Path(dask_gpusort.__file__).parent

#: Rooms from the entrance inwards: each imports only from rooms behind it.
ROOMS = [
    "__init__",
    "register",
    "gpu_cluster",
    "prompt",
    "api",
    "arguments",
    "graph",
    "cost",
    "plan",
    "chunk",
    "kernels",
    "order",
]
#: These import nothing of ours but themselves.
LEAVES = {"keys", "table", "network", "errors", "config"}

FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def room_of(path):
    return path.parts[0].removesuffix(".py")


def imports_of(path):
    """Absolute dotted names of everything a file imports, wherever in it."""
    package = ["dask_gpusort", *path.parts[:-1]]
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)


def ours(path):
    """Rooms of the package that a file imports from."""
    known = {*ROOMS, *LEAVES}
    parts = [name.split(".") for name in imports_of(path)]
    return {part[1] for part in parts if part[0] == "dask_gpusort" and len(part) > 1 and part[1] in known}


def theirs(path):
    return {name.partition(".")[0] for name in imports_of(path)} - {"dask_gpusort"}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_go_inwards(path):
    room = room_of(path)
    if room in LEAVES:
        assert ours(path) <= {room}
        return
    assert room in ROOMS, f"{path} is in a room that nobody has planned"
    inner = set(ROOMS[ROOMS.index(room) + 1 :]) | LEAVES
    assert ours(path) <= inner | {room}


@pytest.mark.parametrize(
    "path", [path for path in FILES if room_of(path) in {"chunk", "kernels", "order", *LEAVES}], ids=str
)
def test_inner_rooms_do_not_know_dask(path):
    known = {"dask"} if room_of(path) == "config" else set()
    assert theirs(path) & {"dask", "distributed"} <= known


@pytest.mark.parametrize("path", FILES, ids=str)
def test_distributed_is_known_to_the_engine_and_the_plugins_alone(path):
    if not path.name.startswith(("p2p", "prompt")):
        assert "distributed" not in theirs(path)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_cupy_is_known_to_its_own_files_alone(path):
    if room_of(path) != "kernels" and not path.name.startswith("cupy"):
        assert "cupy" not in theirs(path)


_WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import dask.array as da
import numpy as np
import dask_gpusort

x = da.from_array(np.arange(100)[::-1], chunks=7)
for exchange in ("auto", "gather", "tasks", "device"):
    assert (dask_gpusort.sort(x, exchange=exchange).compute() == np.arange(100)).all()
assert (dask_gpusort.argsort(x).compute() == np.arange(100)[::-1]).all()
loaded = {{name.partition(".")[0] for name in sys.modules}}
assert not loaded & {refused}, loaded & {refused}
"""


def run_python(code):
    # The package under test may not be installed.
    path = [str(ROOT.parent), *filter(None, sys.path)]
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "refused", [("cupy", "cupy_backends"), ("distributed",), ("cupy", "distributed", "zarr", "pandas")], ids=" ".join
)
def test_threads_need_neither_cupy_nor_distributed(refused):
    run_python(_WITHOUT.format(refused=set(refused)))


def test_importing_is_cheap():
    run_python(
        "import dask.array\nbefore = set(sys.modules)\nimport dask_gpusort\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert not new & {'distributed', 'cupy', 'pandas', 'hypothesis'}, new"
    )


PUBLIC = [
    "argsort",
    "cluster",
    "explain",
    "is_sorted",
    "lexsort",
    "merge_sorted",
    "register",
    "sort",
    "sort_by_key",
    "unregister",
    "warm_up",
]


def test_public_names():
    assert sorted(dask_gpusort.__all__) == PUBLIC
    for name in dask_gpusort.__all__:
        assert getattr(dask_gpusort, name).__doc__
