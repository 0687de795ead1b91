"""Keys of more than 64 bits: several columns, compared one after the other.

The codes of all columns are concatenated to a bit string, which is cut into words of 64 bits. The first word sorts all
keys by radix; each later word sorts only the keys that still tie.

Files, in the order of the data flow:

- ``columns.py``, ``columns.cuh``, ``columns.cu``: ranges of the columns' codes, the layout of the words, and the words.
- ``complex_words.cuh``, ``complex_keys.cu``: the same for complex128 keys, which have two columns (launched by
  ``kernels/complex_keys.py``).
- ``word_sort.py``: sorts by words, and rank look-ups among rows of words (``columns.cu``).
- ``tie_groups.py``, ``tie_groups.cu``: resolves the ties of the first word by the later words.

References
----------
Graefe, "Implementing Sorting in Database Systems", ACM Computing Surveys, 2006 (normalized keys).
"""
