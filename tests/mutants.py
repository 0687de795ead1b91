"""Faults that the tests must find: ``python tests/mutants.py [word ...]`` plants those whose names hold a word.

A mutant changes one text of the package. It is planted in a copy of the package, which the tests of its
subject import; one of these must fail. What no test finds is not tested, so a test may be deleted while all mutants of
its subject are found.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

# Libraries that the tests import: each process begins with them.
import dask.array  # noqa: F401
import distributed  # noqa: F401
import hypothesis.extra.numpy  # noqa: F401
import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "dask_gpusort"
#: Exit status of pytest where a test has failed, and where all have passed.
FAILED, PASSED = 1, 0

#: By test files or tests, or by rows of the table of functions; by its name: a text that the package has once, and
#: another one.
MUTANTS: dict[str, dict[str, tuple[str, str]]] = {
    "leaves/test_table.py": {
        "digits: a rank at the start of a digit": ('ranks, side="right") - 1', 'ranks, "left") - 1'),
        "digits: a chunk that starts in the middle": ("counts)) + lead) >>", "counts))) >>"),
        "digits: one common grid": ("max(max(d.shift for d in known),", "max(0,"),
        "candidates: equal keys of earlier runs": ("np.where(self.runs > run,", "np.where(self.runs < run,"),
        "candidates: the last one in front": ('(counts, ranks, "right") - 1', '(counts, ranks, "right")'),
        "candidates: the first one behind": ("framed[:, high + 1]", "framed[:, high]"),
        "candidates: of unlike runs": (
            "(np.array(sizes) / np.maximum(lengths, 1))",
            "(np.array(sizes) / np.array(sizes))",
        ),
        "candidates: at regular places": (".integers(ends[:-1], ends[1:])", ".permutation(ends[:-1]) * 0 + ends[:-1]"),
    },
    "graph/test_sort_last.py": {
        "bounds: a splitter behind its rank": ("count - DEVIATIONS", "count + DEVIATIONS"),
        "bounds: a key with a segment of its own": ("np.union1d(found, after(repeated))", "found"),
        "bounds: equal keys are cut in chunk order": ("missing - exclusive_scan(sizes)[:-1]", "missing + 0 * sizes"),
        "floats: zeros of both signs": ("middle = min(max(negatives, first), last)", "middle = first"),
        "floats: negative ones of earlier groups": ("table.negatives - start)", "table.negatives)"),
        "floats: NaN of several bits": ("if not (bits[1:] != bits[:-1]).any():", "if True:"),
        "decisions: a cut too far from its rank": ("[1:] < ranks[:-1]]", "[1:] < 0]"),
        "order: of all keys": ("chain([rows[:1, :_PROBED_KEYS]], parts))", "[rows[:1, :_PROBED_KEYS]])"),
        "order: the source is not written": ("np.may_share_memory(keys, block)", "keys is block"),
        "trims: what is in the next group": ("min(last + 2, groups)", "min(last + 1, groups)"),
        "trims: what is in the group before": ("max(start - group.start, 0), max(", "0, max("),
    },
    "chunk/test_device_memory.py": {
        "gate: what nobody inside has taken": ("max(self._before + sum(self._inside), self._used())", "self._used()"),
        "gate: what is there by now": (
            "max(self._before + sum(self._inside), self._used())",
            "self._before + sum(self._inside)",
        ),
        "gate: memory that others free": ("self._changed.wait(LOOK_SECONDS)", "self._changed.wait()"),
    },
    "graph/test_gang.py": {
        "holders: the first of copies": ("min(sorted(workers), key=chunks.__getitem__)", "min(workers)"),
    },
    "project/test_names.py": {
        "names: none": ("key_split(array.name) == function", "True"),
        "names: of the function alone": ("{function}-{tokenize(array.name)}", "{function}-0"),
        "names: of arrays that are given": ("value.name not in given", "True"),
        "names: the chunks keep theirs": ("key = (name, *key[1:])", "pass"),
        "names: an alias": ("if isinstance(node, Alias):", "if False:"),
    },
    "leaves/test_selection.py leaves/test_quantiles.py": {
        "selection: a bracket of one key": ("np.maximum(low_right, high_left)", "high_left"),
        "selection: ties of a low end": ("rank < counts[1], rank", "rank <= counts[1], rank"),
        "selection: ties of a high end": ("rank >= counts[2]", "rank > counts[2]"),
        "selection: ranks among the keys inside": ("[:-1] - ends[1]", "[:-1]"),
        "selection: a missed rank": ("if not ((counts[0] <= rank).all()", "if not (True"),
        "partition: NaN": ("counted[part != part] += len(cuts) - len(numbers)", "pass"),
        "quantiles: from the nearer neighbour": ("fraction >= 0.5", "fraction >= 0.9"),
        "quantiles: halfway to an even rank": ("(floor % 2 == 1)", "(floor % 2 == 0)"),
        "quantiles: the middle of two keys": ("middle = [(counts - 1) // 2,", "middle = [counts // 2,"),
    },
    "api/test_explanation.py": {
        "explain: a source that is read again": ("reads=1 if self.held else self.passes", "reads=1"),
        "explain: the memory of a thread": ("(memory or math.nan) / threads", "(memory or math.nan)"),
        "explain: a peak over the limit": ("self.share <= 1 and not self.over", "self.share <= 1"),
        "explain: files": ('disk=any(plan.exchange == "runs" for plan, _ in stated) or', "disk="),
        "explain: files of a rechunk": ('any("p2p" in name', 'any("p2p " in name'),
        "explain: tasks of the input": ("len(made.keys() - given.keys())", "len(made)"),
        "explain: a peak that is unknown": ("math.inf if self.peak is None else", "0 if self.peak is None else"),
        "explain: the plan nearest to its limit": (
            "max(memories, key=lambda one: (one.share, one.peak or 0))",
            "memories[0]",
        ),
    },
    "api/test_peaks.py": {
        "peaks: copies of wide keys": ("return fixed + copies * width + moved", "return fixed + width + moved"),
        "peaks: companions of a run": ('moved * (step != "group")', "0"),
        "peaks: pieces that are read in the same task": ('(where == "rechunk" and what in READING)', "False"),
        "peaks: keys that tie": ("TIED_BYTES * min(rows, TIED_KEYS) if itemsize == 8", "0.0 if itemsize == 8"),
        "peaks: slices of kept runs": ("(itemsize + sent, 0) if kept", "(0, 0) if kept"),
        "peaks: a portion of requests": ("group + portion, 1)", "group, 1)"),
        "peaks: labels of groups": (", chosen, most), of_labels)", ", chosen, most),)"),
        "peaks: results of groups": ("fixed += GATHERED_RESULT_BYTES * each / window", "fixed += 0"),
        "peaks: elements of groups that are gathered": (
            "max(GATHERED_BYTES[library] /",
            "min(GATHERED_BYTES[library] /",
        ),
    },
    "api/test_functions.py::test_kept_runs": {
        "bounds: the next sample of a chunk": (
            "np.where(closes, right, np.roll(left, -1))",
            "np.where(closes, right, right)",
        ),
        "bounds: a chunk without a sample in front": ("np.where(low > start,", "np.where(low > 0,"),
        "bounds: output chunks of unknown sizes": ("- turn.memo[first]", "- turn.memo[0]"),
    },
    "graph/test_runs.py::test_groups_are_cut_where_the_bounds_say": {
        "sums: rows before those of a group": (
            "ends.before if ends else 0,\n        part.names",
            "0,\n        part.names",
        ),
    },
    "graph/test_runs.py::test_cuts_between_candidates": {
        "sums: the first sender of some": ("number * step.fan_in, decided", "0 * number, decided"),
    },
    "api/test_functions.py::test_in_a_gang": {
        "gang: a shard for each member": ("runs, own) for own in receivers]", "runs, own) for own in receivers[::-1]]"),
        "gang: what a member keeps": ("int(ranks[given.number + one])", "int(ranks[one])"),
        "trims: a key too many in front": ("slice(begin, end)), memo", "slice(max(begin - 1, 0), end)), memo"),
        "decisions: samples of one member": (
            "self._in_order(side, counts), decision)",
            "self._in_order(side, counts)[:1] * len(self._in_order(side, counts)), decision)",
        ),
        "gang: chunks of unknown sizes": (
            "memo[numbers.start + 1 : numbers.stop + 1]",
            "memo[1 : len(numbers) + 1]",
        ),
        "decisions: equal keys on both sides of a splitter": (
            '(splitters, "left")',
            '(splitters, ["left", "right"][len(run) % 2])',
        ),
        "decisions: NaN of the first chunk alone": ("sum(one.nans for one in lane)", "lane[0].nans"),
    },
    "graph/test_task_exchange.py": {
        "bounds: a bound too narrow in front": ("right[low - 1], 0)", "right[low - 1] + 1, 0)"),
        "bounds: a bound too narrow behind": ("following[high], right[high])", "right[high], right[high])"),
        "bounds: ties of one chunk in front": ("first += (every ==", "first += 0 * (every =="),
        "bounds: digits too": ("np.maximum(first, low), np.minimum(last, high)", "first, last"),
        "bounds: the last run has no such sample": ("(before <= number[low]) & (number", "(number"),
        "bounds: keys of the next sample in front": ("number[low] < end[before]", "number[low] <= end[before]"),
        "trims: a group that is whole in front": ("if kept != slice(0, len(merged)):", "if kept.start:"),
        "bounds: what a group keeps": ("int(self.first[:, 0].sum())", "int(self.first[0, 0])"),
        "tasks: a chunk that changed": ("        check_same(step, number, turn, listed)\n", "        pass\n"),
        "tasks: shards are copied": ("receivers, copy=True)", "receivers, copy=None)"),
        "tasks: pieces of one shard": ("alone = len(pieces) > 1 and", "alone = False and"),
        "frames: the shape of an empty array": ("buffers.empty(dtype, shape)", "buffers.empty(dtype, (0,))"),
    },
    "graph/test_runs.py": {
        "stores: where a slice begins": ("start * _row_bytes(array), byte", "0, byte"),
        "stores: the next array": ("ends.append(ends[-1] + data.nbytes)", "ends.append(data.nbytes)"),
        "stores: weights of a checksum": ("PART_BYTES // 8, np.uint64) * 2 + 1", "PART_BYTES // 8, np.uint64) * 0 + 1"),
        "stores: a damaged slice of several": ("self.lost.setdefault(number,", "self.lost.setdefault(0,"),
        "stores: who closes a file": ("_closer().put(self.number)", "os.close(self.number)"),
        "stores: the checksums of a slice": ("(known)[first - low :", "(known)[:"),
        "stores: a file that is shorter": (".st_size < handle.size:", ".st_size < 0:"),
        "runs: made again without an end": ("unread.index(name) < MOST_AGAIN[status]", "True"),
        "runs: an old handle again": ("if old and twice:", "if False:"),
        "runs: cuts of a damaged run": ("for one in made:", "for one in ():"),
        "runs: lists of an unreachable worker": ("worker.status != Status.running:", "True:"),
        "runs: a damaged answer": ("checksums(data) != reply", "None == reply"),
        "stores: pickled rows": ("whole[start - first * PICKLED_ROWS :", "whole[start :"),
        "stores: memory of another": ('if not os.readlink(path).startswith(f"/memfd:{self.name}"):', "if False:"),
        "stores: a failed write": (
            "        except BaseException:\n            self._forget(names)",
            "        except BaseException:",
        ),
        "stores: memory of a host": ("min(free, psutil", "max(free, psutil"),
    },
    "graph/test_runs.py::test_a_worker_lost_after_a_part_is_released": {
        "runs: a list that nobody needs": ('if state.state != "released":', "if True:"),
    },
    "graph/test_runs.py::test_tasks_that_are_queued_when_runs_are_lost": {
        "runs: a look at the queue": ("(scheduler.stimulus_queue_slots_maybe_opened,", "(dict,"),
    },
    "api/test_unique.py::test_keys_in_order_are_not_sorted": {
        "distinct keys in order: equal ones that are turned": (
            "turns_ties = not (columns.firsts or columns.repeats)",
            "turns_ties = True",
        ),
        "distinct keys in order: zeros that are turned": ('turns_ties and order.dtype.kind != "f"', "turns_ties"),
        "distinct keys in order: first positions": ("np.arange(len(keys))[positions] if", "np.arange(len(keys)) if"),
        "distinct keys in order: a result is no view": ("found.values, array):", "array, array) and False:"),
        "distinct keys in order: the look": ('step = 0 if library_of(block) == "cupy" else', "step = 0 if True else"),
    },
    "chunk/test_numpy_search.py": {
        "search: needles that descend": ("needles[::step], order, side)[::step]", "needles[::step], order, side)"),
    },
    "chunk/test_numpy_radix.py chunk/test_numpy_merge.py": {
        "radix: ties have groups": ("low |= groups << np.uint64(dropped)", "pass"),
        "radix: rows end": ("tied[num_keys - 1 - start % num_keys :: num_keys] = False", "pass"),
        "radix: low bits of the range": ("low -= np.uint64(least)", "pass"),
        "radix: counts of all blocks": ("counts += np.bincount", "counts = np.bincount"),
        "order: a row with equal keys is turned": (
            "np.greater_equal if turns_ties else np.greater",
            "np.greater_equal",
        ),
        "order: from block to block": ("along.start : along.stop + 1] for", "along.start : along.stop] for"),
        "order: runs that overlap": ("if apart.all() else []", "if apart.any() else []"),
        "order: runs of the first keys": ("for end in placed[::2]]", "for end in sorted(placed[::2])]"),
        "repaired rows: blocks that stay": (" or (first[1:] < last[:-1]).any()", ""),
        "repaired rows: the block of the next key": ("= leaves[(descents + 1) // _REPAIRED_BLOCK] = True", "= True"),
        "merges: spans in order": ("- (np.cumsum(lengths) - lengths)", "- np.cumsum(lengths)"),
        "packing: positions in a row": ("+ as_word(along.start)", ""),
        "packing: the least code": ("out += rows.dtype.type(least)", "pass"),
    },
    "chunk/test_numpy_ops.py": {
        "radix: codes that are made again": (
            "lambda at: floor(encode_at(block, at, order), order)",
            "lambda at: encode_at(block, at, order)",
        ),
    },
    "chunk/test_numpy_words.py chunk/test_numpy_columns.py": {
        "words: new groups": ("starts[tied[1:]] |= code[1:] != code[:-1]", "pass"),
        "words: more of a key decides": ("found &= one == other", "pass"),
        "words: a search from the right": ("else ~less(needles, candidates)", "else less(candidates, needles)"),
        "columns: NaN of one part": ("+ nan.dtype.type(1) + imag_nan", "+ nan.dtype.type(1)"),
        "columns: descending twice": (
            "_argsort_compared(self.values[::-1])[::-1]",
            "_argsort_compared(self.values)[::-1]",
        ),
        "columns: the first field": ("ranked = [*order.fields, *(", "ranked = [*("),
    },
    "chunk/test_numpy_ops.py chunk/test_numpy_top.py": {
        "keys: a search passes a tie class": ('if side == "right" else needles', "if False else needles"),
        "merge: equal keys of other bits": ("not order.coded and _merged_by_numpy", "_merged_by_numpy"),
        "words: groups of equal first words": ("group.sort()", "pass"),
        "words: the least of the first ones": ("dtype=np.uint64) + least, sizes", "dtype=np.uint64), sizes"),
        "top: ties of the last one": ("(np.cumsum(ties, axis=1) <= missing)", "ties"),
        "top: equal keys of other bits": ("several = _in_tie_class(first, order).any(axis=1)", "several = []"),
        "rows: bits of NaN": ("if fits and plain and not count_nans(rows):", "if fits and plain:"),
    },
    "chunk/test_numpy_lanes.py": {
        "rows: the chunk is not lost": ("rows = lanes[batch].copy().reshape(", "rows = lanes[batch].reshape("),
        "ranks: from the first of a row": ("self.numbers[starts // self.length * self.length] + 1", "0 + 1"),
    },
    "sort argsort lexsort": {
        "options: stable": ('stable = self.stable or want != "keys"', "stable = False"),
        "options: descending": ("Order(array.dtype, self.descending, stable,", "Order(array.dtype, False, stable,"),
        "options: directions of keys": ("others[::-1]], directions[::-1])", "others[::-1]], directions)"),
    },
    "merge_sorted is_sorted": {
        "is_sorted: borders": (" and all(rise)", ""),
        "is_sorted: empty chunks": ("for chunk in line if len(chunk.first))", "for chunk in line)"),
    },
    "api/test_less.py": {
        "less: all keys are in order": (" and not _descents(array, less).size", ""),
    },
    "less": {
        "less: ties keep their order": (
            "inside & ~compare(less, keys[np.minimum(second, len(keys) - 1)], keys[first])",
            "inside & compare(less, keys[first], keys[np.minimum(second, len(keys) - 1)])",
        ),
    },
    "functions/test_distinct.py": {
        "unique: no splitter is NaN": (
            "kept = ~are_nan(numpy_ops.decode(keys.copy(), order))",
            "kept = np.ones(len(keys), bool)",
        ),
        "programs: the rows of a receiver": ("self.first[:, receiver], self", "self.first[:, receiver] + 1, self"),
        "programs: replies in the order of the rows": ("np.cumsum(came, axis=1)", "np.cumsum(came, axis=0)"),
        "unique: numbers of earlier groups": ("np.cumsum(headers, axis=0) - headers", "np.cumsum(headers, axis=0)"),
        "ranks: the mean of ties of parts": ("amounts = before + after", "amounts = before + before"),
        "unique: first positions of a part": ("run.values[-1] + int(starts[part])", "run.values[-1]"),
        "unique: positions as they arrived": ("(numbers[slice(*own)],)", "(numbers[: own[1] - own[0]],)"),
        "ranks: a share of the numbers": ("max(keys - nans, 1)", "max(keys, 1)"),
        "sets: a part of the second side": ("(part >= self.second) == behind]", "True]"),
        "sets: first positions of the second side": ("ranks[kept] - 1), strict", "ranks[kept] - 2), strict"),
        "sets: keys of one side alone": ("groups.counts == 1", "groups.counts > 0"),
        "sets: NaN of both sides differ": ("ops.tie_groups(merged, False)", "ops.tie_groups(merged, True)"),
        "sets: NaN are of one side": ("inside & ~are_nan(keys) if may", "inside if may"),
    },
    "plan/test_distinct_plan.py": {
        "unique: parts in order": ("tuple(sorted(part for bundle", "tuple(list(part for bundle"),
    },
    "unique setxor1d intersect1d setdiff1d": {
        "unique: the first of equal ones": (
            "seen[offsets[::-1]] = np.arange(len(offsets) - 1, -1, -1)",
            "seen[offsets] = np.arange(len(offsets))",
        ),
        "unique: NaN that are equal": ("found &= ~(are_nan(keys) & are_nan(others))", "pass"),
    },
    "rank": {
        "ranks: the mean of ties": ("found = before + after", "found = before + before"),
        "ranks: rows are apart": ("firsts[:: self.length] = True", "pass"),
        "ranks: NaN are left out": ("np.where(nans, 0, ranks)", "ranks"),
    },
    "searchsorted isin": {
        "search: ranks in all groups": ("wanted.astype(np.int64, copy=False) + starts.before[group] if", "wanted if"),
        "search: needles come back": ("scattered[run.values[0]] =", "scattered[run.values[0].argsort()] ="),
    },
    (
        "api/test_functions.py::test_in_a_gang[unique] api/test_functions.py::test_in_a_gang[nunique] "
        "api/test_functions.py::test_in_a_gang[union1d] api/test_functions.py::test_in_a_gang[intersect1d] "
        "api/test_functions.py::test_in_a_gang[setdiff1d] api/test_functions.py::test_in_a_gang[setxor1d] "
        "api/test_functions.py::test_in_a_gang[rank] graph/test_gang_programs.py"
    ): {
        "gang of distinct keys: parts of neighbours": ("(ordered and chunk > last + 1)", "False"),
        "gang of distinct keys: parts of one side": ("if last is None or sides or", "if last is None or"),
        "gang of a program: pieces in order": ("for sender in sorted(found)]", "for sender in found]"),
        "gang of a program: numbers of parts": ("parts = tuple(sorted(concat(own)))", "parts = tuple(concat(own))"),
        "gang of distinct keys: a share of memory": ("most = 1 if equal_nan or", "most = 1 if True or"),
    },
    "api/test_functions.py::test_in_a_gang[quantile] graph/test_gang_programs.py": {
        "gang of a statistic: samples of each part": ("run.keys[slice(*end)])", "run.keys[: end[1] - end[0]])"),
        "gang of a statistic: the first member alone": ("if given.number:  # of a gang", "if False:  # of a gang"),
        "gang of a statistic: members that make nothing": ("for one in made if one.arrays]", "for one in made]"),
        "gang of a statistic: chunks that are read again": ("step.rereads or side in unread,", "side in unread,"),
        "gang of a statistic: lanes in the same chunks": ("plan.lanes.blocks != 1 or ", ""),
        "gang of a statistic: memory": ("workers, plan.moved_bytes)", "workers, 0)"),
    },
    "graph/test_gang_programs.py::test_tasks_and_parts_of_the_output": {
        "gang of a statistic: all members": (
            "List() if alone else tasks.refs(",
            "List() if alone or small else tasks.refs(",
        ),
    },
    (
        "api/test_functions.py::test_in_a_gang[take] api/test_functions.py::test_in_a_gang[take_along_axis] "
        "api/test_functions.py::test_in_a_gang[searchsorted] api/test_functions.py::test_in_a_gang[isin] "
        "graph/test_gang_programs.py"
    ): {
        "gang that gathers: chunks in order": ("for number in sorted(chunks)]", "for number in chunks]"),
        "gang that gathers: who reads nothing": ("self.reads)", "[True] * len(self.reads))"),
        "gang that gathers: who has nothing": (
            "arrays[0], shape=shape, dtype=dtype)",
            "arrays[0], shape=shape, dtype=bool)",
        ),
        "gang that gathers: chunks of groups": ("step.rereads or side in unread,", "step.rereads,"),
        "gang that gathers: a member without output": (
            "alone = all(self.made[which])",
            "alone = True",
        ),
        "gang that gathers: chunks of the last input": ("owned[-1][number]", "owned[-1][0]"),
        "gang that gathers: a chunk is checked": (
            "blocks = part.checked() if part",
            "blocks = list(part.blocks) if part",
        ),
        "gang that gathers: copies in memory": ("GATHERED_COPIES * sum", "sum"),
        "gang that gathers: both sides of each member": ("    if not held:  # then", "    if False:  # then"),
    },
    "kernels/host/test_launches.py": {
        "launches: memory that is known by its address": ("self.kept.append(memory)", "pass"),
    },
    "kernels/test_in_order.py": {
        "keys in order: the look at all": ("return not (falls and rises)", "return True"),
        "keys in order: turned": ("np.uint64(n), np.uint32(falls)", "np.uint64(n), np.uint32(0)"),
        "keys in order: turned in their own memory": ("and (falls or not is_there):", "and not is_there:"),
        "keys in order: bits of pairs": (
            'replace(tied_elements(key, type_name, type_name), source=f"Keys<{key.order}>")',
            "tied_elements(key, type_name, type_name)",
        ),
    },
    "kernels/test_few_values.py": {
        "few values: a code behind all others": ("np.full(SLOTS + 1, len(self._slots) - 1)", "np.zeros(SLOTS + 1)"),
        "few values: one too many": ("if found[-1] > MOST_FEW:", "if found[-1] > MOST_FEW + 1:"),
        "few values: codes in order": ("order = np.argsort(codes)", "order = np.arange(len(codes))"),
    },
    "graph/test_gang_worker.py": {
        "gang: shards of all exchanges": (
            "if key[:3] == (token, attempt, rank)",
            "if key == (token, attempt, rank, 0)",
        ),
        "gang: a shard that is not there yet": ("self._filled.set()", "pass"),
        "gang: the communicator of an attempt": ("if self._communicator is None:", "if True:"),
        "gang: a member that is to end": ("if op != START and communicator is not None:", "if False:"),
        "gang: shards of a member that ends": ('if op != START and "attempt" in fields:', "if False:"),
    },
    "graph/test_gang_coordinator.py": {
        "gang: a failure of an attempt that has ended": (
            "None or gang.attempt.number != attempt:",
            "None:",
        ),
        "gang: the second failure": ("        if failed_on is not None:", "        if False:"),
        "gang: a failure by a lost worker": ("and worker in gang.failed_on:", "and False:"),
        "gang: the second try": ("gang.size == 1 or gang.failed_on is not None or", "gang.size == 1 or"),
        "gang: a member that changed": ("member.checksum) != member.checksum:", "0) and False:"),
        "gang: workers that do not connect": ("        if addresses in self._unconnected:", "        if False:"),
        "gang: an attempt without a member": ("            messages += self._stop(token)\n", "            pass\n"),
    },
    "graph/test_gang_faults.py::test_a_member_that_does_not_end_is_given_up": {
        "gang: a member that does not end": ("if runs and rank not in attempt.exchanged:", "if False:"),
    },
    "api/test_interp.py": {
        "interp: behind the last key of a group": ("values[behind] = between.at(", "between.at("),
        "interp: NaN behind one key": ("| (needles != needles)", ""),
        "interp: the next group with keys": ("bisect_right(starts.groups, group)", "group + 1"),
    },
    "take_along_axis put_along_axis take": {
        "positions: negative ones": ("positions + size, positions)", "-positions, positions)"),
        "positions: clip": ("positions.clip(0, size - 1)", "positions.clip(0, size - 2)"),
        "positions: where groups begin": ("positions[order] - starts[named[order]]", "positions[order]"),
        "positions: the group of a bound": ('positions, "right")', 'positions, "left")'),
        "positions: part of the indices": ("// (1 + self.writes)", "// 1"),
        "positions: replies come back": ("] = found\n            start +=", "] = found[::-1]\n            start +="),
    },
    (
        "api/test_functions.py::test_kept_runs[take] api/test_functions.py::test_kept_runs[take_along_axis] "
        "api/test_functions.py::test_kept_runs[put_along_axis] api/test_functions.py::test_kept_runs[shuffle]"
    ): {
        "kept positions: all portions": ("first + 1), PORTION_REQUESTS)", "first + 1), 1 << 19)"),
        "kept positions: rows of several runs": ("run, max(first, begin) - begin,", "run, max(first, begin),"),
        "kept positions: the order of senders": (
            "for sender, first, last in ends:",
            "for sender, first, last in reversed(ends):",
        ),
    },
    "functions/test_positions.py": {
        "positions: the order of values": (
            "moved = (ops.concatenate(values)[order],)",
            "moved = (ops.concatenate(values),)",
        ),
    },
    "functions/test_searches.py": {
        "search: groups without keys get no needles": ("minimum.accumulate(cuts[::-1])[::-1]", "array(cuts)"),
        "search: needles before all keys": ("cuts[[0, *starts.groups[:1]]] = 0", "cuts[0] = 0"),
    },
    "graph/test_searches_and_reads.py": {
        "programs: what is listed later": ("mark = own.mark if own is not None else ()", "mark = ()"),
    },
    "graph/test_made_again.py": {
        "kept programs: runs that changed": ("one.checksum for one in kept if", "0 for one in kept if"),
        "kept: a run that changed": ("        check_same(step, number, own, listed)\n", "        pass\n"),
        "programs: groups that changed": ("step.side in listed.marks and", 'step.side == "part" and'),
        "gang that gathers: a member that changed": ('if fixed else b""', 'if not fixed else b""'),
        "gang that gathers: shapes of a member": ("zlib.crc32(repr(note).encode())", "note[1]"),
    },
    "topk partition": {
        "lines: tasks of each": ('{self.token}", *self.line, *index)', '{self.token}", *index)'),
        "topk: positions in all chunks": ("note[1] + start,", "note[1],"),
        "partition: keys equal to a cut": (
            "counted -= (part <= cut).view(np.uint8)",
            "counted -= (part < cut).view(np.uint8)",
        ),
    },
    "graph/test_graph.py": {
        "parts of a chunk: all of them": ("range(group, group + parts))", "range(group, group + parts - 1))"),
        "decisions: no order has such cuts": ("if not 0 <= kept.start <= kept.stop <= received:", "if False:"),
        "trims: cuts that no order has": ("if not 0 <= kept.start <= kept.stop <= received:", "if False:"),
    },
    "api/test_sort.py": {
        "rows: axes come back": ("with_axes(array, np.argsort(axes).tolist())", "with_axes(array, axes)"),
        "sorts: bits of ties": ("    _restore_ties(array, members, order)\n    return array", "    return array"),
    },
    "api/test_functions.py::test_kept_runs[sort] api/test_functions.py::test_in_a_gang[sort]": {
        "sorts: ties row by row": ('np.argsort(rows[by_floor], kind="stable")', "np.arange(len(rows))"),
    },
    "intersect1d": {
        "sets: positions in the second": ("np.subtract, int(length)", "np.subtract, 0"),
    },
    (
        "api/test_functions.py::test_one_dimension[rank] api/test_functions.py::test_in_a_gang[rank] "
        "api/test_functions.py::test_kept_runs[rank]"
    ): {
        "ranks: keys that precede": ("ranks = numbered.passed + 1", "ranks = numbered.before + 1"),
        "ranks: whether some are NaN": ("return bool(largest != largest)", "return False"),
    },
    (
        "api/test_functions.py::test_one_dimension[searchsorted] api/test_functions.py::test_kept_runs[searchsorted] "
        "graph/test_searches_and_reads.py"
    ): {
        "search: the group of a needle": (
            '"right" if question.side == "left" else "left"',
            '"left" if question.side == "left" else "right"',
        ),
    },
    "graph/test_select_samples.py": {
        "quantiles: samples of sorted chunks": ("_sorted(lanes) if self.sorts else lanes", "lanes"),
        "quantiles: keys of chunks that are not sorted": (
            "if self.sorts and not self.draw.sorts else",
            "if False else",
        ),
        "quantiles: a chunk that changed": ("if len(keys) != one.size or not _same(", "if False and not _same("),
        "quantiles: counts of what is left": ("given.number, 0, one.ends)", "given.number, 0, 0 * one.ends)"),
        "programs: who has read its chunks is known": (
            "if step.keeps and (own is None or",
            "if step.keeps and (True or",
        ),
        "programs: chunks of the second pass": ("(self.again or key[0], *key[1:])", "key"),
        "programs: notes with rows in messages": ("else Shared(counts, *note)", "else Shared(counts, note)"),
    },
    "api/test_order_statistics.py": {
        "quantiles: keys of each lane": ("counts[stop:], first + length", "counts[stop:], 0"),
        "quantiles: keys inside of each lane": ("inside.lengths[part].tolist()", "inside.lengths[part][::-1].tolist()"),
    },
    "graph/test_read_again.py::test_a_source_that_is_read_again_is_not_kept": {
        "programs: a few parts are gathered at a time": ("if not self.gathers or", "if True or"),
    },
    "graph/test_select_join.py": {
        "quantiles: NaN of a sorted lane": ("bool((end != end).any())", "False"),
    },
    "graph/test_join.py": {
        "is_sorted: a join": ("ops_for(whole).edges(whole, order, axis)[0]", "True"),
    },
    "api/test_take_along_axis.py": {
        "put: the last value": ("given.pieces:\n            ops.put(", "[*given.pieces][::-1]:\n            ops.put("),
    },
    "api/test_functions.py::test_one_dimension[topk]": {
        "topk: values of rows": ("if array.ndim > indices.ndim else", "if False else"),
    },
    "grouped": {
        "tasks: a chunk of several columns": (
            "(name, chunk, *behind), turns.take_part",
            "(name, chunk), turns.take_part",
        ),
        "groups: neighbours behind": ("np.arange(-reach, reach + 1)", "np.arange(reach + 1)"),
        "groups: keys in earlier chunks": ("same & (edges.chunks < number)", "same & False"),
        "groups: the smallest of the most common": (
            "runs.argmax(axis=1)[:, None]",
            "runs.shape[1] - 1 - runs[:, ::-1].argmax(axis=1)[:, None]",
        ),
        "groups: positions among members": ("np.where(part < 0, part, members[part, own])", "part"),
        "groups: fewer than k elements": ("(abs(k),), abs(k), -1", "(abs(k),), min(abs(k), 1), -1"),
        "groups: NaN that are left out": ("counts[nans] = 0", "pass"),
        "groups: elements of no group have no rank": ('np.nan if dtype.kind == "f" else 0', "0"),
        "groups: several axes in their order": ("by.transpose(np.argsort(axes).tolist())", "by.transpose()"),
    },
    "api/test_groups.py": {
        "lines: dimensions of outputs": (
            "index.get(dim, 0) for dim in self.output_dims or",
            "index.get(dim, 0) for dim in",
        ),
        "groups: the parts behind": ("given.decision[given.number + 1 :]", "given.decision[given.number :]"),
        "programs: what a later step keeps": (
            "{**(before.marks if before else {}), step.side: [turn.mark for turn in turns]}",
            "{step.side: [turn.mark for turn in turns], **(before.marks if before else {})}",
        ),
        "groups: NaN that are skipped": ("sizes - nans * statistic.skip_nan", "sizes"),
        "groups: a group that goes on": ("head.begins or not bool(head.labels[0] == labels[-1])", "True"),
        "groups: lanes that are too long": ('found.needed != "nothing" and chosen', "False and chosen"),
        "groups: a group in two chunks": (
            '(found.needed == "groups" and whole and lanes.chunks > 1)',
            "lanes.chunks > 1",
        ),
        "groups: bits of keys in a code": (
            "encode(checked_chunk(block, expected), Order(expected))",
            "encode(-(-block), Order(expected))",
        ),
        "groups: labels in front of keys": ("packed[:, 1 - which] if packed", "packed[:, which] if packed"),
        "groups: labels of another length": ("if own.length != block.shape[axis]:", "if False:"),
        "groups: unlike integers": ("codes[(groups >= bounds.min) & (groups <= bounds.max)], groups", "codes, groups"),
        "groups: sizes of the groups of a part": (
            "da.from_array(sizes, chunks=(counts,))",
            "da.from_array(sizes[::-1], chunks=(counts,))",
        ),
    },
    "graph/test_many_chunks.py": {
        "notes: all that are combined": (
            "combine_notes, step.lean, List(*own), kind",
            "combine_notes, step.lean, List(own[0]), kind",
        ),
        "runs: eight for each thread of a cluster": ("RUNS_PER_THREAD if workers.processes else 1", "1"),
        "runs: of bounded size": ("share /= math.ceil(share / min(RUN_BYTES,", "share /= math.ceil(1 / min(RUN_BYTES,"),
    },
    "plan/test_search_plan.py": {
        "search: needles in parts": (
            "else runs_of_threads(needles, 1, workers)",
            "else runs_of_threads(needles, 8, workers)",
        ),
    },
    "plan/test_select_plan.py": {
        "select: keys inside for many threads": ("plan.inside_keys * workers.threads <=", "plan.inside_keys <="),
        "select: whole lanes between processes": ("not (workers.devices or workers.processes)", "not workers.devices"),
        "select: pieces of lanes that are not held": ("(busy and held and not", "(busy and not"),
        "select: one long lane in several chunks": ("fits and lanes.count > 1 and", "fits and"),
        "select: few whole lanes for many threads": ("lanes.count >= min(workers.threads", "lanes.count >= min(1"),
    },
    "graph/test_security.py": {
        "security: links": (' | getattr(os, "O_NOFOLLOW", 0)', ""),
        "security: names of files": ("if not NAME_OF_RUN.fullmatch(os.path.basename(path)):", "if False:"),
        "security: what has the name of memory": (
            'if not os.readlink(path).startswith(f"/memfd:{self.name}"):',
            "if self.name not in os.readlink(path):",
        ),
        "security: rows of a run": ("if not 0 <= start <= stop <= len(handle):", "if False:"),
        "security: runs of another task": ("if name not in self.names(key):", "if False:"),
        "security: modes of files": ("BINARY, 0o600))", "BINARY, 0o644))"),
        "security: a planted folder": ("if not stat.S_ISDIR(found.st_mode) or found.st_uid != own:", "if False:"),
        "security: a folder that others may write to": ("os.chmod(folder, OWNER_ONLY)", "pass"),
    },
    "graph/test_full_disk.py": {
        "disks: without the space": ("folders.sort(key=lambda folder: _free_bytes(folder) < run.nbytes)", "pass"),
        "disks: that fail": ("                failed = error\n", "                raise\n"),
    },
    "api/test_weights.py": {
        "weights: of the parts in front": ("shares += ends[..., part - 1 : part]", "pass"),
        "weights: none in front": (
            "quantiles = np.maximum(quantiles, np.nextafter(",
            "np.maximum(quantiles, np.nextafter(",
        ),
        "weights: in order": ("weights.reshape(-1).take(order).cumsum", "weights.cumsum"),
        "weights: order of equal keys": ("rows.argsort(axis=1)", 'rows.argsort(axis=1, kind="stable")'),
        "weights: of NaN that are skipped": ("    weights = _without_nan(rows, weights)", "    pass"),
        "weights: searched shares": ("row.searchsorted(quantiles)", 'row.searchsorted(quantiles, "right")'),
        "weights: positions in all rows": (
            "order += np.arange(0, rows.size, length, like=order)[:, None]",
            "order += 0",
        ),
    },
}


def main(words: list[str]) -> int:
    """Plant the mutants, and tell whether the tests find them; the number of those that they do not find."""
    survived = 0
    for tests, mutants in MUTANTS.items():
        for name, change in mutants.items():
            if all(word in f"{name} {tests}" for word in words):
                started = time.monotonic()
                status = run(arguments_of(tests), *change)
                said = {FAILED: "killed", PASSED: "SURVIVED"}.get(status, f"NO RESULT ({status})")
                print(f"{said:9} in {time.monotonic() - started:3.0f} s  {name}", flush=True)
                survived += status != FAILED
    return survived


def arguments_of(tests: str) -> list[str]:
    """Arguments of pytest for test files and tests, or for rows of the table of functions."""
    if "/" in tests:
        return [str(TESTS / test) for test in tests.split()]
    return [str(TESTS / "api" / "test_functions.py"), "-k", f"dimension and ({' or '.join(tests.split())})"]


def run(arguments: list[str], old: str, new: str) -> int:
    """Plant a mutant, and run the tests up to the first failure in a process of their own; pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder) / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        texts = {file: file.read_text() for file in (Path(folder) / PACKAGE.name).rglob("*.py")}
        (changed,) = [file for file, text in texts.items() if old in text]
        assert texts[changed].count(old) == 1, old
        changed.write_text(texts[changed].replace(old, new))
        child = os.fork()
        if not child:
            _test(folder, arguments)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _test(folder: str, arguments: list[str]) -> None:
    """Run tests with the package in a folder, and end this process."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.environ |= {"PYTHONPATH": folder, "HYPOTHESIS_PROFILE": "mutants"}
    os.chdir(folder)  # processes that tests start look there first
    sys.path.insert(0, folder)
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
