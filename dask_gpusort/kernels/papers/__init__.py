"""The papers' own sorts, to read and to compare with; the default sorts are in ``msd/``, ``lsd/`` and ``block_sort/``.

====================================================  ===============================  =============================
paper                                                 algorithm                        files
====================================================  ===============================  =============================
Satish, Harris, Garland, IPDPS 2009, section 4.2      four-step radix sort             ``four_step.{py,cu}``
Satish, Harris, Garland, IPDPS 2009, section 5        merge sort between samples       ``sampled_merge_sort.{py,cu}``
Harada and Howes, Introduction to GPU radix sort      count, prefix scan, reorder      ``count_scan_reorder.*``
Blelloch, 1990; Satish, Harris, Garland, section 4.1  radix sort by 1-bit splits       ``split.{py,cu}``
Batcher, AFIPS 1968                                   odd-even merge network           ``odd_even_merge.*``
====================================================  ===============================  =============================

`passes` runs the passes of the three radix sorts; ``split_tile.cuh`` splits a tile by one bit, and finds the
buckets of a sorted tile. Keys are unsigned codes (``keys/``), and values of 8 to 64 bits travel with them::

    codes ── pass over the lowest digit ──▶ codes ── ... ── pass over the highest digit ──▶ sorted codes
"""
