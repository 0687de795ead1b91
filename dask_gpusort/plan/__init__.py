"""The plan of a sort, made before anything runs.

==========  ==========================================================
`terms`     inputs of the plan
`counting`  how the cuts are counted: rounds, samples, the tree
`groups`    how the output is divided into groups, the input into bundles
`plan`      all decisions in one frozen object, and as text
==========  ==========================================================
"""

from .counting import choose_path
from .plan import Plan, describe, make_plan
from .terms import Exchange, InputChunks, Size, Workers

__all__ = ["Exchange", "InputChunks", "Plan", "Size", "Workers", "choose_path", "describe", "make_plan"]
