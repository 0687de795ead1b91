"""Stable least-significant-digit (LSD) radix sort.

Files, in the order of the data flow:

- ``byte_digits.cuh``: the digits, and the histograms of all digits in one reading of the keys.
- ``onesweep_tile.cuh``: one tile of a stable pass over one digit, with decoupled look-back.
- ``onesweep.cu``: a launch for the histograms, one for their scans, and one for each pass.
- ``lsd.py``: launches them.

References
----------
Satish, Harris, Garland, "Designing Efficient Sorting Algorithms for Manycore GPUs", IPDPS 2009, section 4.
Merrill, Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA, 2016.
Adinets, Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", arXiv 2206.01784, 2022.
"""
