"""The plan of a sort, and of what a sorted order gives, made before anything runs."""

from .counting import check_method
from .division import divide_chunks, fits_gang
from .make import make_plan
from .memory import fits_devices, fits_join, is_small, joined_bytes
from .plan import Plan
from .sort import SortPlan
from .terms import BY_BUNDLES, BY_TASKS, Exchange, InputChunks, Runs, Size, Workers
