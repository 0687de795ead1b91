"""What a comparison sort compares: codes in their natural order, or keys by an expression of the user.

An expression is CUDA C++ in ``a`` and ``b``, as CuPy's elementwise kernels take them, such as ``"a % 10 < b % 10"``. It
becomes a function in front of the kernels' source, so it is compiled with them, and CuPy's cache tells expressions
apart by the source text.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dtypes import device_key
from .loader import FREE_SHARED_BYTES, compile_options, launch, read_source, require_cupy

# Names that an expression sees for the values of a dtype.
CXX_TYPES = {
    "?": "bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "l": "long long",
    "L": "unsigned long long",
    "q": "long long",
    "Q": "unsigned long long",
    "f": "float",
    "d": "double",
    "M": "long long",
    "m": "long long",
    "F": "Complex<float>",
    "D": "Complex<double>",
}

PRELUDE = """namespace gpusort {{
struct UserLess {{
    template <class Key>
    static __device__ __forceinline__ bool less(const Key& a, const Key& b) {{
        return bool(
#line 1 "less"
{expression}
        );
    }}
}};
}}
#line 1 "{source}"
"""


@dataclass(frozen=True)
class Comparison:
    """How keys of one dtype are compared on the device.

    Attributes
    ----------
    source : str
        C++ type that loads a key as the code the kernels compare.
    sink : str
        C++ type that stores a code as the key it came from; formatted with the type of the positions.
    code : str
        C++ type of the codes.
    code_bytes : int
        Bytes of a code.
    less : str
        C++ type whose ``less(a, b)`` compares two codes.
    expression : str or None
        The user's, if there is one.
    """

    source: str
    sink: str
    code: str
    code_bytes: int
    less: str
    expression: str | None = None


def natural(dtype: Any, descending: bool, *, tied: bool) -> Comparison:
    """NumPy's order of a radix dtype, by codes.

    Parameters
    ----------
    dtype : dtype
    descending : bool
    tied : bool
        Whether keys that NumPy calls equal (signed zeros, NaNs) must be equal to the sort too, so that positions break
        the tie; stored keys are then those of the least code.
    """
    key = device_key(dtype, descending)
    kind = f"TiedKeys<{key.order}, {{position}}>" if tied else f"Keys<{key.order}>"
    return Comparison(kind.format(position="u32"), kind, f"u{8 * key.itemsize}", key.itemsize, "NaturalLess")


def by_expression(dtype: Any, less: str, descending: bool) -> Comparison:
    """An order of the user.

    Raises
    ------
    TypeError
        The dtype has no C++ type here.
    """
    dtype = np.dtype(dtype)
    if dtype.char not in CXX_TYPES or not dtype.isnative:
        raise TypeError(
            f"`less` does not take keys of {dtype}: give native bool, integers, float32/64, datetime64, timedelta64 or "
            "complex keys (float16 keys: convert them to float32)."
        )
    if not isinstance(less, str) or not less.strip():
        raise TypeError(f"`less` is {less!r}; give a CUDA C++ expression in `a` and `b`, such as 'a < b'.")
    cxx = CXX_TYPES[dtype.char]
    plain = f"Plain<{cxx}, {{position}}>"
    order = "Reversed<UserLess>" if descending else "UserLess"
    return Comparison(plain.format(position="u32"), plain, cxx, dtype.itemsize, order, less)


def launch_compared(
    expression: str | None,
    source: str,
    name: str,
    blocks: int,
    threads: int,
    arguments: tuple[Any, ...],
    shared_bytes: int = 0,
) -> None:
    """Launch a kernel that may use the user's expression; see `loader.launch`."""
    if expression is None:
        launch(source, name, blocks, threads, arguments, shared_bytes)
    else:
        launch_expression(expression, source, name, blocks, threads, arguments, shared_bytes)


def launch_expression(
    expression: str,
    source: str,
    name: str,
    blocks: int,
    threads: int,
    arguments: tuple[Any, ...],
    shared_bytes: int = 0,
) -> None:
    """Launch a kernel that is compiled with an expression.

    Raises
    ------
    ValueError
        The expression does not compile; the message is the compiler's.
    """
    if blocks <= 0:
        return
    device = require_cupy().cuda.runtime.getDevice()
    function = _compiled(expression, source, name, shared_bytes, device)
    function((blocks,), (threads,), arguments, shared_mem=shared_bytes)


def with_expression(expression: str, source: str) -> str:
    """A source file with an expression in front of it."""
    return PRELUDE.format(expression=expression, source=source) + read_source(source)


@functools.lru_cache(maxsize=256)  # each entry keeps a compiled module: expressions may come from a loop
def _compiled(expression: str, source: str, name: str, shared_bytes: int, device: int) -> Any:
    cupy = require_cupy()
    code = with_expression(expression, source)
    module = cupy.RawModule(code=code, options=compile_options(), name_expressions=(name,))
    try:
        function = module.get_function(name)
    except cupy.cuda.compiler.CompileException as error:
        raise ValueError(
            f"`less` does not compile: {expression!r}; give a CUDA C++ expression in `a` and `b`.\n{error}"
        ) from error
    if shared_bytes > FREE_SHARED_BYTES:
        function.max_dynamic_shared_size_bytes = shared_bytes
    return function
