"""Order-preserving unsigned codes of NumPy keys, and back.

Radix sorts need unsigned integers. Codes are normalized keys (Graefe,
"Implementing Sorting in Database Systems", ACM Computing Surveys 2006; CUB
calls them bit-ordered keys). Only this package knows the meaning of keys: the
order of signed numbers, NaN of both signs, -0.0, NaT, and the effect of
``descending`` on them. The order is that of NumPy 2.5: NaN and NaT last in
*both* directions, complex numbers by NumPy's classes of NaN.

    dtype                code                                    last
    unsigned, bool       u                                       -
    signed               u ^ sign bit                            -
    datetime, timedelta  (u ^ sign bit) - 1                      NaT
    float                (u < 0 ? ~u : u ^ sign bit) - K         NaN
    complex64            the two float32 codes, by NaN class     NaN

where ``u`` is the key's bit pattern, all arithmetic is modulo 2**bits, and K,
the number of NaN patterns of one sign, is ``2**mantissa_bits - 1``. Positive
NaNs are above +inf already; subtracting K wraps the negative ones, which are
below -inf, round to the top. A float dtype with N patterns that are not NaN
therefore has its NaNs at the codes N and above, with their payloads.

Every map is one to one: decoding restores the encoded bits exactly. As a
consequence, keys that NumPy calls equal may have different codes (-0.0 and
+0.0; the NaNs). Such codes are adjacent: they form a tie class, and
`tie_floor` and `tie_ceiling` give its ends. A sort that must keep the input
order of equal keys sorts by the floor.
"""

from .codes import BLOCK_KEYS, code_dtype, decode, encode, has_ties, tie_ceiling, tie_floor
