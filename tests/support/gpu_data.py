"""Keys of named distributions, for the tests of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]
DISTRIBUTIONS = ["random", "sorted", "reversed", "equal", "few", "zipf", "low entropy", "near", "special"]


def random_bits(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> np.ndarray[Any, Any]:
    """Keys of random bits; for floats these include NaN of both signs, infinities and subnormals."""
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).copy()


def special_keys(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Extreme values; for floats also zeros and NaN of both signs, infinities and subnormals."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, 0, 1, limits.max // 2], dtype)
    if dtype.kind == "c":
        parts = special_keys(np.dtype("f4"))
        keys = np.empty(parts.size**2, dtype)
        keys.real, keys.imag = np.repeat(parts, parts.size), np.tile(parts, parts.size)
        return keys
    limits = np.finfo(dtype)
    tiny = limits.smallest_subnormal
    keys = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, tiny, -tiny, limits.max, limits.min, 1.0], dtype)
    return np.concatenate([keys, -keys])


def make_keys(dtype: Any, n: int, distribution: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Make n keys of a named distribution."""
    dtype, rng = np.dtype(dtype), np.random.default_rng([seed, n])
    keys = random_bits(rng, dtype, n)
    if distribution in ("sorted", "reversed"):
        keys = np.sort(keys)
        return np.ascontiguousarray(keys[::-1]) if distribution == "reversed" else keys
    if distribution == "equal":
        return np.full(n, keys[0] if n else 0, dtype)
    if distribution == "few":
        return keys[:16][rng.integers(0, min(n, 16), n)] if n else keys
    if distribution == "special":
        return rng.choice(special_keys(dtype), n)
    if distribution == "zipf":
        most = 1 if dtype.kind == "b" else min(10**6, np.iinfo(dtype).max if dtype.kind in "iu" else 2000)
        return np.minimum(rng.zipf(1.3, n), most).astype(dtype)
    if distribution == "low entropy" and dtype.kind != "b":  # few bits are set, so keys are skewed at every digit
        words = (part.view("u1") for part in (keys, random_bits(rng, dtype, n), random_bits(rng, dtype, n)))
        return np.bitwise_and.reduce([*words]).view(dtype)
    if distribution == "near" and dtype.kind in "fc":
        return (1 + np.finfo(dtype).eps * rng.integers(0, 1 << 20, n)).astype(dtype)
    return keys
