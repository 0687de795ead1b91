"""The recipes of the guide give what SciPy and definitions give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_gpusort

stats = pytest.importorskip("scipy.stats")
RECIPES: dict[str, Any] = {"np": np, "da": da, "dask_gpusort": dask_gpusort}
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "recipes.md"
for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
    exec(block, RECIPES)


def lazy(*arrays: np.ndarray) -> list[Any]:
    return [da.from_array(array, chunks=-(-len(array) // 3)) for array in arrays]


@given(st.data(), st.integers(2, 60))
def test_scores_of_labels(data: Any, size: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 20)))
    scores, labels = rng.integers(0, data.draw(st.sampled_from([3, 1 << 40])), size), rng.random(size) < 0.4
    labels[:2] = [True, False]
    higher = scores[labels, None] - scores[~labels]
    wanted = (higher > 0).mean() + (higher == 0).mean() / 2
    np.testing.assert_allclose(RECIPES["roc_auc"](*lazy(labels, scores)).compute(), wanted)
    shares = [labels[scores >= own].mean() for own in scores[labels]]
    np.testing.assert_allclose(RECIPES["average_precision"](*lazy(labels, scores)).compute(), np.mean(shares))


@given(st.integers(0, 1 << 20), st.integers(1, 8), st.integers(20, 200))
def test_equal_bins(seed: int, bins: int, size: int) -> None:
    x = np.random.default_rng(seed).random(size)
    found, edges = RECIPES["equal_bins"](*lazy(x), bins)
    np.testing.assert_array_equal(edges, np.quantile(x, np.linspace(0, 1, bins + 1)))
    counts = np.bincount(found.compute(), minlength=bins)
    assert len(counts) == bins
    assert counts.max() - counts.min() <= 1


def test_theil_sen() -> None:
    cube, times = np.random.default_rng(0).random((9, 2, 3)), np.sort(np.random.default_rng(1).random(9))
    found = RECIPES["theil_sen"](da.from_array(cube, chunks=(4, 1, 2)), times).compute()
    for at in np.ndindex(2, 3):
        np.testing.assert_allclose(found[at], stats.theilslopes(cube[(slice(None), *at)], times).slope)


@given(st.integers(0, 1 << 20), st.integers(1, 50), st.integers(2, 50))
def test_quantile_mapping(seed: int, size: int, others: int) -> None:
    rng = np.random.default_rng(seed)
    model, observed = rng.random(size), rng.random(others) * 9
    found = RECIPES["map_quantiles"](*lazy(model, observed)).compute()
    np.testing.assert_allclose(found, np.quantile(observed, (stats.rankdata(model) - 0.5) / size, method="hazen"))
    same = RECIPES["map_quantiles"](*lazy(model, rng.permutation(model))).compute()
    np.testing.assert_allclose(same, model)


def test_morton_order() -> None:
    x, y = np.random.default_rng(0).integers(0, 65536, (2, 300)).astype(float)
    x[:2] = y[:2] = 0, 65535
    codes = [
        int("".join(a + b for a, b in zip(f"{int(q):016b}", f"{int(p):016b}", strict=True)), 2)
        for p, q in zip(x, y, strict=True)
    ]
    np.testing.assert_array_equal(RECIPES["morton_order"](*lazy(x, y)).compute(), np.argsort(codes, kind="stable"))


def test_bootstrap_of_a_median() -> None:
    x = np.array([3.0, 1.0, 4.0, 1.5, 9.0])
    samples = np.stack(np.meshgrid(*[x] * 5), -1).reshape(-1, 5)
    medians = np.median(samples, 1)
    mean, error = da.compute(*RECIPES["bootstrap_median"](*lazy(x)))
    np.testing.assert_allclose([mean, error], [medians.mean(), medians.std()])
