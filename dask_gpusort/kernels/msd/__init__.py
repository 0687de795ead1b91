"""Most-significant-digit sort: partition by sampled buckets, level by level, until a bucket fits a block.

In the order of the data flow:

- ``msd.py``: chooses the levels for one array, whose keys may have their positions with them
- ``bucket_map.py``: the buckets of two levels, from a sample and a histogram
- ``partition.py``, ``partition.cu``: one level, every element to the bucket of its digit
- ``recursive_partition.py``, ``segments.cu``: further levels, for buckets that do not fit a block
- ``row_partition.py``: one level for all rows of a matrix
- ``early_values.py``: pairs whose values move once, with the first level

Stehle and Jacobsen, "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs" (SIGMOD 2017), also partition from the
most significant digit on and sort the last buckets in shared memory; their buckets are radix digits, these are sampled.
"""
