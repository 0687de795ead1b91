"""Merge sort and merging of sorted runs."""
