"""Hypothesis strategies for the property tests: dtypes, data, chunkings, and the options of a sort.

Data come from a seed, a length and a named distribution. Drawing each element would be slow, and a failing example
still shrinks to the shortest length and the simplest distribution.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
from hypothesis import strategies as st
from numpy.dtypes import StringDType
from numpy.lib import NumpyVersion

from support import oracle

Array = np.ndarray[Any, np.dtype[Any]]

INTEGERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
TIMES = ["M8[D]", "M8[ns]", "m8[s]", "m8"]
CODED = [np.dtype(name) for name in (*INTEGERS, *FLOATS, "c8", *TIMES)]
SWAPPED = [np.dtype(name) for name in (">i4", ">u8", ">f4", ">f8", ">c8", ">M8[us]", ">m8[ms]")]

PLAIN_RECORD = np.dtype([("name", "S3"), ("weight", "f4"), ("count", "i2")])
NESTED_RECORD = np.dtype([("when", "M8[D]"), ("inner", [("z", "c8"), ("flag", "?")]), ("position", "U2")])
ARRAY_RECORD = np.dtype([("vector", "i2", (2, 2)), ("number", ">f8")])
PADDED_RECORD = np.dtype([("small", "u1"), ("large", "f8"), ("tiny", "i1")], align=True)
RECORDS = [PLAIN_RECORD, NESTED_RECORD, ARRAY_RECORD, PADDED_RECORD]

FIXED_STRINGS = [np.dtype(name) for name in ("S1", "S5", "S17", "U1", "U4", ">U3")]
LONG_STRINGS = [StringDType(), StringDType(na_object=math.nan)]
WIDE = [np.dtype(name) for name in ("c16", ">c16", "V3", "V9")] + [np.dtype(np.longdouble)]
OBJECTS = [np.dtype(object)]
COMPARED = [*WIDE, *FIXED_STRINGS, *LONG_STRINGS, *RECORDS, *OBJECTS]
EVERY = [*CODED, *SWAPPED, *COMPARED]
if da.array_expr_enabled():
    # With array query planning, Dask converts chunks to the native, packed dtype when it joins them.
    COMPARED = [dtype for dtype in COMPARED if dtype.isnative and dtype.names is None]
    EVERY = [*CODED, *COMPARED]


class Unknown:
    """Like pandas.NA: a comparison with itself has no truth value."""

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("no truth value")

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()

#: Dtypes in which two keys can be equal although their bits differ.
WITH_TIES = [np.dtype(name) for name in ("f2", "f4", "f8", ">f8", "c8", "c16")] + [
    np.dtype(np.longdouble),
    PLAIN_RECORD,
]

#: Distributions whose keys are in order, or parts of them.
ORDERED = ("sorted", "reversed", "reversed ties", "sorted parts", "sorted but for a tail")
DISTRIBUTIONS = ("constant", "few", "special", "small", "bits", "zipf", *ORDERED)

#: Up to 2.4, NumPy compares variable-width strings only up to the first NUL.
NUL_COUNTS = NumpyVersion(np.__version__) >= "2.5.0"

_LETTERS = ["", "a", "b", "ab", "B", "a\0b", "zz", "\u00e9", "\u00df", "\uffff", "\U0001f600", "aaaaaaaaaaaaaaaaaaaa"]


def make(dtype: Any, size: int, distribution: str = "bits", seed: int = 0) -> Array:
    """Keys of a dtype, drawn from a distribution.

    ===========  ====================================================================
    constant     one value
    few          three values, so many ties
    special      NaN of both signs and several payloads, signed zeros, infinities,
                 subnormals, NaT, the ends of the dtype's range
    small        small integers, cast to the dtype
    bits         random bits, if every bit pattern is a key
    zipf         Zipf(1.2) ranks
    sorted       random bits in order
    reversed     random bits in reverse order

    reversed ties, sorted parts (at random places), sorted but for a tail
    ===========  ====================================================================
    """
    rng = np.random.default_rng(seed)
    dtype = _dtype(dtype)
    if dtype.names is not None:
        return _records(rng, dtype, size, distribution)
    if distribution in ORDERED:
        keys = make(dtype, size, "special" if distribution == "reversed ties" else "bits", seed)
        if distribution == "sorted but for a tail":
            return np.concatenate([oracle.sort(keys[: -size // 8]), keys[-size // 8 :]])
        keys = oracle.sort(keys, descending="reversed" in distribution)
        parts = np.array_split(keys, 4 if distribution == "sorted parts" else 1)
        return np.concatenate([parts[number] for number in rng.permutation(len(parts))])
    pool = _pool(rng, dtype, size, distribution)
    if distribution in ("constant", "few"):
        pool = pool[rng.integers(0, len(pool), 1 if distribution == "constant" else 3)]
    if distribution == "zipf":
        return pool[np.minimum(rng.zipf(1.2, size), len(pool)) - 1]
    return pool[rng.integers(0, len(pool), size)]


def _dtype(dtype: Any) -> Any:
    return dtype if isinstance(dtype, StringDType) else np.dtype(dtype)


def _pool(rng: np.random.Generator, dtype: Any, size: int, distribution: str) -> Array:
    """Values to choose from, never empty."""
    if distribution == "small":
        return _cast(np.arange(-5, 6) if dtype.kind in "ifcmM" else np.arange(11), dtype)
    if distribution == "special" or (distribution == "few" and rng.integers(2)):
        return special(dtype)
    return random_bits(rng, dtype, max(size, 3))


def _cast(numbers: Array, dtype: Any) -> Array:
    if dtype.kind in "OT":
        texts = np.array([str(abs(number)) for number in numbers], object)
        return texts.astype(dtype) if dtype.kind == "T" else numbers.astype(object)
    if dtype.kind == "V":
        return np.array([bytes([number]) * dtype.itemsize for number in numbers]).view(dtype)
    if dtype.kind in "SU":
        return numbers.astype("U3").astype(dtype)
    return numbers.astype(dtype)


def _letters(dtype: Any) -> list[str]:
    return [letters for letters in _LETTERS if dtype.kind == "U" or NUL_COUNTS or "\0" not in letters]


def random_bits(rng: np.random.Generator, dtype: Any, size: int) -> Array:
    """Random bits if every bit pattern is a key, else random keys."""
    if dtype.kind == "?" or dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    if dtype.kind == "O":
        return _objects(rng.integers(-1000, 1000, size).tolist())
    if dtype.kind in "UT":
        texts = ["".join(rng.choice(_letters(dtype), 3)) for _ in range(size)]
        return np.array(texts, object).astype(dtype) if dtype.kind == "T" else np.array(texts).astype(dtype)
    if dtype.kind == "S":
        return rng.integers(0, 4, (size, dtype.itemsize), np.uint8).view(dtype).ravel()
    if dtype.char == "g":
        return rng.standard_normal(size).astype(dtype) * np.exp2(rng.integers(-900, 900, size))
    return np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).copy()


def special(dtype: Any) -> Array:
    """Extreme and special values of a dtype."""
    if dtype.kind == "f":
        return _special_floats(dtype)
    if dtype.kind == "c":
        part = _special_floats(np.dtype("f4" if dtype.itemsize == 8 else "f8"))
        chosen = part[[0, 1, 2, 3, 4, 5, 6, 9, 10]]
        pairs = np.stack(np.meshgrid(chosen, chosen), axis=-1).reshape(-1, 2)
        return np.ascontiguousarray(pairs).view(f"c{dtype.itemsize}").ravel().astype(dtype)
    if dtype.kind in "mM":
        info = np.iinfo(np.int64)
        return (
            np.array([info.min, info.min + 1, -1, 0, 1, info.max], np.int64).astype(dtype.byteorder + "i8").view(dtype)
        )
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype)
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind == "O":
        return _objects([1, 1.0, True, Fraction(1, 2), 0, 0.5, math.nan, 10**30, -(10**30), False])
    if dtype.kind == "T" and hasattr(dtype, "na_object"):
        return np.array([*_letters(dtype), dtype.na_object], object).astype(dtype)
    if dtype.kind in "UT":
        return np.array(_letters(dtype), object if dtype.kind == "T" else None).astype(dtype)
    if dtype.kind == "S":
        return np.array([b"", b"a", b"a\0a", b"\xff", b"\x7f", b"\0b", b"aaaaaaaaaaaaaaaaa"]).astype(dtype)
    return np.array([b"\0", b"\0\1", b"\1", b"\xff\xff\xff", b"\xff\0\xff"]).astype(f"S{dtype.itemsize}").view(dtype)


def _objects(elements: list[Any]) -> Array:
    found = np.empty(len(elements), object)
    found[:] = elements
    return found


def _special_floats(dtype: np.dtype[Any]) -> Array:
    info = np.finfo(dtype)
    numbers = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        info.max,
        info.min,
        info.tiny,
        info.smallest_subnormal,
        np.nan,
        -np.nan,
    ]
    values = np.array(numbers, dtype.newbyteorder("="))
    if dtype.char == "g":
        return values
    # Quiet and signalling NaNs of both signs, with payloads.
    bits = dtype.itemsize * 8
    quiet, sign = 1 << (info.nmant - 1), 1 << (bits - 1)
    exponent = ((1 << bits) - 1) ^ sign ^ ((1 << info.nmant) - 1)
    payloads = [exponent | payload | side for payload in (1, quiet, quiet | 5, 2 * quiet - 1) for side in (0, sign)]
    nans = np.array(payloads, f"u{dtype.itemsize}").view(dtype.newbyteorder("="))
    # A cast may turn a signalling NaN into a quiet one; swapping the bytes does not.
    native = np.concatenate([values, nans])
    return native if dtype.isnative else native.byteswap().view(dtype)


def _records(rng: np.random.Generator, dtype: np.dtype[Any], size: int, distribution: str) -> Array:
    record = np.zeros(size, dtype)
    for number, name in enumerate(dtype.names or ()):
        field, _ = dtype.fields[name][:2]  # type: ignore[index]
        # The later fields matter only where the earlier ones tie.
        spread = "few" if number == 0 and distribution == "bits" else distribution
        if spread in ORDERED:
            spread = "few"
        shape = (size, *field.shape)
        record[name] = make(field.base, math.prod(shape), spread, int(rng.integers(1 << 31))).reshape(shape)
    return record


_SIZES = st.integers(0, 120)

#: Dtypes for sorts by several keys. Objects are left out: the oracle has no dense ranks for them.
PARTS = [dtype for dtype in EVERY if _dtype(dtype).kind != "O"]


@st.composite
def several(draw: Any, dtypes: Any = PARTS, sizes: Any = _SIZES, shape: Any = None) -> list[Array]:
    """One to four arrays of keys with the same shape and different dtypes; most have ties."""
    shape = (draw(sizes),) if shape is None else draw(shape)
    count = draw(st.integers(1, 4))
    spreads = st.sampled_from(("few", "few", "special", "small", "constant", "bits"))
    return [
        make(draw(st.sampled_from(dtypes)), math.prod(shape), draw(spreads), draw(st.integers(0, 99))).reshape(shape)
        for _ in range(count)
    ]


@st.composite
def arrays(draw: Any, dtypes: Any = EVERY, sizes: Any = _SIZES, shape: Any = None) -> Array:
    """Arrays of keys, one-dimensional or with a drawn shape."""
    dtype = draw(st.sampled_from(dtypes))
    shape = (draw(sizes),) if shape is None else draw(shape)
    distribution = draw(st.sampled_from(DISTRIBUTIONS))
    seed = draw(st.integers(0, 2**32 - 1))
    return make(dtype, math.prod(shape), distribution, seed).reshape(shape)


@st.composite
def chunk_sizes(draw: Any, size: int, least: int = 1) -> tuple[int, ...]:
    """Chunk sizes of one dimension: one chunk, regular chunks, ragged or empty ones, or single elements."""
    kind = draw(st.sampled_from(("one", "regular", "ragged", "singles")[least - 1 :]))
    if kind == "one" or size == 0:
        return tuple([0] * draw(st.integers(0, 2)) + [size])
    if kind == "singles":
        return (1,) * size if size <= 40 else (size - 40, *(1,) * 40)
    if kind == "regular":
        step = draw(st.integers(max(1, size // 20), max(1, size // least)))
        return tuple(min(step, size - start) for start in range(0, size, step))
    cuts = sorted(draw(st.lists(st.integers(0, size), min_size=1, max_size=12)))
    return tuple(int(part) for part in np.diff([0, *cuts, size]))


@st.composite
def chunkings(draw: Any, shape: tuple[int, ...], least: int = 1) -> tuple[tuple[int, ...], ...]:
    """Chunk sizes of all dimensions; at `least` two in each ask for several chunks where there are as many elements."""
    return tuple(draw(chunk_sizes(size, least)) for size in shape)


@st.composite
def options(draw: Any, dtype: Any) -> dict[str, Any]:
    """Keyword arguments that select the direction and the method of a sort."""
    methods = ("auto", "radix", "merge") if _dtype(dtype) in (*CODED, *SWAPPED) else ("auto", "merge")
    return {
        "descending": draw(st.booleans()),
        "method": draw(st.sampled_from(methods)),
        "exchange": draw(exchanges),
    }


#: Exchanges that every scheduler has.
exchanges = st.sampled_from(("auto", "join", "gather", "tasks", "device"))

#: Number of exchange groups. By default, a small array is one group and needs no cuts.
groups = st.none() | st.integers(1, 9)


def dask_array(array: Array, chunks: Any, *, unknown: bool = False) -> Any:
    """A Dask array with these chunks; with `unknown`, its chunk sizes are not known."""
    # A name derived from the content would need objects to be pickled.
    darr = da.from_array(array, chunks=chunks, name=False)
    return forget_sizes(darr) if unknown else darr


def forget_sizes(darr: Any, axes: tuple[int, ...] | None = None) -> Any:
    """The same array with unknown chunk sizes."""
    axes = tuple(range(darr.ndim)) if axes is None else axes
    chunks = tuple((math.nan,) * len(sizes) if axis in axes else sizes for axis, sizes in enumerate(darr.chunks))
    return darr.map_blocks(_same, dtype=darr.dtype, chunks=chunks, meta=darr._meta)


def _same(block: Array) -> Array:
    return block
