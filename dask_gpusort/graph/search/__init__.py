"""Graphs of searches among sorted keys.

==========  ==============================================================
`keys`      the sorted keys in one array, and the look-up of needles in it
`lookup`    the tasks: one array of keys, or group by group
`build`     from checked arguments to arrays
==========  ==============================================================
"""
