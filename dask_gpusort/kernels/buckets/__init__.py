"""Buckets: which keys share one, how many each holds, and the counting sort that needs nothing else.

In the order of the data flow:

- ``splitters.py``, ``splitters.cu``, ``splitter_builder.cuh``: sample the keys and build a splitter map
- ``domain.cuh``, ``splitter_map.cuh``, ``linear_map.cuh``, ``segment_digits.cuh``: monotone maps from codes to digits
- ``histogram.py``, ``count.cu``, ``count.cuh``: count the keys of each bucket and scan the counts
- ``row_histogram.cu``: the same for every row of a matrix
- ``counting_sort.py``, ``fill.cu``: counting sort of 8- and 16-bit keys
"""
