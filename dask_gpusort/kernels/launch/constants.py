"""Constants of the CUDA C++ sources, read from the sources: each is defined once, in C++."""

from __future__ import annotations

import functools
import re

from .loader import SOURCES

_DEFINITION = re.compile(r"constexpr (?:int|u32|u64|unsigned|Offset) (k\w+) = ([^;{}]+);")
_INCLUDE = re.compile(r'#include\s"([^"]+)"')
_NAME = re.compile(r"\bk[A-Z]\w*")


@functools.cache
def _definitions(source: str) -> dict[str, str]:
    """The constants of a file and of the files that it includes."""
    text = (SOURCES / source).read_text("utf-8")
    included = {name: value for path in _INCLUDE.findall(text) for name, value in _definitions(path).items()}
    return included | dict(_DEFINITION.findall(text))


def cxx_constant(source: str, name: str) -> int:
    """Read an integer constant at namespace scope.

    Parameters
    ----------
    source : str
        File below ``kernels/`` that defines the constant, or includes a file that does.
    name : str
        Its C++ name, such as ``kPartBytes``: a size of a struct, which a ``static_assert`` checks.

    Returns
    -------
    int

    Raises
    ------
    KeyError
        Neither does.
    """
    expression = _NAME.sub(lambda found: str(cxx_constant(source, found[0])), _definitions(source)[name])
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}))
