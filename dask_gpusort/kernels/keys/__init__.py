"""Keys on the device: order-preserving codes, comparisons, and element-wise steps.

::

    keys ── encode ──▶ codes (unsigned, in NumPy's order) ── sort, search, rank ──▶ codes ── decode ──▶ keys

- `dtypes`, ``order.cuh``: the code of each dtype. Codes are normalized keys (Graefe, Implementing Sorting in Database
  Systems, ACM Computing Surveys 38, 2006), called bit-ordered keys in CUB.
- `elements`, ``elements.cuh``: what a sort moves: codes, alone or with positions or values.
- `less`, ``less.cuh``: comparisons for the comparison sorts.
- `transform`, ``transform.cu``: encode, decode, gather, search: one thread per element.
- `ranks`, ``ranks.cu``: ranks of a sorted array's own keys (Satish, Harris, Garland, IPDPS 2009, section 5.2).
"""
