"""Workflows, templates and the citation fit their schemas, and name commands, files and versions that exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import check_jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ISSUES = ROOT / ".github" / "ISSUE_TEMPLATE"
#: Files by the name of their schema, which check-jsonschema contains.
SCHEMAS = {
    "citation-file-format": [ROOT / "CITATION.cff"],
    "dependabot": [ROOT / ".github" / "dependabot.yml"],
    "github-issue-config": [ISSUES / "config.yml"],
    "github-issue-forms": [ISSUES / "bug_report.yml", ISSUES / "feature_request.yml"],
    "github-workflows": WORKFLOWS,
    "readthedocs": [ROOT / ".readthedocs.yaml"],
}
#: What a step may call, besides files of this repository. The installed extra has the tools.
COMMANDS = {"python", "ruff", "mypy", "git", "actionlint", "sphinx-build", "test", "gh", "if", "else", "fi", "number=$"}
PATH = re.compile(r"(?<![\w/.:-])((?:tests|\.ci|docs)(?:/[\w.]+)*)")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for job in load(path)["jobs"].values():
            yield from ((path.name, step) for step in job["steps"])


def commands() -> Iterator[tuple[str, str]]:
    for name, step in steps():
        lines = step.get("run", "").replace("\\\n", " ").splitlines()
        yield from ((name, line.strip()) for line in lines)


def oldest(package: str) -> str:
    """The lower bound of a dependency."""
    extras = PROJECT["optional-dependencies"]
    text = " ".join([*PROJECT["dependencies"], *extras["distributed"], *extras["examples"]])
    found = re.search(rf"\b{package}(?:\[\w+\])?>=([\d.]+)", text)
    assert found, package
    return found[1]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_fits_its_schema(schema: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        check_jsonschema.main(["--builtin-schema", f"vendor.{schema}", *map(str, SCHEMAS[schema])])
    assert done.value.code == 0, capsys.readouterr()


def test_steps_call_commands_and_files_that_exist() -> None:
    unknown = [
        (name, line)
        for name, line in commands()
        if not (ROOT / line.split()[0]).is_file() and re.split(r"[ (]", line)[0] not in COMMANDS
    ]
    assert unknown == []
    paths = {(name, path) for name, line in commands() for path in PATH.findall(line) if "_build" not in path}
    assert paths
    assert {(name, path) for name, path in paths if not (ROOT / path).exists()} == set()


def test_steps_install_extras_that_exist() -> None:
    extras = {extra for _, line in commands() for extra in re.findall(r"'\.\[(\w+)\]'", line)}
    assert {"test", "docs"} <= extras <= {*PROJECT["optional-dependencies"]}


def test_every_supported_python_is_tested() -> None:
    prefix = "Programming Language :: Python :: "
    supported = [name.removeprefix(prefix) for name in PROJECT["classifiers"] if name.startswith(prefix + "3.")]
    matrix = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == supported
    assert PROJECT["requires-python"] == f">={supported[0]}"


@pytest.mark.parametrize("path", [".ci/run", ".ci/oldest", ".github/workflows/ci.yml", ".github/workflows/release.yml"])
def test_the_oldest_versions_are_those_of_the_package(path: str) -> None:
    text = (ROOT / path).read_text()
    for package, suffix in (("dask", ""), ("distributed", ""), ("numpy", ".*"), ("xarray", "")):
        found = set(re.findall(rf"\b{package}==([\w.]+\*?)", text))
        assert found <= {oldest(package) + suffix}, package
    assert f"dask=={oldest('dask')}" in text


def test_the_recipe_of_conda_has_the_bounds_of_the_package() -> None:
    text = (ROOT / "conda" / "recipe.yaml").read_text()
    context = yaml.safe_load(text)["context"]
    recipe = yaml.safe_load(text.replace("${{ python_min }}", context["python_min"]))
    of_project = {"run": PROJECT["dependencies"], "run_constraints": PROJECT["optional-dependencies"]["distributed"]}
    of_project["host"] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for section, texts in of_project.items():
        wanted = {one.name: one.specifier for one in map(Requirement, texts) if one.name != "bokeh"}
        if section == "run":
            wanted["python"] = SpecifierSet(PROJECT["requires-python"])
        lines = [line.replace("dask-core ", "dask ").partition(" ") for line in recipe["requirements"][section]]
        found = {name: bounds for name, _, bounds in lines}
        assert {name: SpecifierSet(found[name]) for name in wanted} == wanted
        assert section == "host" or found.keys() == wanted.keys()
    assert context["python_min"] == PROJECT["requires-python"].removeprefix(">=")
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license"] == PROJECT["license"]
