"""Constants of the CUDA C++ sources, read from the sources: each is defined once, in C++."""

from __future__ import annotations

import functools
import re

from .loader import whole_text

_DEFINITION = re.compile(r"constexpr (?:int|u32|u64|unsigned|Offset) (k\w+) = ([^;{}]+);")
_NAME = re.compile(r"\bk[A-Z]\w*")


@functools.cache
def _definitions(source: str) -> dict[str, str]:
    """The constants of a file and of the files that it includes."""
    return dict(_DEFINITION.findall(whole_text(source)))


def cxx_constant(source: str, name: str) -> int:
    """Read an integer constant at namespace scope from a file below ``kernels/`` or a file that it includes."""
    expression = _NAME.sub(lambda found: str(cxx_constant(source, found[0])), _definitions(source)[name])
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}))
