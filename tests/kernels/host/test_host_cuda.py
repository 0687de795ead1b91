"""The host device runs correct kernels correctly and finds the faults of broken ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from support.host_cuda import HostDevice, KernelFault, compiler, mutant
from support.marks import slow_but_first

from dask_gpusort.kernels.launch.launch import Launch
from dask_gpusort.kernels.launch.loader import SOURCES

pytestmark = pytest.mark.skipif(compiler() is None, reason="no g++: kernels cannot be built for the host")

RULES = """
namespace gpusort {
constexpr int kThreads = 256;

__global__ void reverse_tile(unsigned* keys) {
    __shared__ unsigned tile[kThreads];
    tile[threadIdx.x] = keys[threadIdx.x];
    __syncthreads();  // BARRIER
    keys[threadIdx.x] = tile[kThreads - 1 - threadIdx.x];
}
__global__ void wait_apart(unsigned* keys) {
    if (threadIdx.x < 32) __syncwarp();
    else if (threadIdx.x % 2) __syncwarp();
    __syncthreads();
}
__global__ void collect_apart(unsigned* keys) {
    keys[threadIdx.x] = threadIdx.x % 2 ? __ballot_sync(~0u, 1) : __shfl_sync(~0u, keys[threadIdx.x], 0);
}
__global__ void write_past(unsigned* keys) { keys[threadIdx.x + 1] = 0; }
__global__ void read_unwritten(unsigned* keys) {
    __shared__ unsigned tile[kThreads];
    if (keys[threadIdx.x] == kThreads) tile[threadIdx.x] = 0;  // never true, but the compiler cannot know
    keys[threadIdx.x] = tile[threadIdx.x];
}
__global__ void use_dynamic(unsigned* keys) {
    extern __shared__ unsigned dynamic_words[];
    dynamic_words[threadIdx.x] = keys[threadIdx.x];
}
// Every block waits for the previous block.
__global__ void pass_on(unsigned long long* sums) {
    if (threadIdx.x == 0) {
        unsigned long long before = 0;
        while (blockIdx.x > 0 && (before = *(volatile unsigned long long*)&sums[blockIdx.x - 1]) == 0) __nanosleep(1);
        __threadfence();
        atomicExch(&sums[blockIdx.x], before + 1);
    }
}
__global__ void collect(unsigned* out) {
    const unsigned lane = threadIdx.x % 32, half = lane < 16 ? 0xFFFFu : 0xFFFF0000u;
    unsigned* mine = out + threadIdx.x * 6;
    mine[0] = __ballot_sync(~0u, lane % 3 == 0);
    mine[1] = __match_any_sync(~0u, lane % 4);
    mine[2] = __shfl_up_sync(~0u, lane, 5);
    mine[3] = __shfl_xor_sync(half, lane, 3);
    mine[4] = __shfl_down_sync(~0u, lane, 2, 8);
    mine[5] = __syncthreads_count(threadIdx.x % 5 == 0);
}
}
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory, kernel_cache):
    sources = tmp_path_factory.mktemp("rules")
    (sources / "rules.cu").write_text(RULES)
    device = HostDevice(sources, kernel_cache)
    names = "reverse_tile wait_apart collect_apart write_past read_unwritten use_dynamic pass_on collect"
    device.prepare("rules.cu", names.split())
    return device


def run_rule(device, name, keys, *, blocks=1, threads=256, shared_bytes=0):
    out = device.array(keys)
    device.launch(Launch("rules.cu", name, blocks, threads, (out,), shared_bytes))
    device.check()
    return np.array(out)


ASCENDING = np.arange(256, dtype=np.uint32)


def test_host_runs_a_barrier(rules):
    for _ in range(20):
        np.testing.assert_array_equal(run_rule(rules, "reverse_tile", ASCENDING), ASCENDING[::-1])


def test_host_finds_a_deleted_barrier(tmp_path, kernel_cache):
    mutated = "".join(line for line in RULES.splitlines(keepends=True) if "BARRIER" not in line)
    (tmp_path / "rules.cu").write_text(mutated)
    device = HostDevice(tmp_path, kernel_cache)
    results = [run_rule(device, "reverse_tile", ASCENDING) for _ in range(5)]
    assert any((result != ASCENDING[::-1]).any() for result in results)


def test_a_changed_header_is_compiled_again(tmp_path, kernel_cache):
    """Also a header that is included indirectly: a library in the cache is never stale."""
    (tmp_path / "fill.cu").write_text(
        '#include "outer.cuh"\nnamespace gpusort {\n__global__ void fill(unsigned* out) { *out = kValue; }\n}'
    )
    (tmp_path / "outer.cuh").write_text('#include "inner.cuh"\n')
    for value in (1, 2, 1):
        (tmp_path / "inner.cuh").write_text(f"namespace gpusort {{ constexpr unsigned kValue = {value}; }}")
        device = HostDevice(tmp_path, kernel_cache)
        out = device.empty(1, np.uint32)
        device.launch(Launch("fill.cu", "fill", 1, 1, (out,)))
        assert out[0] == value


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wait_apart", "wait for each other"),
        ("collect_apart", "different collectives"),
        ("write_past", "wrote past an array of 256 uint32"),
    ],
)
def test_host_finds_broken_rules(rules, name, message):
    with pytest.raises(KernelFault, match=message):
        run_rule(rules, name, ASCENDING)
    np.testing.assert_array_equal(run_rule(rules, "reverse_tile", ASCENDING), ASCENDING[::-1])


def test_host_checks_dynamic_shared_memory(rules):
    run_rule(rules, "use_dynamic", ASCENDING, shared_bytes=ASCENDING.nbytes)
    with pytest.raises(KernelFault, match="past the dynamic shared memory"):
        run_rule(rules, "use_dynamic", ASCENDING, shared_bytes=ASCENDING.nbytes - 4)


def test_host_checks_widths_of_arguments(rules):
    with pytest.raises(KernelFault, match=r"parameters of \[8\] bytes, was given \[4\]"):
        rules.launch(Launch("rules.cu", "reverse_tile", 1, 256, (np.uint32(0),)))


def test_shared_memory_starts_with_random_bytes(rules):
    found = {run_rule(rules, "read_unwritten", ASCENDING)[0] for _ in range(8)}
    assert len(found) > 1


def test_blocks_may_wait_for_earlier_blocks(rules):
    sums = run_rule(rules, "pass_on", np.zeros(40, np.uint64), blocks=40, threads=32)
    np.testing.assert_array_equal(sums, np.arange(1, 41))


def test_warp_collectives(rules):
    lane = np.arange(64) % 32
    found = run_rule(rules, "collect", np.zeros(64 * 6, np.uint32), threads=64).reshape(64, 6)
    lanes = np.arange(32)
    expected = [
        np.full(64, sum(1 << i for i in range(0, 32, 3))),
        [sum(1 << i for i in lanes[lanes % 4 == j % 4]) for j in lane],
        np.where(lane >= 5, lane - 5, lane),
        lane ^ 3,
        np.where(lane % 8 + 2 < 8, lane + 2, lane),
        np.full(64, 13),
    ]
    np.testing.assert_array_equal(found, np.transpose(expected))


# Every barrier of the scan, of the papers' sorts and of the merge kernels is needed.


def barriers(names):
    """Every barrier of some sources, as (file, index of the line)."""
    return [
        (name, number)
        for name in names
        for number, line in enumerate((SOURCES / name).read_text().splitlines())
        if "__syncthreads();" in line
    ]


#: For each source, a sort that runs it.
RUNS = {
    "primitives/block.cuh": "scan",
    "primitives/scan.cu": "scan",
    "papers/four_step.cu": "four_step",
    "papers/split.cu": "split",
    "papers/count_scan_reorder.cu": "count_scan_reorder",
    "merge/merge_tile.cuh": "merge",
    "merge/merge.cu": "merge",
    "papers/sampled_merge_sort.cu": "merge",
    "papers/odd_even_merge.cu": "merge",
}
#: Barriers that no sort here can miss, by their comments.
UNSEEN = {
    "the counters are added up before they are cleared": "it matters only in sections of more than 65,280 keys",
    # Between two tiles only lanes of one warp read and write the same word, before and after a shuffle.
    "every total of this tile is read before": "the host orders accesses at a shuffle; CUDA does not promise it",
}


#: The loader of older glibc fails now and then where a library is loaded while threads start (its bug 19329), which
#: says nothing of the barrier.
LOADER_ATTEMPTS = 3


def assert_barrier_is_needed(source, line, folder, cache):
    edited = folder / "kernels"
    shutil.copytree(SOURCES, edited, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    lines = (edited / source).read_text().splitlines(keepends=True)
    lines[line] = lines[line].replace("__syncthreads();", "")
    (edited / source).write_text("".join(lines))
    command = [sys.executable, "-m", "support.host_cuda.mutant", RUNS[source], str(edited), str(cache)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(LOADER_ATTEMPTS):
        ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if "Inconsistency detected by ld.so" not in ended.stderr:
            break
    assert ended.returncode != 0, f"the sort still works without the barrier of this line: {lines[line]}"
    assert ended.returncode == mutant.BROKEN or ended.returncode < 0, ended.stderr


@pytest.mark.parametrize("name", slow_but_first("papers/count_scan_reorder.cu", "merge/merge.cu"))
def test_a_deleted_barrier_breaks_a_sort(tmp_path, kernel_cache, name):
    source, line = barriers([name])[0]
    assert_barrier_is_needed(source, line, tmp_path, kernel_cache)


@pytest.mark.thorough
@pytest.mark.parametrize(("source", "line"), barriers(RUNS))
def test_every_barrier_is_needed(tmp_path, kernel_cache, source, line):
    text = (SOURCES / source).read_text().splitlines()[line]
    for comment, reason in UNSEEN.items():
        if comment in text:
            pytest.skip(reason)
    assert_barrier_is_needed(source, line, tmp_path, kernel_cache)
