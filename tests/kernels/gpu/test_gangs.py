"""Gangs on several GPUs of one host: NCCL between their members, and what happens if members are lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support.dask_gpu import DTYPES, sample
from support.gpu_clusters import DISTRIBUTIONS, TIMEOUT, client_of, fetched, held, held_by, on_gpus, used_cluster
from support.strategies import forget_sizes

import dask_gpusort

cupy = pytest.importorskip("cupy")
distributed = pytest.importorskip("distributed")
gangs = pytest.importorskip("support.gangs")
pytestmark = pytest.mark.multi_gpu

SIZE = 300_007
SORTS_AT_ONCE = 12
#: Where a worker is killed, or its memory runs out: the module and the name of a function that a member calls.
STAGES = {
    "sort": ("dask_gpusort.functions.sort", "summarize_run"),
    "cut": ("dask_gpusort.functions.sort", "bounds_at_ranks"),
    "merge": ("dask_gpusort.drivers.gang", "cut_part"),
}


@pytest.fixture(scope="module")
def gpus() -> Iterator[Any]:
    """A client of a cluster of all GPUs."""
    with client_of(None, "ucx") as client:
        yield client


def epochs(dask_worker: Any) -> dict[tuple[str, ...], int]:
    """Epochs of the communicators that a worker keeps, by the addresses of their ranks."""
    return {ranks: epoch for ranks, (epoch, _) in dask_worker.plugins["gpusort-gang"]._made.items()}


def communicators(dask_worker: Any) -> list[str]:
    """Kinds of the communicators that a worker keeps."""
    return [type(made).__name__ for _, made in dask_worker.plugins["gpusort-gang"]._made.values()]


FUNCTIONS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "sort": lambda x, y: [dask_gpusort.sort(x)],
    "stable": lambda x, y: [dask_gpusort.sort(x, stable=True, descending=True)],
    "argsort": lambda x, y: [dask_gpusort.argsort(x)],
    "pairs": lambda x, y: list(dask_gpusort.sort_by_key(x, y, x)),
    "lexsort": lambda x, y: [dask_gpusort.lexsort((y, x))],
}


DISTINCT: dict[str, Callable[[Any, Any], list[Any]]] = {
    "unique": lambda x, y: [dask_gpusort.unique(x)],
    "all of unique": lambda x, y: list(dask_gpusort.unique(x, True, True, True)),
    "counts and inverse": lambda x, y: list(dask_gpusort.unique(x, return_inverse=True, return_counts=True)),
    "unequal nan": lambda x, y: list(dask_gpusort.unique(x, return_inverse=True, equal_nan=False)),
    "nunique": lambda x, y: [dask_gpusort.nunique(x)],
    "rank": lambda x, y: [dask_gpusort.rank(x)],
    "share": lambda x, y: [dask_gpusort.rank(x, method="max", nan_policy="omit", pct=True)],
    "dense": lambda x, y: [dask_gpusort.rank(x, method="dense", nan_policy="omit")],
    "ordinal": lambda x, y: [dask_gpusort.rank(x, method="ordinal", nan_policy="omit")],
    "descending": lambda x, y: [dask_gpusort.rank(x, nan_policy="omit", descending=True)],
    "union1d": lambda x, y: [dask_gpusort.union1d(x, y)],
    "intersect1d": lambda x, y: list(dask_gpusort.intersect1d(x, y, return_indices=True)),
    "setdiff1d": lambda x, y: [dask_gpusort.setdiff1d(x, x[: y.shape[0]])],
    "setxor1d": lambda x, y: [dask_gpusort.setxor1d(x, y)],
}


Q = [0.05, 0.25, 0.5, 0.75, 0.95]
#: Of a statistic that is searched, however short its lanes are; x has the dtype, y has numbers.
STATISTICS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "quantiles": lambda x, y: [dask_gpusort.quantile(x, Q, method="lower", strategy="samples")],
    "percentile": lambda x, y: [dask_gpusort.nanpercentile(x, 30, method="nearest", strategy="samples")],
    "medians": lambda x, y: [dask_gpusort.median(y, strategy="samples"), dask_gpusort.nanmedian(y, strategy="samples")],
}
READS: dict[str, Callable[[Any, Any, Any], list[Any]]] = {
    "take": lambda x, y, at: [dask_gpusort.take(x, at), dask_gpusort.take(x, at + 7, mode="wrap")],
    "take_along_axis": lambda x, y, at: [dask_gpusort.take_along_axis(x, at, axis=0)],
    "searchsorted": lambda x, y, at: [dask_gpusort.searchsorted(y, x, side) for side in ("left", "right")],
    "isin": lambda x, y, at: [dask_gpusort.isin(x, y), dask_gpusort.isin(y, x, invert=True)],
}


def assert_by_gangs(found: list[Any]) -> None:
    """Each array is made by a gang."""
    gang_task = import_module("dask_gpusort.graph.gang.tasks").GangTask
    for array in found:
        assert any(isinstance(task, gang_task) for task in dict(dask.optimize(array)[0].dask).values())


def check(function: Callable[[Any, Any], list[Any]], hosts: Any, devices: Any, casts: bool = False) -> None:
    """The gang gives the bits of NumPy chunks; but NaN that a GPU casts have bits of their own."""
    got = fetched(*function(*devices))
    with dask.config.set(scheduler="threads"):
        wanted = dask.compute(*function(*(da.from_array(host, chunks=-1) for host in hosts)))
    for one, other in zip(got, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if casts:
            np.testing.assert_array_equal(one, other)
        else:
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_same_bits_as_numpy_chunks(client: Any, function: str, dtype: str) -> None:
    hosts = sample(dtype, SIZE), np.arange(SIZE)
    devices = [held(host, SIZE // 5 + 1) for host in hosts]
    assert dask_gpusort.explain(devices[0]).exchange == "gang"
    check(FUNCTIONS[function], hosts, devices)
    assert all(client.run(communicators).values())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", DISTINCT)
def test_distinct_keys_sets_and_ranks(client: Any, function: str, dtype: str) -> None:
    hosts = sample(dtype, SIZE), np.arange(SIZE)[: SIZE // 3]
    devices = [held(host, len(host) // 5 + 1) for host in hosts]
    if function != "setdiff1d":  # a slice of a held array is not held
        assert_by_gangs(DISTINCT[function](*devices))
    check(DISTINCT[function], hosts, devices, casts=function in ("union1d", "setxor1d"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", READS)
def test_reads(client: Any, function: str, dtype: str) -> None:
    x, at = sample(dtype, SIZE), np.random.default_rng(5).permutation(SIZE)[: SIZE // 3]
    hosts = x, oracle.sort(sample(dtype, SIZE // 2)), at
    devices = [held(host, len(host) // 5 + 1) for host in hosts]
    found = READS[function](*devices)
    assert_by_gangs(found[:1])  # positions that are still to be computed are not held
    with dask.config.set(scheduler="threads"):
        wanted = dask.compute(*READS[function](*(da.from_array(host, chunks=-1) for host in hosts)))
    for got, one in zip(fetched(*found), wanted, strict=True):
        oracle.assert_same_bits(got, one)


def test_reads_of_rows_and_of_chunks_on_some_workers(client: Any) -> None:
    rows, at = sample("f4", 300_000).reshape(3000, 100), np.random.default_rng(6).integers(-3000, 3000, (50, 40))
    x, indices = held_by(rows, gangs.addresses(client)), held_by(at, gangs.addresses(client)[:1])
    found = dask_gpusort.take(x, indices, axis=0)
    assert "members gather all elements" in dask_gpusort.explain_take(x, indices, axis=0).detail
    assert_by_gangs([found])
    np.testing.assert_array_equal(fetched(found)[0], rows[at])
    wrong = held_by(np.full(40, 3000), gangs.addresses(client))
    with pytest.raises(IndexError, match="index 3000 is out of bounds for axis 0 with size 3000"):
        dask_gpusort.take(x, wrong, axis=0).compute()


@pytest.mark.parametrize("keys", DISTRIBUTIONS)
def test_distinct_keys_of_distributions(client: Any, keys: str) -> None:
    host = DISTRIBUTIONS[keys](np.random.default_rng(3), 4_000_000)
    device = held(host, 1_000_000)
    assert "members find distinct keys" in dask_gpusort.explain_unique(device).detail
    assert "members find distinct keys" in dask_gpusort.explain_rank(device).detail
    for function in ("all of unique", "rank"):
        check(DISTINCT[function], (host, host), (device, device))


def test_distinct_keys_of_rows_and_of_unknown_sizes(client: Any) -> None:
    host = sample("f4", 300_000).reshape(300, 1000)
    device = held(host, (130, 400))
    for x in (device, forget_sizes(held(host.reshape(-1), 70_000)).persist()):
        distributed.wait(x, timeout=TIMEOUT)
        found = dask_gpusort.unique(x, return_inverse=True, return_counts=True)
        assert_by_gangs(list(found))
        values, inverse, counts = fetched(*found)
        for one, other in zip(
            (values, inverse.ravel(), counts), np.unique(host.ravel(), False, True, True), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype[0] != "c"])
@pytest.mark.parametrize("function", STATISTICS)
def test_order_statistics(client: Any, function: str, dtype: str) -> None:
    hosts = sample(dtype, SIZE), sample("f8" if dtype == "?" else dtype, SIZE, 1)
    devices = [held(host, SIZE // 5 + 1) for host in hosts]
    assert_by_gangs(STATISTICS[function](*devices))
    check(STATISTICS[function], hosts, devices, casts=True)  # of equal zeros, any may be the one at a rank


@pytest.mark.parametrize("rounds", [1, 3])
def test_order_statistics_of_lanes_and_of_distributions_in_rounds(
    client: Any, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rounds > 1:
        monkeypatch.setattr("dask_gpusort.plan.select.FETCHED_BYTES", 0)
        monkeypatch.setattr("dask_gpusort.plan.select.MOST_ROUNDS", rounds)
    for keys in DISTRIBUTIONS.values():
        host = keys(np.random.default_rng(3), 6_000_000)
        device = held(host, 1_000_000)
        assert "members draw samples" in dask_gpusort.explain_quantile(device, Q).detail
        np.testing.assert_array_equal(*fetched(dask_gpusort.quantile(device, Q), on_gpus(np.quantile(host, Q), -1)))
    host = sample("f4", 6_000_000).reshape(3, 1_000_000, 2)
    device = held(host, (3, 300_000, 2))
    for axis in (1, (1, 2)):
        found = dask_gpusort.nanquantile(device, Q, axis, keepdims=True, strategy="samples")
        assert_by_gangs([found])
        np.testing.assert_array_equal(fetched(found)[0], np.nanquantile(host, Q, axis, keepdims=True))


@pytest.mark.parametrize("exchange", range(4))
def test_a_worker_that_is_killed_between_exchanges(exchange: int) -> None:
    host = sample("i8", SIZE)
    with used_cluster(2, "ucx") as client, dask.config.set({"gpusort.exchange": "gang"}):
        ranks = dask_gpusort.rank(on_gpus(host, SIZE // 4 + 1))
        client.run(kill_at_exchange, exchange, workers=[gangs.addresses(client)[0]])
        (got,) = fetched(ranks)
    with dask.config.set(scheduler="threads"):
        np.testing.assert_array_equal(got, dask_gpusort.rank(da.from_array(host, chunks=-1)).compute())


def test_members_with_a_gpu_each_use_nccl_and_keep_it(client: Any) -> None:
    x = held(sample("u4", SIZE), SIZE // 4 + 1)
    fetched(dask_gpusort.sort(x))
    before = client.run(communicators)
    assert all("NcclCommunicator" in kinds for kinds in before.values())
    fetched(dask_gpusort.argsort(x))
    assert client.run(communicators) == before


def test_arrays_on_the_same_workers_in_another_order_use_the_same_communicator(client: Any) -> None:
    host = sample("i8", SIZE)
    addresses = gangs.addresses(client)
    kept = []
    for order in (addresses, addresses[::-1]):
        x = held_by(host, order)
        holders = client.who_has(x)
        assert [list(holders[x.name, number]) for number in range(len(order))] == [[address] for address in order]
        ordered, positions = fetched(dask_gpusort.sort(x), dask_gpusort.argsort(x))
        np.testing.assert_array_equal(ordered, np.sort(host))
        np.testing.assert_array_equal(positions, np.argsort(host, kind="stable"))
        kept.append(client.run(epochs))
    assert all(tuple(addresses) in one for one in kept[0].values())
    assert kept[0] == kept[1]


def test_gangs_of_different_workers_that_share_one_connect_at_the_same_time() -> None:
    hosts = [sample("i8", SIZE, seed) for seed in range(2)]
    with (
        used_cluster(None, "tcp") as client,
        # Longer than it takes to connect: a communicator that waits for ranks that never come would take this long.
        dask.config.set({"gpusort.gang_timeout": TIMEOUT}),
    ):
        addresses = gangs.addresses(client)
        if len(addresses) < 3:
            pytest.skip("needs three GPUs: two gangs that share one worker")
        sets = (addresses[:2], [addresses[0], addresses[2]])
        arrays = [held_by(host, workers) for host, workers in zip(hosts, sets, strict=True)]
        assert all(dask_gpusort.explain(x).exchange == "gang" for x in arrays)
        begin = time.monotonic()
        # If both ask before either starts, the worker that they share offers both the same.
        found = fetched(*map(dask_gpusort.sort, arrays))
        assert time.monotonic() - begin < TIMEOUT / 2
        for one, host in zip(found, hosts, strict=True):
            np.testing.assert_array_equal(one, np.sort(host))
        kept = client.run(epochs)
        for workers in sets:
            assert all(tuple(sorted(workers)) in kept[worker] for worker in workers)
        assert len({epoch for one in kept.values() for epoch in one.values()}) == 2


def test_a_member_that_fails_as_ranks_connect_leaves_none_waiting() -> None:
    host = sample("i8", SIZE)
    with used_cluster(2, "tcp") as client:
        x = held(host, SIZE // 4 + 1)
        first, _ = gangs.addresses(client)
        client.run(fail_at, *STAGES["cut"], workers=[first])
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            dask_gpusort.sort(x).compute()
        client.run(undo_fail, *STAGES["cut"], workers=[first])
        (got,) = fetched(dask_gpusort.sort(x, stable=True))
        np.testing.assert_array_equal(got, np.sort(host))
        assert all(kinds == ["NcclCommunicator"] for kinds in client.run(communicators).values())
        gangs.until(lambda: not any(client.run(connecting).values()), "threads that connect to end")
        del x


def connecting() -> list[str]:
    """Threads of a worker that wait for other ranks."""
    return [one.name for one in threading.enumerate() if one.name == "gpusort-connect"]


def test_the_warm_up_connects_all_workers() -> None:
    with used_cluster(2, "tcp") as client:
        dask_gpusort.warm_up(client, dtypes=["u4"])
        before = client.run(epochs)
        assert all(len(ranks) == 2 for one in before.values() for ranks in one)
        assert all(before.values())
        fetched(dask_gpusort.sort(held(sample("u4", SIZE), SIZE // 2 + 1)))
        assert client.run(epochs) == before


@pytest.mark.parametrize("descending", [False, True])
def test_complex128(client: Any, descending: bool) -> None:
    host = sample("c16", SIZE)
    x = held(host, SIZE // 5 + 1)
    assert dask_gpusort.explain(x, descending=descending).exchange == "gang"
    options = {"descending": descending}
    ordered, positions = fetched(dask_gpusort.sort(x, stable=True, **options), dask_gpusort.argsort(x, **options))
    wanted = oracle.argsort(host, descending=descending)
    oracle.assert_same_bits(ordered, host[wanted])
    oracle.assert_same_bits(positions, wanted)


def test_less(client: Any) -> None:
    host = np.random.default_rng(5).integers(0, 100_000, SIZE)
    x, less = held(host, SIZE // 5 + 1), "a % 1000 < b % 1000"
    assert dask_gpusort.explain(x, less=less).exchange == "gang"
    ordered, positions = fetched(dask_gpusort.sort(x, less=less), dask_gpusort.argsort(x, less=less))
    wanted = np.argsort(host % 1000, kind="stable")
    np.testing.assert_array_equal(positions, wanted)
    np.testing.assert_array_equal(ordered, host[wanted])


@pytest.mark.parametrize("dtype", ["i8", "f8", "u4"])
def test_merge_sorted(client: Any, dtype: str) -> None:
    hosts = [np.sort(sample(dtype, size, size)) for size in (SIZE, SIZE // 3)]
    arrays = [held(host, SIZE // 5 + 1) for host in hosts]
    # One array is held as it is; the chunks of several are not known to be held.
    one, both = fetched(dask_gpusort.merge_sorted(arrays[0]), dask_gpusort.merge_sorted(*arrays, exchange="gang"))
    oracle.assert_same_bits(one, oracle.sort(hosts[0]))
    oracle.assert_same_bits(both, oracle.sort(np.concatenate(hosts)))


@pytest.mark.parametrize("dtypes", [("i4", "f4"), ("f8", "i8", "f4"), ("c16", "?"), ("u1", "i2", "u1")], ids=str)
def test_lexsort(client: Any, dtypes: tuple[str, ...]) -> None:
    hosts = [sample(dtype, SIZE, seed) for seed, dtype in enumerate(dtypes)]
    directions = [number % 2 == 1 for number in range(len(hosts))]
    (got,) = fetched(dask_gpusort.lexsort([held(host, SIZE // 5 + 1) for host in hosts], descending=directions))
    np.testing.assert_array_equal(got, oracle.lexsort(hosts, descending=directions))


@pytest.mark.parametrize("dtype", ["i8", "u8", "f8"])
def test_argsort_of_64_bit_keys_in_many_chunks(client: Any, dtype: str) -> None:
    host = np.random.default_rng(6).integers(0, 1 << 62, 5_000_011).astype(dtype)
    host[::3] = host[0]  # ties in all chunks
    x = held(host, 70_001)
    assert dask_gpusort.explain(x).exchange == "gang"
    (got,) = fetched(dask_gpusort.argsort(x))
    np.testing.assert_array_equal(got, np.argsort(host, kind="stable"))


@pytest.mark.parametrize("dtype", ["i4", "f8", "c16"])
def test_several_companions(client: Any, dtype: str) -> None:
    keys, rng = sample(dtype, SIZE), np.random.default_rng(7)
    others = [rng.random(SIZE, "f4"), rng.integers(0, 256, (SIZE, 3), "u1"), np.arange(SIZE), rng.random(SIZE) < 0.5]
    chunk = SIZE // 5 + 1
    companions = [held(other, (chunk, 3) if other.ndim == 2 else chunk) for other in others]
    got = fetched(*dask_gpusort.sort_by_key(held(keys, chunk), *companions))
    positions = oracle.argsort(keys)
    for found, host in zip(got, (keys, *others), strict=True):
        oracle.assert_same_bits(found, host[positions])


@pytest.mark.parametrize("counted", [False, True])
def test_a_persisted_masked_array(client: Any, counted: bool) -> None:
    host = sample("i8", SIZE)
    source = held(host, SIZE // 5 + 1)
    x = source[source > 3].persist()
    distributed.wait(x, timeout=TIMEOUT)
    if counted:
        x.compute_chunk_sizes()
    assert dask_gpusort.explain(x).exchange == "gang"
    (got,) = fetched(dask_gpusort.sort(x))
    np.testing.assert_array_equal(got, np.sort(host[host > 3]))


@pytest.mark.parametrize("keys", ["uniform", "equal", "sorted", "zipf"])
def test_distributions(client: Any, keys: str) -> None:
    host = DISTRIBUTIONS[keys](np.random.default_rng(3), 4_000_000)
    device = held(host, 1_000_000)
    ordered, positions = fetched(dask_gpusort.sort(device), dask_gpusort.argsort(device))
    np.testing.assert_array_equal(ordered, np.sort(host))
    np.testing.assert_array_equal(positions, np.argsort(host, kind="stable"))


def test_a_part_of_the_output_and_unknown_sizes(client: Any) -> None:
    host = sample("i8", SIZE)
    device = held(host, SIZE // 4 + 1)
    (part,) = fetched(dask_gpusort.sort(device)[:100])
    np.testing.assert_array_equal(part, np.sort(host)[:100])
    (got,) = fetched(dask_gpusort.sort(forget_sizes(device), exchange="gang"))
    np.testing.assert_array_equal(got, np.sort(host))


def test_several_sorts_at_once_from_two_clients(client: Any) -> None:
    hosts = [sample("f4", 100_003 + 7_001 * seed, seed) for seed in range(SORTS_AT_ONCE)]
    arrays = [held(host, len(host) // 3 + 1) for host in hosts]

    def work(seed: int) -> np.ndarray:
        with (
            distributed.Client(client.scheduler.address, set_as_default=False) as own,
            own.as_current(),
            dask.config.set(scheduler="distributed"),
        ):
            return fetched(dask_gpusort.sort(on_gpus(hosts[seed], len(hosts[seed]) // 2 + 1), exchange="gang"))[0]

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(work, seed) for seed in range(4)]
        got = fetched(*map(dask_gpusort.sort, arrays))
        for found, host in zip([*got, *(other.result() for other in others)], [*hosts, *hosts[:4]], strict=True):
            np.testing.assert_array_equal(found, np.sort(host))


def kill_at(module: str, name: str, nccl: bool = False) -> None:
    """On a worker: be killed when a member calls a function."""
    owner = import_module(module)
    owner = owner.NcclCommunicator if nccl else owner
    setattr(owner, name, lambda *args, **options: os.kill(os.getpid(), signal.SIGKILL))


def kill_at_exchange(number: int) -> None:
    """On a worker: be killed when a member exchanges for the time of a number, from 0."""
    owner, calls = import_module("dask_gpusort.chunk.cupy_nccl").NcclCommunicator, []
    original = owner.exchange

    def exchange(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) > number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **options)

    owner.exchange = exchange


def fail_at(module: str, name: str) -> None:
    """On a worker: run out of memory when a member calls a function."""

    def failing(*args: Any, **options: Any) -> None:
        raise import_module("cupy").cuda.memory.OutOfMemoryError(1 << 40, 0, 0)

    owner = import_module(module)
    failing.original = getattr(owner, name)  # type: ignore[attr-defined]
    setattr(owner, name, failing)


def never_connect() -> None:
    """On a worker: NCCL waits for ever for the other ranks."""
    owner = import_module("dask_gpusort.chunk.cupy_nccl").NcclCommunicator
    owner._initialize = lambda *_: threading.Event().wait()


def undo_fail(module: str, name: str) -> None:
    """On a worker: undo `fail_at`."""
    owner = import_module(module)
    setattr(owner, name, getattr(owner, name).original)


@pytest.mark.parametrize("stage", [*STAGES, "exchange", "after"])
def test_a_killed_worker(stage: str) -> None:
    host = sample("i8", SIZE)
    with used_cluster(2, "ucx") as client:
        np.testing.assert_array_equal(
            *fetched(dask_gpusort.sort(held(host, SIZE // 4 + 1)), on_gpus(np.sort(host), -1))
        )
        (victim, _) = gangs.addresses(client)
        # The input can be computed again.
        ordered = dask_gpusort.sort(on_gpus(host, SIZE // 4 + 1), exchange="gang")
        if stage == "after":
            ordered = ordered.persist()
            distributed.wait(ordered, timeout=TIMEOUT)
            client.run(lambda: os.kill(os.getpid(), signal.SIGKILL), workers=[victim], on_error="ignore")
        elif stage == "exchange":
            client.run(kill_at, "dask_gpusort.chunk.cupy_nccl", "exchange", True, workers=[victim])
        else:
            client.run(kill_at, *STAGES[stage], workers=[victim])
        (got,) = fetched(ordered)
        np.testing.assert_array_equal(got, np.sort(host))


@pytest.mark.parametrize("stage", STAGES)
def test_a_member_out_of_memory(stage: str) -> None:
    host = sample("i8", SIZE)
    with used_cluster(2, "tcp") as client:
        x = held(host, SIZE // 4 + 1)
        fetched(dask_gpusort.sort(x))
        first, _ = gangs.addresses(client)
        client.run(fail_at, *STAGES[stage], workers=[first])
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            dask_gpusort.sort(x, stable=True).compute()
        del x


@pytest.mark.parametrize("fault", ["memory", "connect"])
def test_an_exchange_that_fails_is_made_again_over_the_connections_of_workers(fault: str) -> None:
    host, timeout = sample("i8", SIZE), 5.0
    with used_cluster(2, "tcp") as client, dask.config.set({"gpusort.gang_timeout": timeout}):
        x = held(host, SIZE // 4 + 1)
        first, _ = gangs.addresses(client)
        if fault == "memory":
            client.run(fail_at, "dask_gpusort.chunk.cupy_nccl", "_like", workers=[first])
        else:
            client.run(never_connect, workers=[first])
        for function in (dask_gpusort.sort, dask_gpusort.unique):
            begin = time.monotonic()
            (got,) = fetched(function(x))
            np.testing.assert_array_equal(got, getattr(np, function.__name__)(host))
        if fault == "connect":
            assert time.monotonic() - begin < timeout, "workers that did not connect are known"
        del x
