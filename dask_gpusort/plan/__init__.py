"""The plan of a sort, and of what a sorted order gives, made before anything runs.

===========  =========================================================
`terms`      inputs of the plan
`counting`   how the cuts are counted: rounds, samples, the tree
`join`       whether one task can hold the whole sort
`staging`    how the chunks of the host are divided for a GPU
`gang`       which chunks and groups each member of a gang has
`groups`     how the output is divided into groups
`runs`       how the input is divided into runs and bundles
`turns`      what an exchange on GPUs takes, bundle after bundle
`plan`       all decisions in one frozen object
`make`       makes the decisions
`select`     order statistics
`ranks`      ranks
`distinct`   distinct keys
`search`     searches among sorted keys
`positions`  reads and writes at positions
`text`       plans as text
===========  =========================================================
"""

from .counting import choose_path
from .gang import fits_gang
from .join import fits_join, is_small, joined_bytes
from .make import make_plan
from .plan import Plan
from .staging import divide_chunks
from .terms import BY_BUNDLES, BY_TASKS, Exchange, InputChunks, Runs, Size, Workers
from .text import describe
