"""Order statistics of groups: strategies, what they refuse, tasks and names. `test_functions` has their values."""

from __future__ import annotations

import warnings
from fractions import Fraction

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.dtypes import StringDType
from support import grouped
from support import strategies as ours
from support.sorting import check_sizes, computed, no_computation

import dask_gpusort
from dask_gpusort.chunk import groups as groups_of_chunks
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.labels import number_labels

ARRAY = np.random.default_rng(0).integers(0, 50, (60, 3, 1)).astype("f8")
LABELS = np.random.default_rng(1).integers(0, 5, 60)
X = da.from_array(ARRAY, chunks=(17, 2, 1))
BY = da.from_array(LABELS, chunks=11)
STRATEGIES = ("auto", "rechunk", "sort")


def expected(array=ARRAY, labels=LABELS, wanted=None, window=1, function=lambda lanes: np.median(lanes, 0)):
    return grouped.expected(function, array, (0,), labels, wanted, window)[0]


@pytest.fixture(params=["in memory", "lazy"])
def by(request):
    return LABELS if request.param == "in memory" else BY


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("wanted", "window"), [(None, None), ([4, 9, 1], 3)])
def test_sources_of_every_kind(by, wanted, window, strategy):
    """Slices, tasks, and chunks in memory, which are not computed while the graph is built."""
    sources = X[3:51], X.reshape(60, 3)[:, ::2], X.map_blocks(np.copy), X.persist(scheduler="synchronous"), X[::-1]
    arrays = ARRAY[3:51], ARRAY.reshape(60, 3)[:, ::2], ARRAY, ARRAY, ARRAY[::-1]
    for source, array in zip(sources, arrays, strict=True):
        with no_computation():
            labels = by[:48] if len(array) == 48 else by
            calls = [
                dask_gpusort.median(source, 0, by=labels, groups=wanted, window=window, strategy=strategy)
                for _ in range(2)
            ]
        assert calls[0].name == calls[1].name
        if by is LABELS or wanted:
            check_sizes(calls[0])
        want = expected(array, LABELS[: len(array)], None if wanted is None else np.array(wanted), window or 1)
        for scheduler in ("synchronous", "threads"):
            np.testing.assert_array_equal(calls[0].compute(scheduler=scheduler), want)


def test_a_group_in_many_chunks_is_sorted_by_its_keys():
    """Groups that are larger than a chunk may be, or whose sizes are unknown; others are whole in their chunks."""
    array, labels = np.random.default_rng(0).permutation(3000) // 2, np.arange(3000) % 7 // 3
    array = np.where(array < 40, np.nan, array)
    lazy, many = da.from_array(array, chunks=100), np.arange(3000) % 70
    calls = {}
    for name in ("quantile", "nanquantile"):

        def function(lanes, name=name):
            return getattr(np, name)(lanes, [0.1, 0.5, 0.99], 0)

        for limit in ("1kiB", "128MiB"):
            for own in (labels, many):
                for by_ in (own, da.from_array(own, chunks=200)):
                    with dask.config.set({"array.chunk-size": limit}):
                        found = getattr(dask_gpusort, name)(lazy, [0.1, 0.5, 0.99], by=by_, strategy="sort")
                        text = dask_gpusort.explain_quantile(lazy, by=by_, strategy="sort").detail
                    np.testing.assert_array_equal(computed(found), expected(array, own, function=function))
                    calls[limit, own is labels, by_ is own] = "by their groups and keys" in text
    assert calls == {
        (limit, few, memory): not memory or (few and limit == "1kiB")
        for limit in ("1kiB", "128MiB")
        for few in (True, False)
        for memory in (True, False)
    }


@pytest.mark.parametrize("labels", ["u1", "?", "f8", ">i4", "U3"])
@pytest.mark.parametrize("keys", ["?", "f2", "f4", ">f8", "g", "i1", "u8", "M8[s]"])
def test_keys_that_are_sorted_with_lazy_labels_keep_their_bits(keys, labels):
    """Both are in one code, in two words, or beside each other."""
    rng = np.random.default_rng(0)
    array, by_ = rng.integers(-3, 3, 2000).astype(keys), rng.integers(0, 2, 2000).astype(labels)
    named, signed = np.unique(by_), array.dtype.kind == "f"
    if signed:
        array[(array == 0) & (by_ == named[-1])] = -0.0
    wanted = np.array([np.quantile(array[by_ == label], 0.6, method="inverted_cdf") for label in named])
    for sizes in ((300, 500), (2000, 500), (2000, 2000)):
        lazy = (da.from_array(one, chunks=size) for one, size in zip((array, by_), sizes, strict=True))
        found = dask_gpusort.quantile(next(lazy), 0.6, by=next(lazy), method="inverted_cdf", strategy="sort").compute()
        np.testing.assert_array_equal(found, wanted)
        if signed:
            np.testing.assert_array_equal(np.signbit(found), [False, True])


@pytest.mark.parametrize("strategy", ["auto", "sort"])
@pytest.mark.parametrize("wanted", [None, [4, 9, 1]])
def test_unknown_sizes(wanted, strategy):
    mask = ARRAY[:, 0, 0] > 20
    source, labels = X.rechunk({0: 11})[da.from_array(mask, chunks=11)], BY[da.from_array(mask, chunks=11)]
    found = dask_gpusort.median(source, 0, by=labels, groups=wanted, strategy=strategy)
    want = expected(ARRAY[mask], LABELS[mask], None if wanted is None else np.array(wanted))
    np.testing.assert_array_equal(computed(found), want)
    whole = da.from_array(ARRAY, chunks=(11, 3, 1))[da.from_array(mask, chunks=11)]
    turned = dask_gpusort.median(whole, 1, by=[1, 0, 1], groups=[0, 1])
    np.testing.assert_array_equal(computed(turned), np.stack([ARRAY[mask, 1], ARRAY[mask, ::2].mean(1)], 1))
    for refused in ({"window": 3}, {"axis": 1, "by": [0, 1, 0]}):
        options = {"axis": 0, "by": labels, "strategy": "sort", **refused}
        with pytest.raises(ValueError, match="unknown sizes.*compute_chunk_sizes"):
            dask_gpusort.median(source, **options)
    with pytest.raises(ValueError, match="by is in memory: call a.compute_chunk_sizes"):
        dask_gpusort.median(source, 0, by=LABELS)
    with pytest.raises(ValueError, match="by of several axes needs known sizes"):
        dask_gpusort.median(source, (0, 1), by=da.zeros((60, 3), chunks=(11, 3))[da.from_array(mask, chunks=11)])


def test_groups_of_which_there_are_none():
    for strategy in STRATEGIES:
        for chunks in (-1, 20):
            found = dask_gpusort.median(X.rechunk({0: chunks}), 0, by=LABELS, groups=[], strategy=strategy)
            assert computed(found).shape == found.shape == (0, 3, 1)


@pytest.mark.parametrize(
    "labels", [np.array([5, 1 << 62, 1, -1, 5, (1 << 62) + 1], "i8"), np.array([0, 1, 1, 0], "u1")]
)
def test_integers_are_compared_exactly(labels):
    """Signed and unsigned, also where their range is too large for a table."""
    for wanted in (
        np.array([1 << 62, (1 << 62) + 1, 5, 1, 1 << 63], "u8"),
        np.array([-1, 5, 1 << 62]),
        np.array([255]),
    ):
        position = {label: number for number, label in enumerate(wanted.tolist())}
        for given in (labels, labels[:0]):
            found, sizes = number_labels(given, wanted)
            assert sizes.tolist() == [given.tolist().count(label) for label in wanted.tolist()]
            assert found.tolist() == [position.get(label, -1) for label in given.tolist()]


@pytest.mark.parametrize("labels", [[1 << 63, (1 << 63) + 1, 5], [1 << 62, (1 << 62) + 1, -1, 1 << 63]])
def test_integers_of_python_are_compared_exactly(labels):
    """NumPy makes floats of these lists."""
    x = da.arange(float(len(labels)), chunks=2)
    exact = np.array([one for one in labels if (one < 1 << 63) == (labels[0] < 1 << 63)])
    for by, groups in ((labels, labels), (labels, None), (exact, labels)):
        found, own = computed(dask_gpusort.median(x[: len(by)], by=by, groups=groups)), list(map(int, by))
        wanted = sorted(labels) if groups is None else labels
        np.testing.assert_array_equal(found, [own.index(one) if one in own else np.nan for one in wanted])


def test_objects_of_python():
    fractions = ours._objects([Fraction(n * 5 % 8, 2) for n in range(8)])
    labels = np.arange(8) % 2
    for array in (fractions, np.arange(8)):
        found = dask_gpusort.quantile(da.from_array(array, chunks=3), [Fraction(1, 3)], by=labels)
        assert computed(found).tolist() == [[np.quantile(array[labels == n], Fraction(1, 3)) for n in (0, 1)]]


def test_missing_labels_of_pandas():
    pd = pytest.importorskip("pandas")
    x = da.from_array(np.arange(6.0), chunks=4)
    for labels in (pd.Index(["a", "b", None] * 2), pd.to_datetime(["2020", None, "2021"] * 2)):
        assert computed(dask_gpusort.median(x, by=labels)).shape == (2,)
    for names in (
        pd.array(["a", pd.NA, "b"] * 2, "string"),
        np.array(["a", pd.NA, "b"] * 2, StringDType(na_object=pd.NA)),
    ):
        for labels in (names, da.from_array(np.asarray(names), chunks=4)):
            assert computed(dask_gpusort.median(x, by=labels)).tolist() == [1.5, 3.5]
            assert computed(dask_gpusort.median(x, by=labels, groups=["b", "c"])).tolist()[0] == 3.5
            assert np.isnan(computed(dask_gpusort.rank(x, by=labels))[[1, 4]]).all()
    with pytest.raises(ValueError, match="groups has missing labels"):
        dask_gpusort.median(x, by=labels, groups=["a", pd.NA])


SHORT = BY.map_blocks(lambda block: block[1:], dtype=int, meta=LABELS[:0])
SHORT_CHUNK = da.from_array(LABELS, chunks=-1).map_blocks(lambda block: block[1:], dtype=int, meta=LABELS[:0])
REFUSED = [
    ({"groups": [1]}, TypeError, "groups is of labels, and there are none: give by="),
    ({"window": 3}, TypeError, "window is of labels, and there are none: give by="),
    ({"by": LABELS[1:]}, ValueError, r"by of shape \(59,\) does not fit a of shape .*give labels of shape \(60,\)"),
    ({"by": LABELS, "axis": (0, 1)}, ValueError, r"give labels of shape \(60, 3\)"),
    ({"by": LABELS, "axis": ()}, ValueError, "axis=.. is none: give an axis"),
    ({"by": LABELS, "window": 2}, ValueError, "window must be an odd positive number of elements, not 2"),
    ({"by": LABELS, "window": -1}, ValueError, "window must be an odd positive number of elements, not -1"),
    ({"by": LABELS, "window": 1.5}, TypeError, "window must be an odd integer, not 1.5"),
    ({"by": ARRAY[..., 0], "axis": (0, 1), "window": 3}, ValueError, r"axis=\(0, 1\) are 2: give one axis"),
    ({"by": LABELS, "groups": BY}, TypeError, r"groups must be in memory.*groups.compute\(\)"),
    ({"by": LABELS, "groups": 3}, ValueError, "groups must be of one dimension, not 0"),
    ({"by": LABELS, "groups": ["a"]}, TypeError, "groups of <U1 are never equal to labels of int64"),
    ({"by": LABELS, "groups": [1, np.nan]}, ValueError, "groups has missing labels"),
    ({"by": LABELS, "groups": [1, 2, 1.0]}, ValueError, "groups has a label twice"),
    ({"by": np.ma.masked_equal(LABELS, 1)}, TypeError, r"by is masked.*fill them first.*numpy.ma.filled\(by, fill"),
    ({"by": LABELS, "groups": np.ma.masked_equal([0, 1], 1)}, TypeError, r"groups is masked.*filled\(groups, fill"),
    ({"by": LABELS, "keepdims": True}, TypeError, "keepdims is not for groups: give by, or keepdims"),
    ({"by": LABELS, "strategy": "blocks"}, ValueError, "strategy='blocks' needs axes that are whole"),
    ({"by": LABELS, "strategy": "samples"}, ValueError, "strategy must be one of 'auto', 'blocks', 'rechunk', 'sort'"),
    ({"a": X.astype("U3"), "by": LABELS, "strategy": "sort"}, ValueError, "needs numbers or dates, not <U3"),
    ({"a": X.astype("U3"), "by": LABELS, "groups": [9]}, TypeError, "labels that do not occur, and keys of <U3"),
]


@pytest.mark.parametrize(("given", "error", "message"), REFUSED)
def test_wrong_arguments_are_refused_while_the_graph_is_built(given, error, message):
    for function in (dask_gpusort.quantile, dask_gpusort.explain_quantile):
        options = {"a": X, "q": 0.5, "axis": 0, **given}
        if function is dask_gpusort.explain_quantile and "keepdims" in given:
            continue
        if options["a"] is not X and function is dask_gpusort.quantile:
            options["method"] = "lower"
        elif options["a"] is not X:
            continue
        with no_computation(), pytest.raises(error, match=message):
            function(**options)
    if "weights" not in given:
        with pytest.raises(TypeError, match="weights is not for groups"):
            dask_gpusort.quantile(X, 0.5, 0, by=LABELS, weights=np.ones(60), method="inverted_cdf")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("wanted", [None, [4, 1]])
def test_chunks_that_are_not_what_their_arrays_say(wanted, strategy):
    for source, labels in (
        (X, SHORT),
        (X, SHORT_CHUNK),
        (X[:, :1].map_blocks(lambda b: b[1:], dtype="f8", meta=X._meta), BY),
    ):
        with pytest.raises(ValueError, match="compute_chunk_sizes"):
            computed(dask_gpusort.median(source, 0, by=labels, groups=wanted, strategy=strategy))
    wrong = BY.map_blocks(lambda block: block.astype("f4"), dtype=int, meta=LABELS[:0])
    with pytest.raises(TypeError, match="dtype float32 where its array says int64"):
        computed(dask_gpusort.median(X, 0, by=wrong, groups=wanted, strategy=strategy))


@pytest.mark.parametrize("window", [15, 17, 10**10 + 1, 2**63 + 1, 2**70 + 1])
def test_a_window_larger_than_the_axis_reaches_all_elements(by, window):
    """Its size is not a size in memory, nor one that must fit 64 bits."""
    x, by, groups = X[:8, 0, 0], by[:8], [4, 9, 1]
    want = expected(ARRAY[:8, 0, 0], LABELS[:8], np.array(groups), 15)
    for strategy in STRATEGIES:
        options = {"by": by, "groups": groups, "window": window, "strategy": strategy}
        np.testing.assert_array_equal(computed(dask_gpusort.median(x, 0, **options)), want)
        assert "of 15 neighbours" in dask_gpusort.explain_quantile(x, 0.5, 0, **options).detail
    keys, labels = (one[one >= 0] for one in (da.from_array(ARRAY[:8, 0, 0]), da.from_array(LABELS[:8])))
    found = dask_gpusort.median(keys, 0, by=labels, groups=groups, window=window, strategy="blocks")
    np.testing.assert_array_equal(computed(found), want)


def test_all_nan_groups_warn_as_numpy_does():
    x = da.from_array(np.array([1.0, np.nan, 2.0, np.nan]), chunks=2)
    for strategy in STRATEGIES:
        with pytest.warns(RuntimeWarning, match="All-NaN slice encountered"):
            assert computed(dask_gpusort.nanmedian(x, by=[0, 1, 0, 1], strategy=strategy))[0] == 1.5
        # Of groups without elements NumPy is not asked.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            computed(dask_gpusort.nanmedian(x, by=[0, 2, 0, 2], groups=[0, 1], strategy=strategy))


def test_a_source_is_read_once_by_few_tasks():
    x = da.zeros((3650, 200, 200), chunks=(365, 50, 50), dtype="f4")
    days = np.arange(3650) % 366
    for by_ in (days, da.from_array(days, chunks=365)):
        for wanted, window in ((None, 31), (np.arange(366), None)):
            found = dask_gpusort.quantile(x, 0.9, 0, by=by_, groups=wanted, window=window)
            assert len(dask.optimize(found)[0].__dask_graph__()) <= 10 * x.npartitions
    text = dask_gpusort.explain_quantile(x, 0.9, 0, by=days, window=31).detail
    for line in (
        "lanes     40,000 of 3,650 keys, each in 10 chunks",
        "groups    366, of 31 neighbours",
        "rechunk: ",
    ):
        assert line in text


def test_few_elements_are_gathered_at_a_time(monkeypatch):
    taken = []
    take = numpy_ops.take
    monkeypatch.setattr(numpy_ops, "take", lambda *args: taken.append(take(*args)) or taken[-1])
    monkeypatch.setitem(groups_of_chunks.GATHERED_BYTES, "numpy", 512)
    array = da.from_array(np.arange(6000.0).reshape(10, 20, 30) % 97, chunks=(4, 20, 30))
    found = dask_gpusort.median(array, axis=0, by=np.zeros(10), window=3).compute(scheduler="synchronous")
    rows = np.array([at for centre in range(10) for at in range(centre - 1, centre + 2) if 0 <= at < 10])
    np.testing.assert_array_equal(found[0], np.median(array.compute()[rows], axis=0))
    # The longest of the other dimensions is divided, into single elements here.
    assert [block.shape for block in taken] == [(len(rows), 20, 1)] * 30


def test_series_that_do_not_fit_a_chunk():
    """With labels in memory they are sorted by their groups, if these fit."""
    x = da.from_array(np.random.default_rng(0).integers(0, 9, 3000), chunks=100)
    labels, many, wanted = np.arange(3000) % 2, np.arange(3000) % 70, [5, 1, *range(9, 60), 99]
    functions = {
        "mode": lambda **by: dask_gpusort.mode(x, groups=wanted, **by).mode,
        "nunique": lambda **by: dask_gpusort.nunique(x, groups=wanted, window=3, **by),
        "topk": lambda **by: dask_gpusort.topk(x, 3, groups=wanted, **by),
        "argtopk": lambda **by: dask_gpusort.argtopk(x, 3, **by),
        "rank": lambda **by: dask_gpusort.rank(x, **by),
    }
    for name, function in functions.items():
        whole = function(by=many)
        with dask.config.set({"array.chunk-size": "2kiB"}):
            for by_ in (labels, da.from_array(many, chunks=100), *([many] * (name in ("argtopk", "rank")))):
                with (
                    no_computation(),
                    pytest.raises(ValueError, match="lanes of 3,000 elements do not fit a chunk: give larger"),
                ):
                    function(by=by_)
            if name not in ("argtopk", "rank"):
                found = function(by=many)
                assert any("sort" in str(key) for key in found.__dask_graph__())
                np.testing.assert_array_equal(computed(found), computed(whole))


def test_nan_in_groups_raise_on_request():
    x, labels = da.from_array(np.array([1, np.nan, 2, 3, 4]), chunks=3), np.array([*"abcd", None], object)
    assert "groups    4" in dask_gpusort.explain_rank(x, by=labels).detail
    with pytest.raises(ValueError, match="contains nan"):
        computed(dask_gpusort.mode(x, by=labels, nan_policy="raise").mode)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_labels_of_long_strings(given, lazy):
    """NumPy's search mixes up strings of more than 15 bytes of two arrays."""
    dtype = StringDType()
    names = np.array([f"station of number {number}" for number in (2, 0, 1, 0, 2)], dtype)
    wanted = np.array(["no station", *np.unique(names)[::-1]], dtype) if given else None
    by = da.from_array(names, chunks=2) if lazy else names
    found = dask_gpusort.median(da.arange(5, chunks=2), by=by, groups=wanted)
    np.testing.assert_array_equal(computed(found), [np.nan, 2, 2, 2] if given else [2, 2, 2])
