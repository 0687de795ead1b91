"""Comparison sorts: merge sort, and the merging of sorted runs.

::

    keys ── sort_tiles ──▶ sorted tiles ─┐
                                         ├── plan ──▶ parts ── merge_parts ──▶ longer runs ── ...
    listed runs ─────────────────────────┘
"""
