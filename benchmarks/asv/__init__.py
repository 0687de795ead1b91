"""The suites that asv measures at each commit, one file a subject.

asv imports every file here, from this directory: nothing imports from another folder of the benchmarks.
"""
