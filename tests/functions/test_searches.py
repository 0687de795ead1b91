"""Searches as a program: what its supersteps make, of needles and keys that are drawn, without a driver of Dask."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support import oracle, programs

from dask_gpusort.functions import lookup
from dask_gpusort.order import Order

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=6)
NEEDLES = st.lists(st.lists(st.lists(st.integers(-3, 9), max_size=6), min_size=1, max_size=3), min_size=1, max_size=4)


def program(question):
    """The supersteps of a search."""
    of_all = (make(question) for make in (lookup.Needles, lookup.Keys, lookup.Cut, lookup.LookUp))
    return *of_all, lookup.Scatter(question.dtype)


def found_by(question, parts, groups):
    """What is found for the chunks of all parts, and what the supersteps made."""
    made = programs.run(program(question), parts, len(groups), groups)
    found = [chunk for one in made[-1] for chunk in one.arrays[0]]
    assert [one.shape for one in found] == [chunk.shape for part in parts for chunk in part]
    return np.concatenate([one.reshape(-1) for one in found]), made


@given(NEEDLES, SIZES, st.sampled_from(["i2", "f8", "U2"]), st.sampled_from(["left", "right", "in", "not in"]))
def test_needles_of_parts_in_groups_of_keys(drawn, sizes, dtype, want):
    parts = [[np.array([chunk], dtype) for chunk in part] for part in drawn]
    needles = np.concatenate([chunk.reshape(-1) for part in parts for chunk in part])
    keys = np.sort(np.random.default_rng(len(sizes)).integers(-4, 10, sum(sizes)).astype(dtype))
    groups = [[keys[slice(*ends)]] for ends in pairwise(np.cumsum([0, *sizes]))]
    question = lookup.Question(Order(np.dtype(dtype), stable=True), want, joined=False)
    found, (_, _, cut, looked_up, _) = found_by(question, parts, groups)
    wanted = np.isin(needles, keys, invert=want == "not in") if "in" in want else np.searchsorted(keys, needles, want)
    oracle.assert_same_bits(found, wanted)
    # Each needle moves once, to one group that bounds it.
    assert sum(len(one.run) for one in looked_up) == len(needles)
    for one, part in zip(cut, drawn, strict=True):
        assert one.note[0].tolist() == sorted(one.note[0])
        assert one.note[0][[0, -1]].tolist() == [0, sum(map(len, part))]
    assert_same_in_one_memory(question, groups, needles, wanted)


def assert_same_in_one_memory(question, groups, needles, wanted):
    """Whether keys in groups, and as one array, tell of needles in one memory what is wanted."""
    joined = [lookup.join_keys(own[:1], question, own[1:]) for own in groups]
    found = lookup.KeyGroups(joined, lookup.starts_of([*map(lookup.first_keys, joined)]))
    oracle.assert_same_values(lookup.look_up(found, needles, question), wanted)
    whole, (keys, *values) = replace(question, joined=True), zip(*groups, strict=True)
    oracle.assert_same_values(lookup.look_up(lookup.join_keys(keys, whole, *values), needles, whole), wanted)


@given(NEEDLES, SIZES.filter(any), st.booleans())
def test_values_between_the_keys_of_two_groups(drawn, sizes, complex_values):
    parts = [[np.array(chunk, float) / 2 for chunk in part] for part in drawn]
    for chunk in (chunk for part in parts for chunk in part):
        chunk[chunk == -1.5] = np.nan
    random = np.random.default_rng(len(sizes))
    keys, values = np.sort(random.integers(0, 4, sum(sizes)) / 1.0), random.standard_normal(sum(sizes))
    values = values * (1 + 2j) if complex_values else values
    ends = list(pairwise(np.cumsum([0, *sizes])))
    groups = [[keys[slice(*own)], values[slice(*own)]] for own in ends]
    between = lookup.Interpolation(values.dtype, None, 7)
    question = lookup.Question(Order(np.dtype("f8"), stable=True), "value", joined=False, interpolation=between)
    found, _ = found_by(question, parts, groups)
    needles = np.concatenate([chunk for part in parts for chunk in part])
    with np.errstate(all="ignore"):
        wanted = np.interp(needles, keys, values, right=7)
        oracle.assert_same_values(found, wanted)
        assert_same_in_one_memory(question, groups, needles, wanted)
