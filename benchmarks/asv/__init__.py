"""The suites that asv measures at each commit, one file for each subject.

asv imports every file from this directory, so no file imports from another folder of the benchmarks.
"""
