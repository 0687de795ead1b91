"""A constant of the C++ sources is written once: Python reads it from there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dask_gpusort

KERNELS = Path(dask_gpusort.__file__).parent / "kernels"
FOLDERS = ("msd", "block_sort", "buckets")
FILES = [path for folder in FOLDERS for path in sorted((KERNELS / folder).glob("*.py"))]
FILES += [KERNELS / "policy" / "tuning.py", KERNELS / "policy" / "limits.py", *sorted(KERNELS.glob("*.py"))]
#: A number, and in the comment behind it the C++ constant that it repeats.
REPEATED = re.compile(r"= .*\d.*#.*\bk[A-Z]\w+")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(KERNELS).as_posix())
def test_no_line_repeats_a_constant(path):
    assert [line for line in path.read_text().splitlines() if REPEATED.search(line)] == []
