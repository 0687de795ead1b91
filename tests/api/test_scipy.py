"""Functions of `scipy.stats` on Dask arrays after `register`, against the same functions on NumPy arrays.

SciPy reads SCIPY_ARRAY_API at its import, and then refuses arguments that other tests give it: these tests run in a
process of their own.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.marks import slow_but_first
from support.scripts import run_fresh
from support.sorting import computed

import dask_gpusort
from dask_gpusort.adapters import scipy_stats

INSIDE = bool(os.environ.get("SCIPY_ARRAY_API"))
stats = pytest.importorskip("scipy.stats")
if not hasattr(stats, "spearmanrho"):  # SciPy 1.17 has it first
    pytest.skip("SciPy is too old to take Dask arrays", allow_module_level=True)
inside = pytest.mark.skipif(not INSIDE, reason="runs in a process that sets SCIPY_ARRAY_API")
outside = pytest.mark.skipif(INSIDE, reason="runs in the first process")
pytestmark = pytest.mark.usefixtures("workers_fork_from_a_server")

#: How many samples a test takes.
TESTS = {"spearmanrho": 2, "chatterjeexi": 2, "mannwhitneyu": 2, "ansari": 2, "fligner": 3, "mood": 2, "wilcoxon": 2}
TESTS |= {"kruskal": 3, "brunnermunzel": 2, "friedmanchisquare": 4, "iqr": 1, "median_abs_deviation": 1}
#: Arguments with which calls compute nothing.
LAZY = {name: {} for name in TESTS if name not in ("mannwhitneyu", "ansari", "mood", "iqr")}
LAZY |= {"brunnermunzel": {"distribution": "normal"}, "wilcoxon": {"method": "asymptotic"}}


@pytest.mark.timeout(1200)
@outside
@pytest.mark.parametrize("more", slow_but_first([], ["-m", "slow"]))
def test_in_a_process_of_its_own(more):
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", __file__, *more]
    env = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.fixture(scope="module", autouse=INSIDE)
def registered():
    with dask_gpusort.register("scipy"):
        yield


def fields(result):
    return dict(result._asdict()) if hasattr(result, "_asdict") else {"value": result}


def check(result, wanted, rtol=1e-12):
    got, wanted = fields(result), fields(wanted)
    assert got.keys() == wanted.keys()
    assert all(isinstance(value, da.Array) for value in got.values())
    (together,) = dask.compute(got, scheduler="synchronous")
    for (name, value), in_memory in zip(got.items(), together.values(), strict=True):
        assert value.dtype == in_memory.dtype == wanted[name].dtype
        assert value.shape == in_memory.shape == np.shape(wanted[name])
        np.testing.assert_allclose(in_memory, wanted[name], rtol=rtol, atol=rtol)


@st.composite
def arguments(draw, name):
    """Samples in memory, the same in chunks, the axis, and whether one has NaN; with ties in each series, or none."""
    size, others = draw(st.integers(14, 24)), draw(st.lists(st.integers(1, 3), max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    position = draw(st.integers(0, len(others)))
    unpaired = name in ("mannwhitneyu", "ansari", "fligner", "mood", "kruskal", "brunnermunzel")
    ties, samples = draw(st.booleans()), []
    for _ in range(TESTS[name]):
        shape = [*others[:position], size + unpaired * draw(st.integers(0, 3)), *others[position:]]
        sample = rng.integers(0, 6, shape) if ties else rng.random(shape)
        samples.append(sample.astype(draw(st.sampled_from(["f8", "i8"])) if ties else "f8"))
    with_nan = samples[0].dtype.kind == "f" and draw(st.booleans())
    if with_nan:
        samples[0][tuple(draw(st.integers(0, length - 1)) for length in samples[0].shape)] = np.nan
    lazy = [
        da.from_array(each, chunks=tuple(draw(st.integers((n + 3) // 4, n)) for n in each.shape)) for each in samples
    ]
    if draw(st.booleans()):
        lazy = [each.rechunk(tuple((0, *sizes[:1], 0, *sizes[1:]) for sizes in each.chunks)) for each in lazy]
    choices = [position, position - len(others) - 1]
    return samples, lazy, draw(st.sampled_from([*choices, None])), with_nan


@inside
@pytest.mark.parametrize("name", TESTS)
@settings(settings.get_profile("short"))
@given(data=st.data())
def test_the_same_as_of_numpy_arrays(name, data):
    samples, lazy, axis, with_nan = data.draw(arguments(name))
    function, policy = getattr(stats, name), data.draw(st.sampled_from(["propagate", "omit", "raise"]))
    options = {"axis": axis, "nan_policy": policy, "keepdims": data.draw(st.booleans())}
    left = policy == "omit" and (axis is None or samples[0].ndim == 1)
    refused = {"raise": (ValueError, "nan_policy='raise' refuses"), "omit": (NotImplementedError, "leave out NaN")}
    if name == "mannwhitneyu":
        refused["propagate"] = ValueError, "must not contain NaNs"
    if with_nan and policy in refused and not left:
        error, message = refused[policy]
        with pytest.raises(error, match=message):
            function(*lazy, **options)
        return
    with np.errstate(all="ignore"):
        check(function(*lazy, **options), function(*samples, **options))


def pairs(size=60):
    samples = np.random.default_rng(1).integers(0, 40, (4, size, 3)).astype("f8")
    return samples, [da.from_array(each, chunks=(25, 2)) for each in samples]


@inside
@pytest.mark.parametrize("name", LAZY)
def test_nothing_is_computed_while_the_graph_is_built(name, raise_if_computes):
    samples, lazy = pairs()
    function = getattr(stats, name)
    with raise_if_computes():
        found = function(*lazy[: TESTS[name]], **LAZY[name])
    check(found, function(*samples[: TESTS[name]], **LAZY[name]))


@inside
@settings(settings.get_profile("short"), max_examples=30)
@given(data=st.data())
def test_spearmanr(data):
    """Of two variables and of several, along either axis; SciPy has one NaN if its first variables are constant."""
    rng, axis = np.random.default_rng(data.draw(st.integers(0, 99))), data.draw(st.sampled_from([0, 1, None]))
    size, samples = data.draw(st.integers(12, 20)), []
    counts = [2, 2] if axis is None else data.draw(st.sampled_from([[None, None], [1, None], [2], [3], [2, 2]]))
    dtype = data.draw(st.sampled_from(["f4", "f8", "i8"]))
    for count in counts:
        sample = rng.integers(0, 9, (size, count or 1)).astype(dtype)
        samples.append(sample[:, 0] if count is None else sample.T if axis == 1 else sample)
    with_nan = dtype != "i8" and data.draw(st.booleans())
    if with_nan:
        samples[0].flat[-1] = np.nan
    lazy = [da.from_array(each, chunks=data.draw(st.integers(1, size))) for each in samples]
    policy = data.draw(st.sampled_from(["propagate", "omit", "raise"]))
    options = {"axis": axis, "nan_policy": policy, "alternative": data.draw(st.sampled_from(["two-sided", "less"]))}
    if with_nan and policy == "raise":
        with pytest.raises(ValueError, match=r"a( or b)? of spearmanr has NaN"):
            stats.spearmanr(*lazy, **options)
    elif with_nan and policy == "omit" and counts in ([3], [2, 2]) and axis is not None:
        with pytest.raises(NotImplementedError, match="leave out NaN before"):
            stats.spearmanr(*lazy, **options)
    else:
        if with_nan and policy == "omit" and axis is None:  # where SciPy fails
            samples, options["axis"] = [each.reshape(-1) for each in samples], 0
        found, wanted = stats.spearmanr(*lazy, **options | {"axis": axis}), stats.spearmanr(*samples, **options)
        assert found.correlation is found.statistic
        arrays = type(wanted)(*map(np.asarray, wanted))  # one NaN is Python's
        arrays.correlation = np.asarray(wanted.correlation)
        # The p-value of a diagonal is 0, that of 1 less a bit is not.
        check(found, arrays, 1e-7)


@inside
def test_spearmanr_is_lazy_and_has_rows_of_nan(raise_if_computes):
    array = pairs()[0][0]
    array = np.column_stack([np.where(array == 3, np.nan, array), array, np.zeros(len(array))])[:, [1, 4, 2, 6]]
    with raise_if_computes():
        found = stats.spearmanr(da.from_array(array, chunks=(17, 3)))
    with np.errstate(all="ignore"):
        check(found, stats.spearmanr(array), 1e-7)


@inside
def test_exact_p_values_of_few_elements():
    samples = np.random.default_rng(1).random((2, 7, 3))
    lazy = [da.from_array(each, chunks=4) for each in samples]
    for name in ("mannwhitneyu", "ansari", "wilcoxon"):
        check(getattr(stats, name)(*lazy), getattr(stats, name)(*samples))


@inside
@pytest.mark.parametrize("name", sorted(TESTS.keys() - {"mannwhitneyu"}))  # which refuses them
def test_samples_of_nan_alone(name):
    samples = [np.full(20, np.nan)] * TESTS[name]
    found = getattr(stats, name)(*[da.from_array(each, chunks=8) for each in samples], nan_policy="omit")
    assert all(np.isnan(value.compute()) for value in fields(found).values())


@inside
@pytest.mark.parametrize("center", ["mean", "median", "trimmed"])
def test_fligner_with_each_center(center):
    samples, lazy = pairs()
    check(stats.fligner(*lazy, center=center), stats.fligner(*samples, center=center))


@inside
@pytest.mark.parametrize("zero_method", ["wilcox", "pratt", "zsplit"])
def test_wilcoxon_of_zeros_and_nan(zero_method):
    """The second sample is broadcast; results have a third field."""
    samples, lazy = pairs()
    samples[0, 3, 1] = np.nan
    lazy[0] = da.where(np.isnan(samples[0]), np.nan, lazy[0])
    options = {"zero_method": zero_method, "method": "asymptotic", "correction": True, "alternative": "less"}
    for part in (np.s_[:, :1], np.s_[:1], np.s_[5, :]):
        found = stats.wilcoxon(lazy[0], lazy[1][part], **options)
        wanted = stats.wilcoxon(samples[0], samples[1][part], **options)
        check(found, wanted)
        assert "zstatistic" in fields(found)


@inside
def test_several_axes_keywords_and_float32():
    samples = np.random.default_rng(1).integers(0, 9, (2, 5, 6, 4)).astype("f4")
    x, y = (da.from_array(each, chunks=(2, 3, 4)) for each in samples)
    check(stats.mood(y=y, x=x, axis=(2, 0)), stats.mood(*samples, axis=(2, 0)), 1e-5)
    check(stats.mood(x, y, -2, "less"), stats.mood(*samples, -2, "less"), 1e-5)
    check(stats.kruskal(x, y[0]), stats.kruskal(samples[0], samples[1][0]), 1e-5)


@inside
@pytest.mark.parametrize("nan_policy", ["propagate", "omit", "raise"])
@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_rankdata(method, nan_policy, raise_if_computes):
    """Also their dtypes, which depend on whether there are NaN."""
    whole = pairs()[0][0]
    for array in (whole, whole.astype("i4"), whole[:0]):
        lazy = da.from_array(array, chunks=(25, 2))
        for axis in (None, 0, -1):
            with raise_if_computes() if method == "average" or nan_policy == "raise" else contextlib.nullcontext():
                ranks = stats.rankdata(lazy, method, axis=axis, nan_policy=nan_policy)
            np.testing.assert_array_equal(computed(ranks), stats.rankdata(array, method, axis=axis), strict=True)
    holes = np.where(whole == 5, np.nan, whole)
    ranks = stats.rankdata(da.from_array(holes, chunks=(25, 2)), method, axis=0, nan_policy=nan_policy)
    if nan_policy == "raise":
        with pytest.raises(ValueError, match="contains nan"):
            computed(ranks)
        return
    wanted = stats.rankdata(holes, method, axis=0, nan_policy=nan_policy)
    assert ranks.dtype == wanted.dtype
    if nan_policy == "omit":
        np.testing.assert_array_equal(computed(ranks), wanted)
    else:
        assert np.isnan(computed(ranks)).all(axis=0).tolist() == np.isnan(holes).any(axis=0).tolist()


@inside
@pytest.mark.filterwarnings("ignore:.*too small")
@pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
@pytest.mark.parametrize("axis", [None, 0, 1, (1, 0)])
def test_mode(axis, nan_policy, raise_if_computes):
    array = np.random.default_rng(0).integers(0, 9, (40, 6)) / 2
    array[::2, 1], array[:, 2] = np.nan, np.nan
    for keepdims in (False, True):
        options = {"axis": axis, "nan_policy": nan_policy, "keepdims": keepdims}
        with raise_if_computes():
            found = stats.mode(da.from_array(array, chunks=(11, 4)), **options)
        wanted = stats.mode(array, **options)
        for name in ("mode", "count"):
            got = computed(getattr(found, name))
            np.testing.assert_array_equal(got, getattr(wanted, name))


@inside
@settings(settings.get_profile("short"), max_examples=40)
@given(data=st.data())
def test_quantile(data):
    """Also where SciPy's own has to serve, and where it refuses."""
    samples, lazy = pairs(20)
    array, x = samples[0], lazy[0]
    if data.draw(st.booleans()):
        array, x = np.where(array == array[0, 0], np.nan, array), da.where(x == array[0, 0], np.nan, x)
    dtype = data.draw(st.sampled_from(["f4", "f8"] if np.isnan(array).any() else ["f4", "f8", "i4"]))
    array, x = array.astype(dtype), x.astype(dtype)
    methods = [*scipy_stats._METHODS, "round_inward"]
    p = data.draw(st.sampled_from([0.3, 1.0, -0.5, [0.5], [0.1, 0.5, 0.9]]))
    p, in_chunks = (p, p) if isinstance(p, float) else (np.asarray(p), da.asarray(p))
    options = {
        "method": data.draw(st.sampled_from(sorted(methods))),
        "axis": data.draw(st.sampled_from([None, 0, 1, -1, -2])),
        "nan_policy": data.draw(st.sampled_from(["propagate", "omit"])),
        "keepdims": data.draw(st.sampled_from([None, True, False])),
    }
    try:
        wanted = stats.quantile(array, p, **options)
    except ValueError:
        with pytest.raises(ValueError, match="keepdims"):
            stats.quantile(x, in_chunks, **options)
        return
    check(stats.quantile(x, in_chunks, **options), wanted, 1e-5 if dtype == "f4" else 1e-12)


@inside
def test_quantile_computes_nothing_of_the_data(raise_if_computes):
    with raise_if_computes():
        assert stats.quantile(pairs()[1][0], np.array([0.25, 0.5]), axis=-1).shape == (60, 2)


@inside
def test_what_is_refused():
    x = pairs()[1][0]
    few = da.from_array([1.0, 2, 2, 3, -4], chunks=2)
    asked = {"y": few, "method": stats.PermutationMethod()}
    for name, options in (("wilcoxon", {}), ("wilcoxon", asked), ("mannwhitneyu", asked), ("chatterjeexi", asked)):
        with pytest.raises(NotImplementedError, match="permutation_test takes no Dask arrays.*method='asymptotic'"):
            getattr(stats, name)(few, **options)
    with pytest.raises(NotImplementedError, match="permutation_test takes no Dask arrays"):
        stats.permutation_test((few, few), lambda x, y, axis: (x - y).mean(axis=axis))
    for options, message in (({}, "at least 2 variables: give b"), ({"axis": -1}, r"axis be 0, 1 or None \(got -1\)")):
        with pytest.raises(ValueError, match=message):
            stats.spearmanr(few, **options)
    with pytest.raises(ValueError, match="alternative must be one of 'two-sided', 'less', 'greater'"):
        stats.spearmanr(few, few, alternative="more")
    with pytest.raises(NotImplementedError, match="no method 'harrell-davis'"):
        stats.quantile(few, 0.5, method="harrell-davis")
    with pytest.raises(ValueError, match="nan_policy must be .*got 'drop'"):
        stats.mood(x, x, nan_policy="drop")
    for name, samples in TESTS.items():
        with pytest.raises(TypeError, match="is masked.*fill them first"):
            getattr(stats, name)(*[da.ma.masked_equal(x, 3)] * samples)
    with pytest.raises(ValueError, match=r"samples\[1\] has an unknown size along axis 0: call"):
        stats.kruskal(x[:, 0], x[x > 3])
    with pytest.raises(ValueError, match="unknown size"):
        stats.mood(x=x[x > 3], y=x)
    with pytest.raises(np.exceptions.AxisError):
        stats.mood(x, x, axis=2)
    with pytest.raises(ValueError, match="broadcast"):
        stats.wilcoxon(x, x[:7])
    with pytest.raises(TypeError, match="colour"):
        stats.mood(x, x, colour=1)


@inside
def test_arrays_of_the_package_dask_array():
    dask_array = pytest.importorskip("dask_array")
    samples, _ = pairs()
    x, y = (dask_array.from_array(each, chunks=(25, 2)) for each in samples[:2])
    found = [
        *stats.mood(x, y),
        stats.rankdata(x, axis=0),
        stats.quantile(x, 0.3),
        stats.spearmanr(x[:, 0], y[:, 0]).correlation,
    ]
    wanted = [*stats.mood(*samples[:2]), stats.rankdata(samples[0], axis=0), stats.quantile(samples[0], 0.3)]
    wanted.append(stats.spearmanr(samples[0, :, 0], samples[1, :, 0]).correlation)
    for one, other in zip(found, wanted, strict=True):
        assert isinstance(one, dask_array.Array)
        np.testing.assert_allclose(one.compute(scheduler="synchronous"), other, rtol=1e-12)


@inside
def test_the_example_of_the_guide():
    page = Path(dask_gpusort.__file__).parents[1] / "docs" / "guide" / "functions.md"
    (block,) = re.findall(r"^```pycon\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    names = {"da": da, "dask_gpusort": dask_gpusort}
    test = doctest.DocTestParser().get_doctest(block, names, "guide", None, None)
    assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
    test.globs["registration"].__exit__()


BEFORE = """
import inspect
from scipy import stats
from scipy.stats import _mannwhitneyu, _stats_py, _wilcoxon
from scipy.stats import ansari, brunnermunzel, chatterjeexi, iqr, kruskal, mannwhitneyu, median_abs_deviation, mode
from scipy.stats import mood, quantile, rankdata, wilcoxon
modules = (stats, _mannwhitneyu, _stats_py, _wilcoxon)
"""
CHECK = """
new = {each.name for each in dask_gpusort.registered()}
assert {"scipy.stats._stats_py._rankdata.__code__", "scipy.stats._morestats.mood.__code__"} <= new
assert 'dask_gpusort.adapters.scipy_stats.mood' in repr(dask_gpusort.registered())
functions = [value for module in modules for value in vars(module).values() if hasattr(value, "__code__")]
ours = [each for each in functions if "dask_gpusort" in each.__code__.co_filename]
assert {_mannwhitneyu._rankdata, _wilcoxon._rankdata, mood, rankdata, quantile, wilcoxon, mode, iqr} <= {*ours}
assert list(inspect.signature(rankdata).parameters) == ["a", "method", "axis", "nan_policy"]
x = da.from_array(np.random.default_rng(0).integers(0, 30, (60, 3)) / 2, chunks=7)
y, calls = x[:50], {
    mood: 2, mannwhitneyu: 2, ansari: 2, kruskal: 2, brunnermunzel: 2, chatterjeexi: 2, iqr: 1, rankdata: 1, mode: 1,
    median_abs_deviation: 1,
}
for function, count in calls.items():
    lazy = [x, x[::-1] if function is chatterjeexi else y][:count]
    with np.errstate(all="ignore"):
        found, wanted = function(*lazy), function(*(each.compute() for each in lazy))
    for one, other in zip(*(each if isinstance(each, tuple) else [each] for each in (found, wanted))):
        assert isinstance(one, da.Array), function
        np.testing.assert_allclose(one, other)
assert isinstance(quantile(x, 0.3), da.Array)
assert isinstance(mode(x, 1, nan_policy="omit", keepdims=True).count, da.Array)
dask_gpusort.unregister()
assert not [each for each in ours if "dask_gpusort" in each.__code__.co_filename]
assert list(inspect.signature(rankdata).parameters) == ["a", "method", "axis", "nan_policy"]
for function, count in calls.items():
    try:
        function(*[x, y][:count])
    except Exception:
        pass
    else:
        raise AssertionError("SciPy takes Dask arrays without us", function)
"""


@inside
@pytest.mark.parametrize(
    "lines", slow_but_first([BEFORE, 'dask_gpusort.register("scipy")'], ["dask_gpusort.register()", BEFORE])
)
def test_any_order_of_imports_and_all_is_restored(lines):
    run_fresh(*lines, CHECK)


@inside
def test_other_functions_of_scipy_refuse_dask_arrays():
    """Without what SciPy leaves out, they would give results of another axis."""
    run_fresh(
        "from scipy.stats import cramervonmises_2samp",
        "dask_gpusort.register()",
        "x = da.from_array(np.arange(24.0).reshape(8, 3), chunks=3)",
        "try: cramervonmises_2samp(x, x[::-1])",
        "except ValueError as error: assert 'chunk sizes are unknown' in str(error)",
        "else: raise AssertionError",
    )


@outside
def test_without_its_variable_scipy_stays_as_it_is():
    check_names = "assert not [one for one in dask_gpusort.registered() if one.name.startswith('scipy.stats')]"
    run_fresh("import scipy.stats", "dask_gpusort.register('scipy')", check_names)
