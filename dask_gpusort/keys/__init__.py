"""Order-preserving unsigned codes of NumPy keys, and back.

A radix step sees unsigned integers only. This package alone knows what a key
means: the order of signed numbers, NaN of both signs, -0.0, NaT, and what
``descending`` does to them. The order is the one NumPy 2.5 sorts in: NaN and
NaT last in *both* directions, complex numbers by NumPy's classes of NaN.

    dtype                code                                    last
    unsigned, bool       u                                       -
    signed               u ^ sign bit                            -
    datetime, timedelta  (u ^ sign bit) - 1                      NaT
    float                (u < 0 ? ~u : u ^ sign bit) - K         NaN
    complex64            the two float32 codes, by NaN class     NaN

where ``u`` is the key's bit pattern, all arithmetic is modulo 2**bits, and K,
the number of NaN patterns of one sign, is ``2**mantissa_bits - 1``. Positive
NaNs lie above +inf already; subtracting K wraps the negative ones, which lie
below -inf, round to the top. So a float dtype with N patterns that are no NaN
has its NaNs at the codes N and above, and each keeps its payload.

Every map is one to one: decoding gives back the bits that were encoded. The
price is that keys that NumPy calls equal may differ in their codes (-0.0 and
+0.0; the NaNs). They are always neighbours, and `tie_floor` and
`tie_ceiling` give the ends of such a tie class: a sort that must keep the
input order of equal keys sorts by the floor.
"""

from .codes import code_dtype, decode, encode, has_ties, tie_ceiling, tie_floor

__all__ = ["code_dtype", "decode", "encode", "has_ties", "tie_ceiling", "tie_floor"]
