"""Writes to the positions of a permutation."""
