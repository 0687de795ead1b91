"""Sorting networks sort any number of keys."""

from __future__ import annotations

import numpy as np
import pytest

from dask_gpusort import network

NETWORKS = [network.odd_even_merge_layers, network.odd_even_transposition_layers]


def zeros_and_ones(n):
    """Every input of n zeros and ones, one input a column."""
    return (np.arange(1 << n)[None, :] >> np.arange(n)[:, None]) & 1


@pytest.mark.parametrize("n", range(17))
@pytest.mark.parametrize("layers", NETWORKS)
def test_networks_sort_all_zeros_and_ones(layers, n):
    # A network that sorts these sorts everything (Knuth, 5.3.4, theorem Z).
    keys = zeros_and_ones(n)
    np.testing.assert_array_equal(network.apply(layers(n), keys), np.sort(keys, axis=0))


@pytest.mark.parametrize("n", [17, 31, 32, 33, 100, 257])
@pytest.mark.parametrize("layers", NETWORKS)
def test_networks_sort_more_keys(layers, n):
    rng = np.random.default_rng(n)
    keys = rng.integers(0, 50, (n, 200))
    np.testing.assert_array_equal(network.apply(layers(n), keys), np.sort(keys, axis=0))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 100])
@pytest.mark.parametrize("layers", NETWORKS)
def test_comparators_of_a_layer_are_disjoint(layers, n):
    for low, high in layers(n):
        positions = np.concatenate([low, high])
        assert len(np.unique(positions)) == len(positions)
        assert (low < high).all()
        assert not len(positions) or (positions.min() >= 0 and positions.max() < n)


@pytest.mark.parametrize(("n", "comparators"), [(2, 1), (4, 5), (8, 19), (16, 63), (1024, 24063)])
def test_odd_even_merge_has_batchers_number_of_comparators(n, comparators):
    # (m^2 - m + 4) 2^(m - 2) - 1 for n = 2^m (Knuth, 5.3.4).
    assert sum(len(low) for low, _ in network.odd_even_merge_layers(n)) == comparators


@pytest.mark.parametrize("n", [3, 5, 16])
def test_a_network_without_a_layer_fails(n):
    for layers in NETWORKS:
        every = list(layers(n))
        keys = zeros_and_ones(n)
        cut = network.apply(iter(every[:-1]), keys)
        assert (cut != np.sort(keys, axis=0)).any()
