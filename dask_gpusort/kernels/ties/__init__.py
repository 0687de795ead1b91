"""Tie groups of sorted keys, and writes to the positions of a permutation."""
