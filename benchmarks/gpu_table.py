"""The table of the GPU kernels: ours beside CUB and CuPy in one run, every result verified.

    python benchmarks/gpu_table.py [--keys-log2 28] [--cub LIBRARY] [--out PATH] [--sections main ...] [--commit COMMIT]

Medians of runs between CUDA events, temporary memory from CuPy's pool and warm. CUB is called through its public API
(cub_baseline.cu); where the row says so the ratio is to `cupy.sort` instead. "Bandwidth" is the traffic a
perfect run of our algorithm has, over our time, as a share of the measured device-to-device copy.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import cupy as cp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.points import commit_of
from dask_gpusort import kernels

HERE = pathlib.Path(__file__).parent
REPEATS = 7
CUB_ARCHITECTURE = "sm_90"
LOW_ENTROPY_TERMS = (2, 4)  # random keys and-ed together


@dataclass
class Row:
    """One line of the table; times in milliseconds."""

    work: str
    keys: int
    ours: float
    cub: float | None
    cupy: float | None
    target: str
    ratio: float
    wanted: float
    traffic_bytes: int
    bandwidth_share: float
    verified: bool


def median_ms(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median time of a run on the device, after one warm-up."""
    run()
    times = []
    for _ in range(repeats):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(begin, end))
    return float(np.median(times))


class Cub:
    """CUB's device radix sort, from a shared library built of cub_baseline.cu."""

    def __init__(self, library: pathlib.Path):
        if not library.exists():
            source = HERE / "cub_baseline.cu"
            command = ["nvcc", "-O3", "-std=c++17", f"-arch={CUB_ARCHITECTURE}", "-shared", "-Xcompiler", "-fPIC"]
            subprocess.run([*command, str(source), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library.resolve()))

    def call(self, name: str, *arrays: Any) -> float:
        function = getattr(self.library, name)
        function.restype = ctypes.c_float
        function.argtypes = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64]
        times = [function(*(a.data.ptr for a in arrays), arrays[0].size) for _ in range(REPEATS + 1)]
        assert min(times) > 0, f"{name} failed"
        return float(np.median(times[1:]))

    def keys(self, keys: Any) -> float:
        return self.call(f"cub_keys_{keys.dtype.name}", keys, cp.empty_like(keys))

    def pairs(self, keys: Any, values: Any) -> float:
        name = f"cub_pairs_{keys.dtype.name}_{values.dtype.name}"
        return self.call(name, keys, cp.empty_like(keys), values, cp.empty_like(values))


def copy_bandwidth() -> float:
    """Bytes a second of a device-to-device copy, reads and writes counted."""
    source = cp.ones(1 << 30, np.uint32)
    target = cp.empty_like(source)
    milliseconds = median_ms(lambda: cp.copyto(target, source))
    return 2 * source.nbytes / milliseconds * 1e3


def random_keys(dtype: Any, n: int, seed: int = 1) -> Any:
    """Keys of uniform random bits; for floats, NaN and infinities are among them."""
    words = cp.random.default_rng(seed).integers(0, 1 << 32, -(-n * np.dtype(dtype).itemsize // 4), dtype=cp.uint32)
    return words.view(dtype)[:n]


def make_keys(name: str, dtype: Any, n: int) -> Any:
    """Keys of the named distribution."""
    rng = cp.random.default_rng(3)
    dtype = np.dtype(dtype)
    if name == "random":
        return random_keys(dtype, n)
    if name == "sorted":
        return cp.sort(random_keys(dtype, n))
    if name == "reversed":
        return cp.ascontiguousarray(cp.sort(random_keys(dtype, n))[::-1])
    if name == "all equal":
        return cp.full(n, 12345678, dtype)
    if name == "16 distinct":
        return random_keys(dtype, 16)[rng.integers(0, 16, n)]
    if name == "Zipf":  # P(k >= x) ~ x^-0.2
        return cp.minimum(cp.exp(rng.exponential(5.0, n)), 2.0**30).astype(dtype)
    if name.startswith("and of"):
        keys = random_keys(dtype, n)
        for term in range(1, int(name.split()[-1])):
            keys &= random_keys(dtype, n, seed=term + 10)
        return keys
    if name == "uniform [0, 1)":
        return rng.random(n, dtype=dtype)
    if name == "normal":
        return rng.standard_normal(n, dtype=dtype)
    if name == "nearly equal":
        return 1 + dtype.type(1e-9 if dtype.itemsize == 8 else 1e-3) * rng.random(n, dtype=dtype)
    if name == "below 2^24":
        return rng.integers(0, 1 << 24, n, dtype=cp.uint32).astype(dtype)
    raise ValueError(name)


def is_permuted_and_sorted(keys: Any, out: Any) -> bool:
    """Codes ascend, and their sum and the sum of their squares are the input's."""
    before, after = kernels.encode(keys), kernels.encode(out)
    same = all(
        int(power(before).sum(dtype=cp.uint64)) == int(power(after).sum(dtype=cp.uint64))
        for power in (lambda c: c, lambda c: c.astype(cp.uint64) * c)
    )
    return same and bool((after[1:] >= after[:-1]).all())


def is_stable_order(keys: Any, positions: Any) -> bool:
    """Positions are a permutation that sorts the keys, and ascend where keys are equal."""
    seen = cp.zeros(keys.size, np.bool_)
    seen[positions] = True
    taken = kernels.encode(keys)[positions]
    ascends = (taken[1:] > taken[:-1]) | ((taken[1:] == taken[:-1]) & (positions[1:] > positions[:-1]))
    return bool(seen.all()) and bool(ascends.all())


class Table:
    """Collects rows and prints them as they come."""

    def __init__(self, cub: Cub):
        self.cub, self.copy, self.rows = cub, copy_bandwidth(), []

    def add(
        self,
        work: str,
        n: int,
        ours: float,
        wanted: float,
        traffic: int,
        verified: bool,
        cub: float | None = None,
        cupy: float | None = None,
        against: str = "cub",
    ) -> None:
        yardstick = cub if against == "cub" else cupy
        row = Row(
            work,
            n,
            ours,
            cub,
            cupy,
            f"{wanted} x {against}",
            (yardstick or 0) / ours,
            wanted,
            traffic,
            traffic / (ours * 1e-3) / self.copy,
            verified,
        )
        self.rows.append(row)
        print(
            f"{work:42s} ours {ours:9.3f}  {against} {yardstick:9.3f}  ratio {row.ratio:6.2f} (wanted {wanted})"
            f"  {100 * row.bandwidth_share:3.0f} % of copy  {'verified' if verified else 'WRONG'}",
            flush=True,
        )
        cp.get_default_memory_pool().free_all_blocks()

    def sort(self, work: str, keys: Any, wanted: float, against: str = "cub", with_cupy: bool = True) -> None:
        out = cp.empty_like(keys)
        out.view(np.uint8).fill(0x5A)
        ours = median_ms(lambda: kernels.sort_keys(keys, out=out))
        verified = is_permuted_and_sorted(keys, out)
        cub = self.cub.keys(keys) if keys.dtype.name not in ("float16", "complex64", "bool") else None
        cupy = median_ms(lambda: cp.sort(keys), 3) if with_cupy else None
        # Readings and writings of every key: count and fill; or count, two levels of partition, finish.
        crossings = 2 if keys.itemsize <= 2 else 7
        self.add(work, keys.size, ours, wanted, crossings * keys.nbytes, verified, cub, cupy, against)


def main_rows(table: Table, n: int) -> None:
    for dtype, wanted in (("uint32", 1.6), ("float32", 1.6), ("uint64", 2.8), ("float64", 2.8), ("int64", 2.8)):
        table.sort(f"{dtype} keys, random bits", random_keys(dtype, n), wanted)
    for dtype, wanted in (("float32", 1.6), ("float64", 2.8)):
        for name in ("uniform [0, 1)", "normal"):
            table.sort(f"{dtype} keys, {name}", make_keys(name, dtype, n), wanted)
    table.sort("int64 keys below 2^24", make_keys("below 2^24", "int64", n), 3.0)
    table.sort("uint8 keys", random_keys("uint8", n), 2.0)
    table.sort("uint16 keys", random_keys("uint16", n), 2.0)
    table.sort("float16 keys", random_keys("float16", n), 8.0, "cupy")
    table.sort("complex64 keys", random_keys("complex64", n), 4.0, "cupy")


def index_rows(table: Table, n: int) -> None:
    for dtype, wanted in (("uint32", 1.5), ("uint64", 2.0)):
        keys, values = random_keys(dtype, n), cp.arange(n, dtype=np.uint64)
        out = cp.empty(n, np.int64)
        size = keys.itemsize
        ours = median_ms(lambda: kernels.argsort(keys, out=out))  # noqa: B023 - called at once
        cub = {v: table.cub.pairs(keys, values.astype(v)) for v in ("uint32", "uint64")}
        verified = is_stable_order(keys, out)
        cupy = median_ms(lambda: cp.argsort(keys), 3)  # noqa: B023
        record = 8 if size == 4 else 12
        traffic = n * (2 * size + 5 * record + 8)
        table.add(f"argsort {dtype}, CUB {dtype}/uint32 pairs", n, ours, wanted, traffic, verified, cub["uint32"], cupy)
        table.add(f"argsort {dtype}, CUB {dtype}/uint64 pairs", n, ours, wanted, traffic, verified, cub["uint64"], cupy)
        table.add(f"argsort {dtype}, cupy.argsort", n, ours, 2.0, traffic, verified, None, cupy, "cupy")
        keys_out, values_out = cp.empty_like(keys), cp.empty_like(values)
        ours = median_ms(lambda: kernels.sort_pairs(keys, values, keys_out=keys_out, values_out=values_out))  # noqa: B023
        verified = is_stable_order(keys, values_out.view(np.int64)) and bool((keys_out == keys[values_out]).all())
        # Count; key and value by the first level; key, then with its place, by the second; finish; gather.
        traffic = n * (size + 2 * (size + 8) + size + 2 * record + size + 4 + 4 + 8 + 8)
        table.add(f"pairs {dtype}/uint64", n, ours, 1.8 if size == 8 else 1.0, traffic, verified, cub["uint64"])


def matrix_rows(table: Table, n: int) -> None:
    log = n.bit_length() - 1
    for rows_log in (log // 2, log - 8, 8):
        shape = (1 << rows_log, 1 << (log - rows_log))
        keys = cp.random.default_rng(5).random(shape, dtype=np.float32)
        out = cp.empty_like(keys)
        ours = median_ms(lambda: kernels.sort_rows(keys, out=out))  # noqa: B023
        verified = bool((out[:, 1:] >= out[:, :-1]).all()) and bool(cp.allclose(keys.sum(1), out.sum(1), rtol=1e-3))
        cupy = median_ms(lambda: cp.sort(keys, axis=-1), 1)  # noqa: B023
        table.add(f"rows {shape[0]} x {shape[1]} float32", n, ours, 30.0, 2 * keys.nbytes, verified, None, cupy, "cupy")


def robust_rows(table: Table, n: int) -> None:
    names = ["sorted", "reversed", "all equal", "16 distinct", "Zipf", *(f"and of {k}" for k in LOW_ENTROPY_TERMS)]
    for dtype in ("uint32", "uint64"):
        for name in names:
            table.sort(f"{dtype} keys, {name}", make_keys(name, dtype, n), 0.9, with_cupy=False)
    for dtype in ("float32", "float64"):
        table.sort(f"{dtype} keys, nearly equal", make_keys("nearly equal", dtype, n), 0.9, with_cupy=False)


def size_rows(table: Table, n: int) -> None:
    for dtype in ("uint32", "uint64"):
        for log in range(14, n.bit_length() + 2, 2):
            table.sort(f"{dtype} keys, 2^{log}", random_keys(dtype, 1 << log), 0.9, with_cupy=False)


SECTIONS = {"main": main_rows, "index": index_rows, "matrix": matrix_rows, "robust": robust_rows, "sizes": size_rows}


def describe_machine(copy: float, commit: str) -> dict[str, str]:
    """What was measured, and on what."""
    properties = cp.cuda.runtime.getDeviceProperties(0)
    versions = {"driver": cp.cuda.runtime.driverGetVersion(), "runtime": cp.cuda.runtime.runtimeGetVersion()}
    return {
        "device": properties["name"].decode(),
        "copy bandwidth": f"{copy / 1e12:.2f} TB/s",
        "CUDA driver / runtime": f"{versions['driver']} / {versions['runtime']}",
        "CuPy": cp.__version__,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
        "commit": commit,
    }


def write_results(table: Table, out: pathlib.Path, commit: str) -> None:
    """Markdown for people, JSON for programs."""
    machine = describe_machine(table.copy, commit)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(
        json.dumps({"machine": machine, "rows": [asdict(r) for r in table.rows]}, indent=1)
    )
    lines = ["# GPU sorts beside CUB and CuPy", "", *(f"- {name}: {value}" for name, value in machine.items()), ""]
    lines += [
        f"Medians of {REPEATS} runs, milliseconds; {sum(row.verified for row in table.rows)} of {len(table.rows)} "
        "results verified.",
        "",
        "| work | keys | ours | CUB | CuPy | ratio | wanted | Gkeys/s | bytes moved | share of copy bandwidth |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table.rows:
        cub, cupy = (f"{value:.3f}" if value else "" for value in (row.cub, row.cupy))
        mark = "" if row.ratio >= row.wanted else " (missed)"
        lines.append(
            f"| {row.work} | {row.keys} | {row.ours:.3f} | {cub} | {cupy} | {row.ratio:.2f}{mark} | {row.target} | "
            f"{row.keys / row.ours / 1e6:.1f} | {row.traffic_bytes / 1e9:.2f} GB | {100 * row.bandwidth_share:.0f} % |"
        )
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")


def run_table(
    document: str,
    name: str,
    sections: Mapping[str, Callable[[Any, int], None]],
    usual: Sequence[str],
    make: Callable[[Cub], Any],
    write: Callable[[Any, pathlib.Path, str], None],
) -> None:
    """Command line of a table of one GPU.

    Parameters
    ----------
    document : str
        What the command says of itself.
    name : str
        Of the files in the directory of results.
    sections : mapping of str to callable
        Each measures its rows, of a number of keys.
    usual : sequence of str
        Sections that are measured unless some are named.
    make : callable
        An empty table, of what calls CUB. Its rows say whether they are verified: if one is not, the run fails.
    write : callable
        Keeps a table. What was measured before an error is kept too.
    """
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys-log2", type=int, default=28, help="keys of the main rows, as a power of two")
    parser.add_argument(
        "--cub", type=pathlib.Path, default=HERE / "libcub_baseline.so", help="built if it is not there"
    )
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results" / name)
    parser.add_argument("--sections", nargs="*", choices=sorted(sections), default=list(usual))
    parser.add_argument("--commit", default=commit_of(HERE), help="what is measured, where there is no git")
    arguments = parser.parse_args()
    table = make(Cub(arguments.cub))
    try:
        for section in arguments.sections:
            sections[section](table, 1 << arguments.keys_log2)
    finally:
        write(table, arguments.out, arguments.commit)
    wrong = [row.work for row in table.rows if not row.verified]
    if wrong:
        raise SystemExit(f"wrong results: {wrong}")


if __name__ == "__main__":
    run_table(__doc__, "gpu_table", SECTIONS, list(SECTIONS), Table, write_results)
