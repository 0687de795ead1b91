"""Selection without a sort: keys at wanted ranks, and the keys of an array between bounds.

- ``key_stream.cuh``: reads a range of keys, in vectors and whole warps
- ``draw.py``, ``draw.cu``: samples of keys that are in several parts
- ``extract.py``, ``extract.cu``, ``extract.cuh``: one read counts codes between thresholds, and takes some of the keys
- ``row_select.py``, ``row_select.cu``: keys at ranks of every row or column of a matrix
- ``held_codes.cuh``: ranks among codes in registers, by bisection
- ``wanted_ranks.cuh``: the ranks and outputs of a matrix
- ``long_row.cuh``: ranks in rows that do not fit one block, by radix select

Alabi, Blanchard, Gordon, Steinbach, "Fast k-selection algorithms for graphics processing units", ACM Journal of
Experimental Algorithmics 17, 2012; Li et al., "RadiK", arXiv 2501.14336.
"""
