"""Device code that does not depend on the kind of keys.

- ``types.cuh``: integer types, `NoValue`, warp constants.
- ``block.cuh``: scans and reductions over a warp and a block (Satish, Harris, Garland, IPDPS 2009, section 4), and
  lanes of a warp that hold the most frequent digit.
- `scan`, ``scan.{cuh,cu}``: the exclusive scan of an array of counts; by one block as Harada and Howes have it.
- ``binary_search.cuh``: the partition point of a predicate.
- ``stratified_sampling.cuh``: one sample per stratum, at a hashed position.
"""
