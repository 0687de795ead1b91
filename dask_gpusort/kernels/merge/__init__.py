"""Comparison sorts: merge sort, and the merging of sorted runs.

In the order of the data flow::

    keys ── sort_tiles ──▶ sorted tiles ─┐
                                         ├── plan ──▶ parts ── merge_parts ──▶ longer runs ── ...
    listed runs ─────────────────────────┘

- `merge_sort` launches tiles and levels (``merge_sort.cu``, ``merge_tile.cuh``), after Satish, Harris, Garland, IPDPS
  2009, section 5, whose own sort is `papers.sampled_merge_sort`.
- ``merge_path.cuh`` cuts a pair of runs: Odeh et al., IPDPS workshops 2012; Green, McColl, Bader, ICS 2012.
- ``merge_parts.{cuh,cu}`` plans the parts of listed runs, for `kernels.merging`, and merges parts of pairs.
- ``compare.cu`` compares elements and searches sorted keys; `kernels.comparing` launches it.
"""
