"""Graphs of searches among sorted keys.

=============  ==============================================================
`question`     the sorted keys in one array, and the look-up of needles in it
`lookup`       the tasks: one array of keys, or group by group
`kept_search`  group by group, through runs that workers keep
`searches`     from checked arguments to arrays
=============  ==============================================================
"""
