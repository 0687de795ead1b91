"""Functions of several arrays, each argument drawn on its own: dtype, width, byte order, chunks and source.

NumPy is the oracle, for arrays in native byte order: of big-endian text and complex numbers its `lexsort` and its sets
are wrong. Where NumPy raises, this package raises too.
"""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import strategies as ours
from support.sorting import computed

import dask_gpusort

NUMBERS = ["?", "i1", "u1", ">i2", "u4", ">i4", "i8", ">u8", "f2", "f4", ">f8", "c8", ">c16"]
TEXT = ["S1", "S3", "S8", "S9", "<U1", ">U2", "<U5", ">U9"]
TIMES = ["M8[s]", ">M8[D]", "M8[ns]", "m8[s]", ">m8[ms]", "m8"]
DTYPES = [*map(np.dtype, (*NUMBERS, *TEXT, *TIMES))]
if da.array_expr_enabled():
    DTYPES = [dtype for dtype in DTYPES if dtype.isnative]
SOURCES = ["plain", "sliced", "reshaped", "delayed", "persisted", "unknown", "numpy"]
#: What NumPy raises for dtypes without a common one.
REFUSALS = {TypeError, np.exceptions.DTypePromotionError}
LENGTHS = st.integers(0, 40)
WORDS = np.array(["aab", "b", "", "abcdefghi", "b b", "12", "3"])


def source(array, chunks, kind):
    """A one-dimensional array, as a Dask array of some source."""
    if kind == "numpy":
        return array
    x = ours.dask_array(array, (chunks,))
    if kind == "sliced":
        longer = np.concatenate([array[:1], array, array[:2]], dtype=array.dtype)
        return ours.dask_array(longer, -1)[min(len(array), 1) : min(len(array), 1) + len(array)].rechunk((chunks,))
    if kind == "reshaped":
        held = tuple(size for size in chunks if size) or (0,)  # Dask's reshape refuses empty chunks beside others
        return ours.dask_array(array.reshape(1, -1), ((1,), held)).reshape(-1)
    if kind == "delayed":
        starts = np.cumsum([0, *chunks])
        parts = [dask.delayed(array[first : first + size]) for first, size in zip(starts, chunks, strict=False)]
        pairs = zip(parts, chunks, strict=True)
        return da.concatenate([da.from_delayed(part, (size,), array.dtype) for part, size in pairs]).astype(array.dtype)
    if kind == "persisted":
        return x.persist(scheduler="synchronous")
    return ours.forget_sizes(x) if kind == "unknown" else x


@st.composite
def arrays(draw, sizes=LENGTHS):
    """An array of a dtype of its own."""
    dtype, size = draw(st.sampled_from(DTYPES)), draw(sizes)
    if dtype.kind in "SU":
        # NumPy decodes bytes as ASCII where they meet text.
        return np.random.default_rng(draw(st.integers(0, 99))).choice(WORDS, size).astype(dtype)
    spreads = ["small"] if dtype.kind in "mM" else ["few", "small", "special", "bits"]
    return ours.make(dtype, size, draw(st.sampled_from(spreads)), draw(st.integers(0, 99)))


@st.composite
def one_source(draw, array):
    """An array, as an argument of some source and chunks."""
    return source(array, draw(ours.chunk_sizes(len(array))), draw(st.sampled_from(SOURCES)))


@st.composite
def sources(draw, given_arrays):
    """Arrays of one length, as arguments of some sources; all in the same chunks if sizes are unknown."""
    kinds = [draw(st.sampled_from(SOURCES)) for _ in given_arrays]
    chunks = [draw(ours.chunk_sizes(len(array))) for array in given_arrays]
    if "unknown" in kinds:
        kinds, chunks = ["unknown"] * len(kinds), chunks[:1] * len(chunks)
    return [source(array, sizes, kind) for array, sizes, kind in zip(given_arrays, chunks, kinds, strict=True)]


def native(array):
    return array.astype(array.dtype.newbyteorder("="))


def outcome(call):
    """The results of a call as arrays, or the exception that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = call()
            found = found if isinstance(found, (tuple, list)) else (found,)
            return [computed(one) if isinstance(one, da.Array) else np.asarray(one) for one in found]
        except (TypeError, ValueError) as error:
            return error


def check(count, exchange, found, wanted):
    """Assert that two calls give equal arrays of a dtype, or that both raise."""
    with dask.config.set({"gpusort.groups": count, "gpusort.exchange": exchange}):
        got = outcome(found)
    expected = outcome(wanted)
    if isinstance(got, Exception) or isinstance(expected, Exception):
        assert {type(got), type(expected)} <= REFUSALS, (got, expected)
        return
    for mine, theirs in zip(got, expected, strict=True):
        assert native(mine).dtype == native(theirs).dtype
        np.testing.assert_array_equal(mine, theirs)


def membership(elements, test):
    """Whether NumPy calls each element equal to one of the others; unlike `numpy.isin`, whatever their number."""
    found = np.zeros(len(elements), bool)
    for number in range(len(test)):
        found |= elements == test[number : number + 1]
    return found


def alike(first, second):
    """Both in the dtype in which NumPy joins them."""
    dtype = np.concatenate([first[:0], second[:0]]).dtype
    return first.astype(dtype), second.astype(dtype)


def rises(first, second):
    """Whether sorted arrays are sorted in their common dtype; numbers as text are not."""
    pair = outcome(lambda: alike(first, second))
    return isinstance(pair, Exception) or all(
        np.argsort(one, kind="stable").tolist() == list(range(len(one))) for one in pair
    )


ORACLES = {
    "isin": membership,
    "setdiff1d": lambda a, b: np.unique(a)[~membership(np.unique(a), b)],
    "intersect1d": lambda a, b: np.intersect1d(*alike(a, b)),
    "setxor1d": lambda a, b: np.setxor1d(*alike(a, b)),
    "union1d": np.union1d,
    "searchsorted": lambda a, b: np.searchsorted(*alike(a, b)),
    "merge_sorted": lambda a, b: np.sort(np.concatenate([a, b])),
}


def results(data, name, first, second):
    """A call of the function, and of NumPy's for arrays in native byte order."""
    if name == "keys":
        third, *others = (data.draw(arrays(sizes=st.just(len(first)))) for _ in range(3))
        x, *values = data.draw(sources([first, third, *others]))
        keys = [native(one) for one in (first, third, *others)]
        at = np.argsort(keys[0], kind="stable")
        return (
            lambda: [dask_gpusort.lexsort((x, *values)), *dask_gpusort.sort_by_key(x, *values)],
            lambda: [np.lexsort(keys), *(one[at] for one in keys)],
        )
    if name in ("searchsorted", "merge_sorted"):
        first, second = np.sort(first), np.sort(second)
        assume(rises(native(first), native(second)))
    x, y = (data.draw(one_source(one)) for one in (first, second))
    first, second = native(first), native(second)
    return lambda: getattr(dask_gpusort, name)(x, y), lambda: ORACLES[name](first, second)


@pytest.mark.parametrize("name", [*ORACLES, "keys"])
@settings(max_examples=12 if settings().max_examples < 100 else 400)
@given(
    st.data(), arrays(), arrays(), st.sampled_from([None, 1, 3]), st.sampled_from(["auto", "join", "gather", "tasks"])
)
def test_arguments_of_any_dtypes_and_sources(name, data, first, second, count, exchange):
    found, wanted = results(data, name, first, second)
    check(count, exchange, found, wanted)
