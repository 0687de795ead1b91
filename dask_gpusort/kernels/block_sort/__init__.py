"""The last pass of a most-significant-digit sort: one block sorts one bucket in shared memory.

- ``block_sort.py``, ``block_sort.cu``: the launches and the kernels
- ``uniform_tile.cuh``: the sort of a bucket whose codes are spread evenly
- ``general_tile.cuh``: the sort of any other bucket
"""
