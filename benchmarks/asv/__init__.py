"""The suites that asv measures at each commit, one file a subject.

Nothing here imports from outside this directory but the package and its dependencies: asv imports every file in it.
"""
