"""Codes of keys are unique and have NumPy 2.5's order, for every dtype and direction."""

from __future__ import annotations

from functools import cmp_to_key

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dask_gpusort.keys import code_dtype, decode, encode, has_ties, tie_ceiling, tie_floor
from dask_gpusort.keys import codes as codes_of_keys

NATIVE = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "M8[s]", "m8[ns]", "c8"]
DTYPES = [np.dtype(d) for d in NATIVE] + [np.dtype(d).newbyteorder("S") for d in NATIVE if np.dtype(d).itemsize > 1]
UNCODED = ["c16", "g", "S3", "U2", "O", "V4", [("a", "i4")], np.dtypes.StringDType()]

dtypes = st.sampled_from(DTYPES)
directions = st.booleans()


def keys_of_bits(raw, dtype):
    """Keys of `dtype` whose bits are the low bits of `raw` (uint64)."""
    if dtype.kind == "b":
        return (raw & np.uint64(1)).astype(bool)
    code = code_dtype(dtype)
    native = raw.astype(code).view(dtype.newbyteorder("="))
    return native.astype(dtype)


def special_bits(dtype):
    """Bit patterns at which a wrong order-preserving map would fail."""
    part = np.dtype("f4") if dtype.kind == "c" else dtype
    bits = part.itemsize * 8
    edges = {0, 1, 2, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1), (1 << (bits - 1)) + 1, (1 << (bits - 1)) - 1}
    if part.kind == "f":
        quiet = np.finfo(part).nmant
        inf = ((1 << (bits - 1)) - 1) >> quiet << quiet
        payloads = {inf, inf - 1, inf + 1, inf | 1 << (quiet - 1), inf | 5, 1 << quiet, (1 << quiet) - 1}
        edges |= payloads | {p | 1 << (bits - 1) for p in payloads}
    if dtype.kind == "c":
        return sorted(a << 32 | b for a in edges for b in edges)
    return sorted(edges)


@st.composite
def key_arrays(draw, max_size=80):
    """(keys, descending): any dtype; bits of special keys, small numbers or any keys."""
    dtype = draw(dtypes)
    element = st.one_of(
        st.sampled_from(special_bits(dtype)),
        st.integers(0, 3),
        st.integers(0, (1 << 8 * dtype.itemsize) - 1),
    )
    raw = draw(hnp.arrays(np.uint64, st.integers(0, max_size), elements=element))
    return keys_of_bits(raw, dtype), draw(directions)


def bits_of(keys):
    native = np.ascontiguousarray(keys.astype(keys.dtype.newbyteorder("=")))
    return native.view(code_dtype(keys.dtype))


def less(a, b, descending):
    """Whether NumPy 2.5 sorts key a before key b. It follows NumPy's rule and does not use codes."""
    if isinstance(a, np.complexfloating):
        classes = [(np.isnan(x.real), np.isnan(x.imag)) for x in (a, b)]
        if classes[0] != classes[1]:
            return classes[0] < classes[1]
        parts = [(a.real, b.real), (a.imag, b.imag)]
        parts = [(p, q) for p, q in parts if not np.isnan(p)]
        for p, q in parts:
            if p != q:
                return bool(p > q if descending else p < q)
        return False
    missing = (a != a, b != b)  # NaN and NaT differ from themselves
    if any(missing):
        return bool(missing[0] < missing[1])
    return bool(a > b if descending else a < b)


def stable_positions(keys, descending):
    native = keys.astype(keys.dtype.newbyteorder("="))
    scalars = list(native)
    compare = lambda i, j: less(scalars[j], scalars[i], descending) - less(scalars[i], scalars[j], descending)  # noqa: E731
    return sorted(range(len(scalars)), key=cmp_to_key(compare))


@settings(max_examples=2 * settings().max_examples)
@given(key_arrays(max_size=40))
def test_codes_have_the_order_of_the_keys_and_of_numpy(drawn):
    keys, descending = drawn
    codes = encode(keys, descending=descending)
    wanted = stable_positions(keys, descending)
    for ends in (tie_floor, tie_ceiling):
        found = np.argsort(ends(codes, keys.dtype, descending=descending), kind="stable")
        assert found.tolist() == wanted
    if not descending:
        assert np.argsort(keys, kind="stable").tolist() == wanted
    elif np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        assert np.argsort(keys, descending=True, stable=True).tolist() == wanted


@given(key_arrays())
def test_round_trip_keeps_every_bit(drawn):
    keys, descending = drawn
    before = keys.tobytes()
    codes = encode(keys, descending=descending)
    assert codes.dtype == code_dtype(keys.dtype)
    assert codes.dtype.isnative
    assert keys.tobytes() == before
    back = decode(codes, keys.dtype, descending=descending)
    assert back.dtype == keys.dtype
    assert back.tobytes() == before
    assert keys.size == 0 or np.shares_memory(back, codes)


@given(key_arrays(), directions)
def test_tie_ends_agree_with_numpy_equality(drawn, from_above):
    keys, descending = drawn
    codes = encode(keys, descending=descending)
    floor = tie_floor(codes, keys.dtype, descending=descending)
    ceiling = tie_ceiling(codes, keys.dtype, descending=descending)
    if not has_ties(keys.dtype):
        assert floor is codes
        assert ceiling is codes
        return
    assert (floor <= codes).all()
    assert (codes <= ceiling).all()
    for ends in (floor, ceiling):
        assert np.array_equal(tie_floor(ends, keys.dtype), floor)
        assert np.array_equal(tie_ceiling(ends, keys.dtype), ceiling)
    # An end ties with its key. The next code beyond it does not.
    ends, step = (ceiling, 1) if from_above else (floor, -1)
    scalars = decode(ends.copy(), keys.dtype, descending=descending).astype(keys.dtype.newbyteorder("="))
    limit = np.iinfo(codes.dtype).max if from_above else 0
    for key, end, scalar in zip(keys.astype(scalars.dtype), ends.tolist(), scalars, strict=True):
        assert not less(key, scalar, descending)
        assert not less(scalar, key, descending)
        if end != limit:
            beyond = decode(np.array([end + step], codes.dtype), scalars.dtype, descending=descending)[0]
            assert less(key, beyond, descending) or less(beyond, key, descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.itemsize <= 2], ids=str)
def test_every_key_of_a_narrow_dtype(dtype, descending):
    count = 2 if dtype.kind == "b" else 1 << 8 * dtype.itemsize
    keys = keys_of_bits(np.arange(count, dtype=np.uint64), dtype)
    codes = encode(keys, descending=descending)
    assert np.array_equal(np.sort(codes), np.arange(count))
    ordered = decode(np.arange(count).astype(codes.dtype), dtype, descending=descending).astype(dtype.newbyteorder("="))
    # Each key is at least its predecessor, and NaNs are last.
    earlier, later = (ordered[1:], ordered[:-1]) if descending else (ordered[:-1], ordered[1:])
    numbers = count - int(np.isnan(ordered).sum()) if dtype.kind == "f" else count
    assert (earlier <= later)[: numbers - 1].all()
    assert dtype.kind != "f" or np.isnan(ordered[numbers:]).all()
    floor = tie_floor(np.arange(count).astype(codes.dtype), dtype)
    equal = ordered[1:] == ordered[:-1]
    both_nan = (ordered[1:] != ordered[1:]) & (ordered[:-1] != ordered[:-1])
    same = np.append(False, equal | both_nan)
    want = np.maximum.accumulate(np.where(same, 0, np.arange(count)))
    assert np.array_equal(floor, want)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_shape_strides_and_number_of_blocks(dtype, descending, monkeypatch):
    monkeypatch.setattr(codes_of_keys, "BLOCK_KEYS", 1 << 14)
    raw = np.random.default_rng(1).integers(0, 1 << 64, (2, 50_001), dtype=np.uint64)
    keys = keys_of_bits(raw.reshape(-1), dtype).reshape(raw.shape)
    want = encode(keys, descending=descending)
    parts = [encode(row[i : i + 999], descending=descending) for row in keys for i in range(0, 50_001, 999)]
    assert np.array_equal(np.concatenate(parts), want.reshape(-1))
    for view in (keys[:, ::-3], keys.T, keys[:, :0], keys[0, :1].reshape(()), np.broadcast_to(keys[0, :2], (3, 2))):
        codes = encode(view, descending=descending)
        assert codes.shape == view.shape
        assert codes.flags.c_contiguous
        assert decode(codes.T, dtype, descending=descending).T.tobytes() == view.tobytes()
        assert np.array_equal(tie_floor(codes.T, dtype).T, tie_floor(codes, dtype))


def test_known_codes_of_float32():
    values = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan, -np.nan], np.float32)
    count = 2**32 - 2 * (2**23 - 1)
    quiet = 2**22 - 1  # index of the default NaN among the positive NaNs
    want = [0, count // 2 - 1, count // 2, count - 1, count + quiet, 2**32 - 1 - quiet]
    assert encode(values).tolist() == want
    assert encode(values, descending=True).tolist() == [count - 1 - c for c in want[:4]] + want[4:]


@pytest.mark.parametrize("dtype", UNCODED, ids=str)
def test_message_names_dtypes_without_codes(dtype):
    dtype = np.dtype(dtype)
    assert code_dtype(dtype) is None
    for call in (
        lambda: encode(np.empty(1, dtype)),
        lambda: decode(np.zeros(1, "u8"), dtype),
        lambda: tie_floor(np.zeros(1, "u8"), dtype),
        lambda: has_ties(dtype),
    ):
        with pytest.raises(TypeError, match="by comparison"):
            call()


def test_codes_of_another_width_are_refused():
    with pytest.raises(TypeError, match="have dtype uint32, got uint64"):
        decode(np.zeros(1, "u8"), "f4")
