"""Stable least-significant-digit radix sort in single-pass (onesweep) steps."""
