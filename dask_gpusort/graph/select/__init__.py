"""Graphs of order statistics: the keys at wanted ranks, without a sort of the array.

==============  ================================================================
`statistics`    from checked arguments to arrays; whole lanes: a row kernel on each chunk; weights
`samples`       few long lanes: brackets by samples, in two passes, or in one task
`top`           the first keys of each lane
`partitions`    the keys at some ranks in place: a sort by few buckets
==============  ================================================================
"""
