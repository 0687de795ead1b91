"""Reads and writes at positions as programs, of parts and groups that are drawn, without a driver of Dask."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support import oracle, programs

from dask_gpusort.functions.positions import Fill, Read, Requests, Source, Write, Writes

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any)
SHAPES = st.lists(st.sampled_from([(0,), (1,), (7,), (2, 3)]), min_size=1, max_size=4)


@given(SIZES, SHAPES, st.booleans())
def test_elements_are_read_and_written(sizes, shapes, rows):
    bounds = tuple(np.cumsum([0, *sizes]).tolist())
    source = np.arange(2 * bounds[-1]).reshape(-1, 2) if rows else np.arange(bounds[-1]) / 2
    groups = [[source[slice(*own)]] for own in pairwise(bounds)]
    parts = [list(np.random.default_rng(0).integers(-bounds[-1], bounds[-1], (2, *shape))) for shape in shapes]
    steps = Source(), Requests(bounds, 0), Read(), Fill(source.dtype)
    for part, made in zip(parts, programs.run(steps, parts, len(groups), groups)[-1], strict=True):
        for found, indices in zip(made.arrays[0], part, strict=True):
            oracle.assert_same_bits(found, source[indices])
    if rows:
        return
    flat = [[indices.reshape(-1) for indices in part] for part in parts]
    wanted = source.copy()
    for indices in (indices for part in flat for indices in part):
        wanted[indices] = indices + 0.25
    halves = [[block[:3], block[3:]] for (block,) in groups]
    values = [[*part, *(indices + 0.25 for indices in part)] for part in flat]
    written = programs.run((Writes(bounds, 0), Write()), values, len(groups), halves)[-1]
    oracle.assert_same_bits(np.concatenate([block for one in written for block in one.arrays[0]]), wanted)
