"""A small run of every kernel for compute-sanitizer.

    compute-sanitizer --tool memcheck  python tests/gpu/sanitize.py
    compute-sanitizer --tool racecheck python tests/gpu/sanitize.py

Exits with an error on a wrong result too. Look-back between blocks of the stable passes is by design, through global
memory, which racecheck does not look at.
"""

from __future__ import annotations

import cupy as cp
import numpy as np
from gpu_data import make_keys

from dask_gpusort import kernels

SMALL, ONE_LEVEL = 5_003, 40_009
TWO_LEVELS = (1 << 22) + 12_345  # more buckets than one level of partition makes


def check(got: object, wanted: object) -> None:
    assert bool((cp.asnumpy(got) == wanted).all())


def main() -> None:
    for n in (SMALL, ONE_LEVEL):
        for distribution in ("random", "few", "zipf", "low entropy"):
            keys = make_keys("u4", n, distribution)
            check(kernels.sort_keys(cp.asarray(keys)), np.sort(keys))
            check(kernels.argsort(cp.asarray(keys)), np.argsort(keys, kind="stable"))
        wide = make_keys("u8", n, "random")
        check(kernels.sort_keys(cp.asarray(wide), algorithm="lsd"), np.sort(wide))
        check(kernels.argsort(cp.asarray(wide)), np.argsort(wide, kind="stable"))
    keys = make_keys("u2", ONE_LEVEL, "random")
    check(kernels.sort_keys(cp.asarray(keys)), np.sort(keys))
    for distribution in ("random", "few"):
        keys = make_keys("u4", TWO_LEVELS, distribution)
        check(kernels.sort_keys(cp.asarray(keys)), np.sort(keys))
    rows = make_keys("u4", 3 * 30_000, "zipf").reshape(3, -1)
    check(kernels.sort_rows(cp.asarray(rows)), np.sort(rows, axis=1))
    print("all results right")


if __name__ == "__main__":
    main()
