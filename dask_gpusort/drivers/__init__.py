"""How programs run by Dask tasks: drivers, which know no function (see `functions.program`)."""

from importlib import import_module
from typing import Any


def run_in_gang(*arguments: Any) -> Any:
    """Call `gang.run_in_gang`, which is imported here because it imports distributed."""
    return import_module(".gang", __name__).run_in_gang(*arguments)
