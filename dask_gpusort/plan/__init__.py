"""The plan of a sort, made before anything runs.

==========  ==========================================================
`terms`     what a plan is made from
`counting`  how the cuts are counted: rounds, samples, the tree
`groups`    how the output is divided into groups
`plan`      all of it in one frozen object, and as text
==========  ==========================================================
"""

from .counting import choose_path
from .plan import Plan, describe, make_plan
from .terms import Exchange, Size, Workers

__all__ = ["Exchange", "Plan", "Size", "Workers", "choose_path", "describe", "make_plan"]
