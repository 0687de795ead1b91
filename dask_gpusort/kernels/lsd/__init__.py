"""Stable least-significant-digit (LSD) radix sort."""
