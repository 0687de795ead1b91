"""The steps of CuPy chunks run on the CPU against the same steps of NumPy chunks, for every kind of order."""

from __future__ import annotations

from dataclasses import replace

import host_cuda
import numpy as np
import pytest
from test_comparison_on_host import device  # noqa: F401 - a fixture

from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.run import Run
from dask_gpusort.kernels.loader import SOURCES
from dask_gpusort.order import Order, of_words

cupy_ops = pytest.importorskip("dask_gpusort.chunk.cupy_ops", reason="no CuPy: install dask_gpusort[cu13]")
pytestmark = pytest.mark.skipif(host_cuda.compiler() is None, reason="no g++: kernels cannot be built for the host")

ORDERS = {
    "codes": Order(np.dtype("f4"), stable=True),
    "descending codes": Order(np.dtype("f8"), descending=True, stable=True),
    "complex": Order(np.dtype("c16"), stable=True),
    "descending complex": Order(np.dtype("c16"), descending=True, stable=True),
    "words": of_words(2),
    "less": Order(np.dtype("u4"), stable=True, less="a % 10 < b % 10"),
}


def python_order(order):
    """The order as NumPy chunks have it."""
    return order if order.less is None else replace(order, less=lambda a, b: a % 10 < b % 10)


def draw(order, n, seed=0):
    rng = np.random.default_rng(seed)
    if order.words:
        return rng.integers(0, 4, (n, order.words)).astype("u8")
    if order.less is not None:
        return rng.integers(0, 1000, n).astype(order.dtype)
    special = rng.choice([0.0, -0.0, np.nan, 1.0, 2.0, -3.0], (2, n))
    return special[0].astype(order.dtype) if order.dtype.kind == "f" else special[0] + 1j * special[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What `device` runs on."""
    return host_cuda.HostDevice(SOURCES, tmp_path_factory.mktemp("host_steps"))


@pytest.fixture(autouse=True)
def steps(device, monkeypatch):  # noqa: F811
    monkeypatch.setattr(cupy_ops, "cupy", device.cupy)


def assert_runs(got, wanted):
    for found, expected in zip(got.arrays, wanted.arrays, strict=True):
        assert np.asarray(found).tobytes() == expected.astype(found.dtype).tobytes()


@pytest.mark.parametrize("kind", ORDERS)
def test_local_sort_and_merge(device, kind):  # noqa: F811
    order = ORDERS[kind]
    chunks = [draw(order, n, n) for n in (300, 0, 451, 120)]
    for num_values, positions in ((0, False), (1, False), (0, True), (2, True)):
        ours, theirs = [], []
        for chunk in chunks:
            values = [np.arange(len(chunk), dtype="f8"), np.arange(len(chunk), dtype="i2")][:num_values]
            on_device = [device.array(value) for value in values]
            ours.append(cupy_ops.local_sort(device.array(chunk), on_device, order, positions=positions))
            theirs.append(numpy_ops.local_sort(chunk, values, python_order(order), positions=positions))
            assert_runs(ours[-1], theirs[-1])
        assert_runs(cupy_ops.merge(ours, order), numpy_ops.merge(theirs, python_order(order)))


@pytest.mark.parametrize("kind", ORDERS)
def test_probe(device, kind):  # noqa: F811
    order = ORDERS[kind]
    run = numpy_ops.local_sort(draw(order, 500), [], python_order(order), positions=False)
    mine = Run(device.array(run.keys))
    for samples in (20, None):
        got = cupy_ops.probe(mine, None, order, samples=samples)
        wanted = numpy_ops.probe(run, None, python_order(order), samples=samples)
        for name in ("keys", "bracket", "left", "right", "start", "stop"):
            np.testing.assert_array_equal(getattr(got, name), getattr(wanted, name))


@pytest.mark.parametrize("kind", ORDERS)
def test_falls_and_edges(device, kind):  # noqa: F811
    order = ORDERS[kind]
    run = numpy_ops.local_sort(draw(order, 300), [], python_order(order), positions=False)
    mixed = numpy_ops.encode(draw(order, 300, 1), order)
    for keys in (run.keys, mixed, run.keys[:1], run.keys[:0]):
        assert cupy_ops.first_fall(device.array(keys), order) == numpy_ops.first_fall(keys, python_order(order))
    block = draw(order, 60).reshape(20, 3, *draw(order, 1).shape[1:])
    got, wanted = cupy_ops.edges(device.array(block), order, 0), numpy_ops.edges(block, python_order(order), 0)
    assert got[0] == wanted[0]
    for found, expected in zip(got[1:], wanted[1:], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ORDERS)
def test_rows(device, kind, axis):  # noqa: F811
    order = ORDERS[kind]
    keys = draw(order, 7 * 40)
    block = keys.reshape(7, 40, *keys.shape[1:])
    found = cupy_ops.argsort_rows(device.array(block), order, axis)
    np.testing.assert_array_equal(found, numpy_ops.argsort_rows(block, python_order(order), axis))
    if not order.words:
        ordered = cupy_ops.sort_rows(device.array(block), order, axis)
        expected = numpy_ops.sort_rows(block, python_order(order), axis)
        assert np.ascontiguousarray(ordered).tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("dtypes", [("i4", "f4"), ("f8", "?", "c16"), ("u1", "i2")], ids=str)
def test_pack(device, dtypes):  # noqa: F811
    rng = np.random.default_rng(1)
    parts = [rng.choice([0.0, -0.0, 1.0, 3.0], (6, 50)).astype(dtype) for dtype in dtypes]
    directions = [place % 2 == 0 for place in range(len(parts))]
    packed = cupy_ops.pack([device.array(part) for part in parts], directions)
    expected = numpy_ops.pack(parts, directions)
    assert packed.dtype == expected.dtype
    np.testing.assert_array_equal(packed, expected)


def test_an_expression_that_contradicts_itself_is_reported(device):  # noqa: F811
    keys = draw(ORDERS["less"], 400)
    for less in ("a <= b", "a != b"):
        with pytest.raises(ValueError, match="no strict weak order"):
            cupy_ops.local_sort(device.array(keys), [], replace(ORDERS["less"], less=less), positions=False)
