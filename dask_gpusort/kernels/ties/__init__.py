"""Tie groups of sorted keys, and writes to the positions of a permutation, such as that of the sort."""
