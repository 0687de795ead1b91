"""Most-significant-digit sort: partition by sampled buckets, level by level, until a bucket fits a block.

Stehle and Jacobsen, "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs" (SIGMOD 2017), also partition from the
most significant digit on and sort the last buckets in shared memory; their buckets are radix digits, these are sampled.
"""
