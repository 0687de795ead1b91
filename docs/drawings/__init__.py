"""The drawings of ``docs/how``, a module for each page: ``python -m docs.drawings`` writes them.

A function draws one picture, and its docstring is the text that is read in place of it. Numbers in examples are
computed.
"""

from . import (  # noqa: F401 - a module registers its drawings
    after_a_sort,
    comparison_and_wide_keys,
    exchanges,
    global_sort,
    gpu_radix_sort,
    index,
    selection,
)
from .canvas import DRAWINGS

__all__ = ["DRAWINGS"]
