"""Buckets: sampled splitters, histograms, counting sort."""
