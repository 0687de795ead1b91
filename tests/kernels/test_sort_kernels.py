"""Sorts of one array on the host, with random thread orders, and on a GPU: bit by bit against the order of codes."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.gpu_checks import assert_bits, expected_codes, expected_positions, expected_sorted
from support.gpu_data import DISTRIBUTIONS, DTYPES, make_keys
from support.host_kernels import BLOCK_SORT_KEYS, LSD_TILE, TWO_LEVELS, use_small_blocks
from support.marks import grid

from dask_gpusort import kernels
from dask_gpusort.kernels.policy import tuning

ALGORITHMS = ["auto", "msd", "lsd"]
CAPACITIES = sorted({shape.capacity for shapes in tuning.BLOCK_SORT.values() for shape in shapes})
TILES = sorted({tile.keys for table in (tuning.PARTITION, tuning.LSD) for tile in table.values()})
EDGES = sorted({0, 1, 2, 31, 33, 1009, 65537, *(edge + d for edge in CAPACITIES + TILES for d in (-1, 0, 1))})
MIDDLE = 300_007  # several tiles, few buckets; a prime
LARGE = (1 << 22) + 3  # two levels of partition, or stable passes


def sort_keys(device, keys, *, descending, **options):
    out = device.empty(keys.size, keys.dtype)
    kernels.sort_keys(device.array(keys), descending=descending, out=out, **options)
    assert_bits(out, expected_sorted(keys, descending))


def sort_codes(device, keys, *, descending, algorithm):
    found = kernels.sorted_codes(device.array(keys), descending=descending)
    assert_bits(found, np.sort(expected_codes(keys, descending)))


def sort_stably(device, keys, *, descending, **options):
    found = kernels.sort_keys(device.array(keys), descending=descending, stable=True, **options)
    assert_bits(found, keys[expected_positions(keys, descending)])


def argsort(device, keys, *, descending, **options):
    out = device.empty(keys.size, np.int64)
    kernels.argsort(device.array(keys), descending=descending, out=out, **options)
    assert_bits(out, expected_positions(keys, descending))


def sort_with_positions(device, keys, *, descending, algorithm):
    order = expected_positions(keys, descending)
    found, positions = kernels.sort_with_positions(device.array(keys), descending=descending)
    assert_bits(found, keys[order])
    assert_bits(positions, order.astype(np.uint32))


def pairs_of(dtype):
    def sort_pairs(device, keys, *, descending, **options):
        values = np.arange(keys.size) * (1 + 2j) if dtype == "c16" else make_keys(dtype, keys.size, "random", 4)
        outs = {"keys_out": device.empty(keys.size, keys.dtype), "values_out": device.empty(keys.size, dtype)}
        kernels.sort_pairs(device.array(keys), device.array(values), descending=descending, **outs, **options)
        order = expected_positions(keys, descending)
        assert_bits(outs["keys_out"], keys[order])
        assert_bits(outs["values_out"], values[order])

    return sort_pairs


class Case(NamedTuple):
    """A call and its oracle, with all combinations of keys, on one device."""

    check: Any
    dtypes: list[str]
    distributions: list[str]
    sizes: list[int]
    algorithms: list[str] = ALGORITHMS[:1]
    directions: tuple[bool, ...] = (False,)


BOTH = (False, True)
SOME = ["random", "few", "low entropy"]
SORTED = [*SOME, "sorted"]
LEVELS = [1, BLOCK_SORT_KEYS + 1, TWO_LEVELS]
CASES = {
    "host": [
        Case(sort_keys, ["f4"], SORTED, [0, BLOCK_SORT_KEYS - 1, BLOCK_SORT_KEYS, *LEVELS]),
        Case(sort_keys, ["i2"], SORTED, [1, 4093, TWO_LEVELS]),
        Case(argsort, ["i4", "f8"], SORTED, LEVELS),
        Case(sort_keys, ["i4"], SORTED, [1, LSD_TILE - 1, LSD_TILE, LSD_TILE + 1, 5003], ["lsd"]),
        Case(argsort, ["u4"], SORTED, [1, LSD_TILE + 1, 5003], ["lsd"]),
    ],
    "gpu": [
        Case(sort_keys, DTYPES, DISTRIBUTIONS, [MIDDLE], ALGORITHMS, BOTH),
        Case(sort_keys, ["u4", "f4", "i8", "f8"], DISTRIBUTIONS, [LARGE], ALGORITHMS),
        Case(sort_keys, ["u1", "u4", "f8"], ["random"], EDGES, ALGORITHMS),
        Case(sort_keys, DTYPES, ["special"], [0, 1, 1023, 1025], ALGORITHMS, BOTH),
        Case(sort_keys, ["u4", "i8"], [*SOME, "equal"], [CAPACITIES[-1] + 1, 1 << 16, 1 << 19, (1 << 19) + 1, 1 << 22]),
        Case(sort_codes, DTYPES, ["random"], [0, 5, 20_011, MIDDLE, LARGE], directions=BOTH),
        Case(sort_stably, ["f2", "f4", "f8", "c8"], ["special"], [0, 1, 1023, 1025, MIDDLE], ALGORITHMS, BOTH),
        Case(argsort, DTYPES, DISTRIBUTIONS, [MIDDLE], ["auto", "lsd"], BOTH),
        Case(argsort, ["u4", "f8"], [*SOME, "equal"], [LARGE]),
        Case(argsort, ["u4", "u8"], ["few"], EDGES),
        Case(sort_with_positions, DTYPES, ["special"], [0, 5, MIDDLE], directions=BOTH),
        *(
            Case(pairs_of(values), ["u1", "f2", "i4", "f4", "u8", "f8", "c8"], ["few", "special"], [MIDDLE], algorithms)
            for values, algorithms in product(("u4", "f8", "i1", "c16"), (["auto"], ["lsd"]))
        ),
        *(Case(pairs_of(values), ["u4", "i4", "u8", "f4"], SOME, [LARGE]) for values in ("u4", "f8")),
        *(Case(pairs_of(values), ["u1", "i2"], ["random"], [LARGE]) for values in ("u4", "f8", "c16")),
    ],
}
FOUND = [
    pytest.param(name, case, dtype, distribution, marks=pytest.mark.gpu if name == "gpu" else ())
    for name, cases in CASES.items()
    for case in cases
    for dtype, distribution in product(case.dtypes, case.distributions)
]


def calls(recorder):
    """Kernel calls of the tests, so that their kernels are compiled together."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_blocks(patch)
        for case in CASES["host"]:
            for dtype, n, algorithm in product(case.dtypes, case.sizes, case.algorithms):
                function = getattr(kernels, case.check.__name__)
                recorder.record(function, recorder.empty(n, dtype), algorithm=algorithm)
        for dtype, descending in product(("f4", "f8"), BOTH):
            keys = recorder.empty(TWO_LEVELS, dtype)
            recorder.record(kernels.sort_keys, keys, descending=descending, algorithm="msd")
            recorder.record(kernels.argsort, keys, descending=descending)
        for dtype in IN_PLACE:
            recorder.record(kernels.sort_keys, recorder.empty(5003, dtype), algorithm="lsd")


@pytest.fixture
def host(host, monkeypatch):
    """The host, with small blocks and tiles."""
    use_small_blocks(monkeypatch)
    return host


@pytest.mark.parametrize(("device", "case", "dtype", "distribution"), FOUND, indirect=["device"])
def test_sorts(device, case, dtype, distribution):
    for n, algorithm, descending in product(case.sizes, case.algorithms, case.directions):
        case.check(device, make_keys(dtype, n, distribution), descending=descending, algorithm=algorithm)


IN_PLACE = ["u1", "i2", "u4", "f8"]


@pytest.mark.parametrize("dtype", IN_PLACE)
@pytest.mark.parametrize("shared", range(3))
def test_sorts_in_place(device, dtype, shared):
    """Keys share their low bytes."""
    for n in (LSD_TILE + 3, 3 * LSD_TILE, *device.large(MIDDLE)):
        keys = make_keys(dtype, n, "random")
        keys.view("u1").reshape(n, -1)[:, :shared] = 3
        for algorithm in ("lsd", *device.large("auto")):
            for skip in (0, 1, 3):
                array = device.array(keys)[skip:]
                assert kernels.sort_keys(array, out=array, algorithm=algorithm) is array
                assert_bits(array, expected_sorted(keys[skip:], False))


FLOATS = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.standard_normal(n) * 3 - 1,
    "lognormal": lambda rng, n: np.exp(4 * rng.standard_normal(n)),
    "both signs": lambda rng, n: rng.random(n) * 20 - 7,
    "exponential": lambda rng, n: rng.standard_exponential(n),
    "far from zero": lambda rng, n: 1000 + rng.random(n),
    "tiny": lambda rng, n: rng.random(n) * 1e-40,
    "huge": lambda rng, n: (rng.random(n) - 0.5) * 6e38,
    "some NaN": lambda rng, n: np.where(rng.random(n) < 2e-4, np.nan, rng.random(n)),
    "many NaN": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
    "infinities": lambda rng, n: np.where(rng.random(n) < 2e-4, -np.inf, rng.random(n)),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.1, -0.0, rng.random(n) - 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype"), grid(list(FLOATS), ["f4", "f8"]))
def test_floats_are_mapped_by_value(device, dtype, kind):
    n = TWO_LEVELS if device.is_small else (1 << 23) + 5
    keys = FLOATS[kind](np.random.default_rng(14), n).astype(dtype)
    for descending in BOTH:
        sort_keys(device, keys, descending=descending, algorithm="msd")
        argsort(device, keys, descending=descending)


@pytest.mark.parametrize("tied", [[0.0, -0.0, np.nan, -np.nan], [0.0, -np.nan]], ids=["both signs", "one sign"])
@pytest.mark.parametrize("descending", BOTH)
def test_ties_keep_the_order_of_the_input(device, tied, descending):
    keys = np.random.default_rng(21).choice([-1.0, 2.0, *tied], BLOCK_SORT_KEYS - 1).astype("f4")
    for few in (keys, keys[:7]):
        sort_stably(device, few, descending=descending)
        array = device.array(few)
        kernels.sort_keys(array, descending=descending, stable=True, out=array)
        assert_bits(array, few[expected_positions(few, descending)])
