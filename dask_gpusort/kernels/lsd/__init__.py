"""Stable least-significant-digit (LSD) radix sort.

References
----------
Satish, Harris, Garland, "Designing Efficient Sorting Algorithms for Manycore GPUs", IPDPS 2009, section 4.
Merrill, Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA, 2016.
Adinets, Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", arXiv 2206.01784, 2022.
"""
