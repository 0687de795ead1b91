"""The drawings of the documents: ``python -m docs.drawings`` writes them.

A function draws one picture, and its docstring is the text that is read in place of it. Numbers in examples are
computed.
"""

from . import graphs, kernels  # noqa: F401 - a module registers its drawings
from .canvas import DRAWINGS

__all__ = ["DRAWINGS"]
