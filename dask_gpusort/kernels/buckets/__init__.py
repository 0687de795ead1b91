"""Buckets: which keys share one, how many each holds, and the counting sort that needs nothing else."""
