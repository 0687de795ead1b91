"""Selection without a sort: keys at wanted ranks, and the keys of an array between bounds.

Alabi, Blanchard, Gordon, Steinbach, "Fast k-selection algorithms for graphics processing units", ACM Journal of
Experimental Algorithmics 17, 2012; Li et al., "RadiK", arXiv 2501.14336.
"""
