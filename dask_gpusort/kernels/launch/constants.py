"""Constants of the CUDA C++ sources, read from there: each is written once, in C++."""

from __future__ import annotations

import functools
import re

from .loader import SOURCES

_DEFINITION = re.compile(r"constexpr (?:int|u32|u64|unsigned|Offset) (k\w+) = ([^;{}]+);")
_NAME = re.compile(r"\bk[A-Z]\w*")


@functools.cache
def _definitions(source: str) -> dict[str, str]:
    return dict(_DEFINITION.findall((SOURCES / source).read_text()))


def cxx_constant(source: str, name: str) -> int:
    """Value of an integer constant at namespace scope.

    Parameters
    ----------
    source : str
        File below ``kernels/`` that defines it, and the constants that it is made of.
    name : str
        Its C++ name, such as ``kSegmentBytes``. Sizes of structs are constants too, held by a ``static_assert``.

    Raises
    ------
    KeyError
        The file does not define it.
    """
    expression = _NAME.sub(lambda found: str(cxx_constant(source, found[0])), _definitions(source)[name])
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}))
