"""One example of each kind of kernel on the host, against NumPy. The files of the kernels have whole grids."""

from __future__ import annotations

import numpy as np
import pytest
from support.gpu_checks import assert_bits
from support.gpu_data import make_keys
from support.host_kernels import BLOCK_SORT_KEYS, LSD_TILE, use_small_merges

from dask_gpusort import kernels
from dask_gpusort.kernels import merging, sorting


def select(keys):
    return kernels.select_rows(keys, np.array([[0, 7, 128]] * len(keys)), 1)[0]


def sort_pairs(keys):
    return kernels.sort_pairs(keys, keys[::-1].copy())[1]


#: A call, the shape and dtype of its keys, and NumPy's result of them.
EXAMPLES = {
    "rows": (sorting.sort_rows, (9, BLOCK_SORT_KEYS), "u4", np.sort),
    "pairs": (sort_pairs, LSD_TILE + 5, "i4", lambda keys: keys[::-1][np.argsort(keys, kind="stable")]),
    "comparison": (merging.sort_by_comparison, 4500, "u4", lambda keys: np.sort(keys)[::-1]),
    "selection": (select, (19, 129), "f4", lambda keys: np.sort(keys)[:, [0, 7, 128]]),
}
OPTIONS = {"comparison": {"less": "b < a"}}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(host, monkeypatch, name):
    use_small_merges(monkeypatch)
    function, shape, dtype, wanted = EXAMPLES[name]
    keys = make_keys(dtype, np.prod(shape), "few").reshape(shape)
    keys[keys != keys] = 1
    assert_bits(function(host.array(keys), **OPTIONS.get(name, {})), wanted(keys))
