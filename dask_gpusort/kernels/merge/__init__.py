"""Comparison sorts: merge sort, and the merging of sorted runs."""
