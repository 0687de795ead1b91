"""The documentation site: ``sphinx-build -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import dask_gpusort.xarray  # registers the accessor

project = "dask_gpusort"
author = "the dask_gpusort developers"
copyright = author
release = dask_gpusort.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_autosummary_accessors",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "upstream"]  # texts for other projects
templates_path = ["_templates"]
default_role = "autolink"  # a name in single quotes links to its page if it has one
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]

nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r"(cupy|dask|dask_cuda|distributed|numpy|scipy|xarray)\..*"),  # other projects
    ("py:obj", "order|dask_gpusort.scheduler_plugins"),  # an argument, and a module without a page
]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections give the types
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

# A build needs no network, so other projects' names are links only where one is certain.
if "READTHEDOCS" in os.environ:
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "cupy": ("https://docs.cupy.dev/en/stable", None),
        "dask": ("https://docs.dask.org/en/stable", None),
        "distributed": ("https://distributed.dask.org/en/stable", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "python": ("https://docs.python.org/3", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "xarray": ("https://docs.xarray.dev/en/stable", None),
    }

DOCS = Path(__file__).parent
REPORTS = sorted(DOCS.glob("../benchmarks/results/*.md"))
#: Files outside this folder that have a page of the site, and what leads to it.
PAGES = {
    "../CHANGELOG.md": "changelog.md",
    "../CONTRIBUTING.md": "development.md#contributing",
    "../benchmarks/README.md": "benchmarks.md",
    "../benchmarks/asv": "benchmarks.md#the-library-over-time",
    "../benchmarks/results": "benchmarks.md#stored-results",
    **{f"../benchmarks/results/{path.name}": f"benchmarks.md#{path.stem}" for path in REPORTS},
}
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def link_to_pages(text: str, folder: Path) -> str:
    """Let the relative links of a Markdown file work on the site, as they do where the file is read in the repository.

    Parameters
    ----------
    text : str
        Markdown.
    folder : Path
        The folder to which its links are relative.
    """

    def target(link: re.Match[str]) -> str:
        path = os.path.relpath(folder / link[1], DOCS)
        page, mark, section = PAGES.get(path, path).partition("#")
        return "/" + page + (link[2] or mark + section)

    return LINK.sub(target, text)


def read_page(app: Any, docname: str, source: list[str]) -> None:
    """Before a page is parsed."""
    if (path := Path(app.env.doc2path(docname))).suffix == ".md":
        source[0] = link_to_pages(source[0], path.parent)


def read_included(app: Any, path: Path, docname: str, source: list[str]) -> None:
    """Before a file that a page includes is parsed."""
    source[0] = link_to_pages(source[0], (app.srcdir / path).parent)


def setup(app: Any) -> None:
    """Sphinx calls this once."""
    app.connect("source-read", read_page)
    app.connect("include-read", read_included)
