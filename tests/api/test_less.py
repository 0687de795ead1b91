"""Tests of `less=`: sorts by the user's comparison, and errors where it is not a strict weak order."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.chunk import numpy_less

ROUND = st.integers(0, 2**32 - 1)


def by_last_digit(a, b):
    return a % 10 < b % 10


def nan_first(a, b):
    return (np.isnan(a) & ~np.isnan(b)) | (a < b)


@given(ours.arrays(dtypes=["i4", "f4", "S5", "U4", "c16", "M8[s]"], sizes=st.integers(0, 300)))
def test_merge_sort_agrees_with_numpy(array):
    kept = array[array == array]
    np.testing.assert_array_equal(numpy_less.argsort(kept, np.less), np.argsort(kept, kind="stable"))


@pytest.mark.parametrize("size", [2, 31, 32, 33, 63, 64, 65, 1000, 4097, 50_000])
@pytest.mark.parametrize("spread", [1, 7, 1 << 40])
def test_lanes_of_every_length(size, spread):
    array = np.random.default_rng(size).integers(0, spread, size)
    np.testing.assert_array_equal(numpy_less.argsort(array, np.less), np.argsort(array, kind="stable"))


@given(st.data(), ours.arrays(dtypes=["i4", "u1"], sizes=st.integers(0, 300)))
def test_merged_runs_keep_ties_in_run_order(data, array):
    offsets = [0, *sorted(data.draw(st.lists(st.integers(0, len(array)), max_size=8))), len(array)]
    runs = np.concatenate([np.sort(part) for part in np.split(array, offsets[1:-1])])
    got = numpy_less.argsort(runs, np.less, np.array(offsets))
    np.testing.assert_array_equal(got, np.argsort(runs, kind="stable"))


@given(ROUND, st.integers(0, 400), st.sampled_from([32, 1]))
def test_merges_by_a_random_comparison_lose_no_key(seed, size, shortest):
    rng = np.random.default_rng(seed)

    def coin(a, b):
        return rng.random(a.shape) < 0.5

    bounds = np.array([0, *np.sort(rng.integers(0, size + 1, rng.integers(0, 9))), size])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_less, "_SHORTEST_LANE", shortest)
        source = numpy_less._merge_round(np.arange(size), bounds, coin)
    np.testing.assert_array_equal(np.sort(source), np.arange(size))
    assert (((found := numpy_less.search(np.arange(size), np.arange(9), coin, "left")) >= 0) & (found <= size)).all()


def test_orders_that_numpy_lacks():
    array = ours.make("f8", 500, "special")
    with groups(4):
        got = computed(dask_gpusort.sort(da.from_array(array, chunks=60), less=nan_first))
    filled = np.where(np.isnan(array), -np.inf, array)
    by = np.lexsort((filled, ~np.isnan(array)))
    oracle.assert_same_bits(got, array[by])
    records = ours.make(ours.PLAIN_RECORD, 300, "few")
    with groups(4):
        found = dask_gpusort.sort(da.from_array(records, chunks=40), less=lambda a, b: a["count"] > b["count"])
        oracle.assert_same_bits(computed(found), records[np.argsort(-records["count"].astype("i8"), kind="stable")])


def test_merge_sorted_and_is_sorted_accept_less():
    array = np.arange(100) - 50
    by = array[np.argsort(array % 10, kind="stable")]
    x = da.from_array(by, chunks=13)
    assert computed(dask_gpusort.is_sorted(x, less=by_last_digit))
    assert not computed(dask_gpusort.is_sorted(da.from_array(array, chunks=13), less=by_last_digit))
    with groups(3):
        merged = dask_gpusort.merge_sorted(x, x, less=by_last_digit)
        twice = np.tile(by, 2)
        oracle.assert_same_bits(computed(merged), twice[np.argsort(twice % 10, kind="stable")])
        with pytest.raises(ValueError, match="not sorted"):
            computed(dask_gpusort.merge_sorted(da.from_array(array, chunks=13), less=by_last_digit))


CONTRADICTIONS = {
    "reflexive": (np.less_equal, r"less\(a, a\) is true for a = np\.int64\(\d+\)"),
    "symmetric": (lambda a, b: a != b, r"less\(a, b\) and less\(b, a\) are both true"),
    "cyclic": (lambda a, b: (b - a) % 3 == 1, r"less\(a, b\) and less\(b, c\) are true"),
    "intransitive ties": (lambda a, b: b - a > 2, "neither before nor behind"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.parametrize("chunk", [7, 100])
def test_contradictions_are_reported(name, chunk):
    less, message = CONTRADICTIONS[name]
    x = da.from_array(np.random.default_rng(0).permutation(100), chunks=chunk)
    with groups(3), pytest.raises(ValueError, match=f"no strict weak order.*{message}"):
        computed(dask_gpusort.sort(x, less=less))


def test_message_names_a_nan_without_an_order():
    x = da.from_array(np.array([1.0, np.nan, 0.0, 2.0]), chunks=4)
    with pytest.raises(ValueError, match=r"b = np\.float64\(nan\).*as with NaN"):
        computed(dask_gpusort.sort(x, less=np.less))


@pytest.mark.parametrize("exchange", ["join", "gather", "tasks"])
@given(seed=ROUND, size=st.integers(1, 400))
def test_undetected_contradictions_lose_no_key(exchange, seed, size):
    # The order is wrong for a few pairs only. A sample may miss all of them.
    rng = np.random.default_rng(seed)
    turned = rng.random((64, 64)) < rng.choice([0.001, 0.05, 0.5])

    def less(a, b):
        return np.where(turned[a % 64, b % 64], b < a, a < b)

    x = da.from_array(rng.permutation(size), chunks=max(1, size // 6))
    with groups(5):
        try:
            got = computed(dask_gpusort.sort(x, less=less, exchange=exchange))
        except (ValueError, RuntimeError) as error:
            assert "strict weak order" in str(error)
        else:
            np.testing.assert_array_equal(np.sort(got), np.arange(size))


@pytest.mark.parametrize("less", [lambda a, b: True, lambda a, b: a - b, lambda a, b: (a < b)[:1]])
def test_results_that_are_not_bool_arrays_are_refused(less):
    with pytest.raises(TypeError, match="less must give an array of bool"):
        computed(dask_gpusort.sort(da.arange(10, chunks=5), less=less))


@pytest.mark.parametrize("descent", [1, 30, 100, 299])
def test_keys_in_order_but_for_a_few_are_sorted(descent):
    calls = []

    def less(a, b):
        calls.append(len(a))
        return a < b

    array = np.arange(300)
    np.testing.assert_array_equal(numpy_less.argsort(array, less), array)
    assert len(calls) <= 4  # of each with itself, of some with each other, and of neighbours
    array[descent] = 0
    np.testing.assert_array_equal(numpy_less.argsort(array, np.less), np.argsort(array, kind="stable"))
