"""Selection without a sort: keys at wanted ranks, and the keys of an array between bounds.

- ``key_stream.cuh``: reads a range of keys, in vectors and whole warps
- ``extract.py``, ``extract.cu``: one read counts codes between thresholds, and takes some of the keys; samples of keys
  that are in several parts
- ``row_select.py``, ``row_select.cu``: keys at ranks of every row or column of a matrix
- ``held_codes.cuh``: ranks among codes in registers, by bisection; the ranks and outputs of a matrix
- ``long_row.cuh``: ranks in rows that do not fit one block, by radix select

Alabi, Blanchard, Gordon, Steinbach, "Fast k-selection algorithms for graphics processing units", ACM Journal of
Experimental Algorithmics 17, 2012; Li et al., "RadiK", arXiv 2501.14336.
"""
