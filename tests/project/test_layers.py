"""Imports follow the order of the folders, and optional packages are not imported."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
from support.marks import for_each

import dask_gpusort
from dask_gpusort.graph import _dask
from dask_gpusort.kernels.launch import loader

ROOT = Path(dask_gpusort.__file__).parent

#: Folders from the public functions inwards. Each imports only from folders after it.
FOLDERS = [
    "__init__",
    "versions",
    "gpu_cluster",
    "scheduler_plugins",
    "xarray",
    "adapters",
    "api",
    "arguments",
    "builders",
    "drivers",
    "graph",
    "plan",
    "functions",
    "chunk",
    "kernels",
    "order",
]
#: Folders of `kernels` from the public functions inwards; Python imports and C++ includes follow the same order.
KERNEL_FOLDERS = [
    "",
    "wide",
    "select",
    "msd",
    "block_sort",
    "lsd",
    "buckets",
    "ties",
    "papers",
    "merge",
    "policy",
    "keys",
    "primitives",
    "launch",
]
#: Folders and modules that import nothing else from the package.
LEAVES = {"keys", "table", "network", "config"}

FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
KERNEL_FILES = [path for path in FILES if path.parts[0] == "kernels"]
KERNEL_FILES += sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.cu*"))


def folder_of(path):
    return path.parts[0].removesuffix(".py")


def imports_of(path):
    """Absolute dotted names of all imports in a file, including those inside functions."""
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
    """Folders of the package that a file imports from."""
    known = {*FOLDERS, *LEAVES}
    parts = [name.split(".") for name in imports_of(path)]
    return {part[1] for part in parts if part[0] == "dask_gpusort" and len(part) > 1 and part[1] in known}


def theirs(path):
    return {name.partition(".")[0] for name in imports_of(path)} - {"dask_gpusort"}


@for_each(FILES)
def test_imports_follow_the_order_of_folders(path):
    folder = folder_of(path)
    if folder in LEAVES:
        assert ours(path) <= {folder}
        return
    assert folder in FOLDERS, f"{path} is in a folder that FOLDERS lacks"
    inner = set(FOLDERS[FOLDERS.index(folder) + 1 :]) | LEAVES
    assert ours(path) <= inner | {folder}


@for_each(path for path in FILES if folder_of(path) == "drivers")
def test_drivers_know_no_function(path):
    assert {name for name in imports_of(path) if name.startswith("dask_gpusort.functions")} <= {
        f"dask_gpusort.functions.program.{name}" for name in ("Ends", "Given", "Made", "Shared", "Superstep")
    } | {"dask_gpusort.functions.program"}


def kernel_folder(path):
    """Folder of a file below `kernels`, or an empty string for the files directly in `kernels`."""
    return path.parts[1] if len(path.parts) > 2 else ""


def kernel_folders_used(path):
    """Folders of `kernels` that a Python or CUDA file imports, includes or launches from."""
    text = (ROOT / path).read_text()
    used = set(re.findall(r'"([a-z_]+)/[a-z_]+\.cuh?"', text))
    if path.suffix == ".py":
        parts = [name.split(".") for name in imports_of(path)]
        used |= {part[2] for part in parts if part[:2] == ["dask_gpusort", "kernels"] and len(part) > 3}
    return used & set(KERNEL_FOLDERS)


@for_each(KERNEL_FILES)
def test_kernel_imports_and_includes_follow_the_order_of_folders(path):
    inner = KERNEL_FOLDERS[KERNEL_FOLDERS.index(kernel_folder(path)) :]
    assert kernel_folders_used(path) <= set(inner)


def test_included_cuda_files_exist():
    for path in KERNEL_FILES:
        for included in re.findall(r'#include "([^"]+)"', (ROOT / path).read_text()):
            assert (ROOT / "kernels" / included).is_file(), f"{path} includes {included}"


def with_included(name):
    """A CUDA file, and those that it includes directly or indirectly, by their paths below ``kernels/``."""
    names = re.findall(r'#include "([^"]+)"', (ROOT / "kernels" / name).read_text())
    return {name}.union(*map(with_included, names))


def test_the_text_to_compile_holds_every_file_once():
    """The kernel cache hashes this text alone."""
    sources = [path.relative_to("kernels").as_posix() for path in KERNEL_FILES if path.suffix == ".cu"]
    for source in sources:
        text = loader.whole_text(source)
        assert "#include" not in text
        for name in with_included(source):
            lines = (ROOT / "kernels" / name).read_text().splitlines()
            assert text.count(f'#line 1 "{name}"') == (name != source)
            assert {line for line in lines if not line.startswith("#")} <= set(text.splitlines())


def test_the_package_data_contain_every_cuda_file():
    patterns = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    carried = {path for pattern in patterns["dask_gpusort"] for path in ROOT.glob(pattern)}
    assert {ROOT / path for path in KERNEL_FILES if path.suffix != ".py"} <= carried


@for_each(path for path in FILES if folder_of(path) in {"functions", "chunk", "kernels", "order", *LEAVES})
def test_inner_folders_do_not_import_dask(path):
    known = {"dask"} if folder_of(path) == "config" else set()
    assert theirs(path) & {"dask", "distributed"} <= known


@for_each(FILES)
def test_only_the_gang_the_runs_and_the_plugins_import_distributed(path):
    outside = {"gang", "runs"}.isdisjoint(path.parts)
    if outside and not path.name.startswith(("scheduler_plugins", "_distributed")):
        assert "distributed" not in theirs(path)


#: Modules that import names that Dask or distributed keep private, and names that the others take of the first one.
WITH_PRIVATE_NAMES = {"graph/_dask.py"}
TAKEN_OF_DASK = {name for name in imports_of(Path("graph/_dask.py")) if re.fullmatch(r"dask(\.\w+)+", name)}


@for_each(FILES)
def test_private_names_of_dask_and_distributed_stand_in_few_modules(path):
    found = {name for name in imports_of(path) if name.partition(".")[0] in {"dask", "distributed"}}
    private = {name for name in found if any(part.startswith("_") for part in name.split("."))}
    if path.as_posix() in WITH_PRIVATE_NAMES:
        assert private
    else:
        assert not private
        modules = {name.rpartition(".")[0] for name in TAKEN_OF_DASK}
        assert not found & (TAKEN_OF_DASK - modules)


def test_another_dask_is_told_at_import():
    run_python(
        "import dask, dask.array, dask._task_spec\ndel dask._task_spec.TaskRef\n"
        "try:\n    import dask_gpusort\nexcept ImportError as error:\n    message = str(error)\n"
        "wanted = dask.__version__, \"cannot import name 'TaskRef'\", 'older dask', 'newer dask_gpusort'\n"
        "assert all(part in message for part in wanted), message"
    )


_fuse = _dask.Task.fuse


def fused_otherwise(tasks, key):
    """Tasks as one that computes the same, and hides them in another form."""
    fused = _fuse(*tasks, key=key)
    return _dask.Task(key, partial(fused.func, *fused.args[:3]), *fused.args[3:])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("substitute", None),
        ("fuse", lambda *tasks, key: tasks[-1]),
        ("fuse", lambda *tasks, key: fused_otherwise(tasks, key)),
        ("ref", lambda self: self.key),
        ("__reduce__", lambda self: (type(self), (self.key, self.func, *self.args))),
        ("__call__", lambda self, values: 0),
        ("dependencies", frozenset()),
    ],
)
def test_tasks_that_do_something_else_are_told(monkeypatch, name, change):
    _dask.check_tasks()
    monkeypatch.setattr(_dask.Task, name, change)
    with pytest.raises((TypeError, ValueError)):
        _dask.check_tasks()


@for_each(FILES)
def test_what_distributed_does_not_promise_is_imported_in_one_place(path):
    if not path.name.startswith("_distributed"):
        names = {name for name in imports_of(path) if re.match(r"distributed\.[a-z]", name)}
        assert names <= {"distributed.get_worker"}, "import it in graph/_distributed.py"


@for_each(FILES)
def test_only_the_cupy_files_import_cupy(path):
    if folder_of(path) != "kernels" and not path.name.startswith("cupy"):
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
    # The package under test need not be installed.
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
def test_sorts_on_threads_need_no_optional_package(refused):
    run_python(_WITHOUT.format(refused=set(refused)))


def test_import_loads_no_optional_package():
    run_python(
        "import dask.array\nbefore = set(sys.modules)\nimport dask_gpusort\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert not new & {'distributed', 'cupy', 'pandas', 'xarray', 'hypothesis'}, new"
    )


#: What the plugins call tasks, workers and the scheduler of distributed.
OF_DISTRIBUTED = {"state", "worker", "get_worker()", "scheduler", "self.scheduler", "self.worker"}
PLUGINS = [path for path in FILES if {"gang", "runs"} & {*path.parts} or path.name == "placement.py"]


@for_each(PLUGINS)
def test_what_plugins_use_of_distributed_is_looked_for_first(path):
    ours = pytest.importorskip("dask_gpusort.graph._distributed", exc_type=ImportError)
    wanted = {name for _, name, _ in ours._METHODS}.union(*(names for _, names in ours._ATTRIBUTES))
    used = {
        node.attr
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in OF_DISTRIBUTED
    }
    assert used <= wanted | {*ours._OF_A_SCHEDULER, *ours._OF_A_WORKER}
