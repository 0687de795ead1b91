"""Order-preserving unsigned codes of NumPy keys, and back; only this package knows the meaning of keys.

Codes are normalized keys (Graefe, "Implementing Sorting in Database Systems", ACM Computing Surveys 2006). The order is
that of NumPy 2.5: NaN and NaT last in *both* directions, complex numbers by NumPy's classes of NaN.

    dtype                code                                    last
    unsigned, bool       u                                       -
    signed               u ^ sign bit                            -
    datetime, timedelta  (u ^ sign bit) - 1                      NaT
    float                (u < 0 ? ~u : u ^ sign bit) - K         NaN
    complex64            the two float32 codes, by NaN class     NaN

``u`` is the key's bit pattern, arithmetic is modulo 2**bits, and K, the number of NaN patterns of one sign, is
``2**mantissa_bits - 1``: subtracting it wraps negative NaNs, which are below -inf, round to the top.

Every map is one to one. Keys that NumPy calls equal (-0.0 and +0.0; the NaNs) have adjacent codes, a tie class, of
which `tie_floor` and `tie_ceiling` give the ends. A sort that keeps the input order of equal keys sorts by the floor.
"""

from .codes import BLOCK_KEYS, code_dtype, decode, encode, has_ties, tie_ceiling, tie_floor
