"""Who may read runs, what a message or a handle can open, and what another user of the machine can do."""

from __future__ import annotations

import dataclasses
import os
import pickle
import stat
import subprocess
import tempfile
from pathlib import Path

import dask
import numpy as np
import pytest
from support import oracle

from dask_gpusort.chunk.run import Run

distributed = pytest.importorskip("distributed")
runs = pytest.importorskip("support.runs")
plugins = pytest.importorskip("dask_gpusort.graph.runs.plugins")
files = pytest.importorskip("dask_gpusort.graph.runs.files")
store = pytest.importorskip("dask_gpusort.graph.runs.store")

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes and links")
as_root = pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="root alone is another user, too")
#: The number of a user that no machine has.
OTHER = 54_321
RUN = Run(np.arange(9), (np.arange(9).astype(str).astype(object),))


class Evil:
    """Does something when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, (self.path,)

    def __init__(self, path):
        self.path = str(path)


@pytest.fixture
def secret(tmp_path):
    """A file that is not of a run: who unpickles it makes the folder `done`."""
    file = tmp_path / "secret"
    file.write_bytes(pickle.dumps(Evil(tmp_path / "done")))
    return file


@pytest.fixture
def kept():
    """A cluster whose first worker keeps runs of two tasks in files: (client, address, handles)."""
    with runs.cluster(2) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MEMORY_SHARE", 0)
        plugins.install(client)
        worker = client.cluster.workers[0]
        own = worker.plugins[plugins.NAME].store
        yield client, worker.address, [own.put(key, [RUN])[0] for key in ("one", "another")]


def ask(client, address, **message):
    """What a worker answers to a message that asks for slices of runs; None if it is an error."""

    async def send():
        async with distributed.core.rpc(address) as worker:
            return await worker.sort_run_take(**message)

    try:
        return client.sync(send)
    except (distributed.comm.CommClosedError, TimeoutError):
        raise
    except Exception:
        return None


@posix
def test_messages_get_nothing_but_runs_of_their_task(kept, secret):
    client, address, (first, second) = kept
    folder = Path(first.path).parent
    (folder / "link").symlink_to(secret)
    above = os.path.relpath(secret, folder)
    names = [str(secret), above, "link", f"./{first.name}", first.path, second.name, first.name[:-1], "", None, 7, [1]]
    bounds = [(-1, 3), (3, 2), (0, 10), (0, 1 << 60), (0.5, 2), ("0", "3"), (0,), (0, 1, 2), None]
    right = {"names": [first.name], "keys": ["one"], "bounds": [(2, 5)]}
    wrong = [
        *({**right, "names": [name]} for name in names),
        *({**right, "bounds": [ends]} for ends in bounds),
        *({**right, "keys": [key]} for key in ("another", str(secret), None, [1])),
        {**right, "names": right["names"] * 2},
        {**right, "path": str(secret)},
        {"names": right["names"]},
    ]
    for message in wrong:
        reply = ask(client, address, **message)
        assert reply is None or reply["status"] in ("gone", "old", "closes"), message
        assert reply is None or "runs" not in reply
    assert not (secret.parent / "done").exists()
    reply = ask(client, address, **right)
    (found,) = pickle.loads(getattr(reply["runs"], "data", reply["runs"]))
    oracle.assert_same_bits(found.keys, np.arange(2, 5))


@posix
@pytest.mark.parametrize("kind", ["path", "above", "link", "name of a run", "memory", "memory of a link"])
def test_a_handle_opens_nothing_but_runs(tmp_path, secret, kind):
    own = store.Store("address", tmp_path / "runs", lambda: 0.0)
    (handle,) = own.put("key", [RUN])
    link = Path(handle.path).with_name("f" * 32)
    link.symlink_to(secret)
    path = {
        "path": str(secret),
        "above": f"{own.folder}/../{secret.name}",
        "link": str(link),
        "name of a run": f"{own.folder}/{handle.name}/../../{secret.name}",
        "memory": f"/proc/../{secret}",
        "memory of a link": f"/proc/../{link}",
    }[kind]
    size = secret.stat().st_size
    piece = files.Piece(0, size, -1)  # as if it had no checksums
    forged = dataclasses.replace(handle, name=secret.name, path=path, pieces=(piece,), size=size)
    with pytest.raises(files.RunIsGone):
        store.read(forged, 0, 9)
    assert own.open(forged) is None
    with pytest.raises(files.RunIsGone):
        files._checksums_at(path, 0, 8)
    assert not (tmp_path / "done").exists()
    oracle.assert_same_bits(store.read(handle, 0, 9).keys, RUN.keys)


@pytest.fixture
def shared():
    """A folder that all users may write to, as /tmp, and no umask."""
    before = os.umask(0)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        with dask.config.set({"gpusort.directories": [folder]}):
            yield Path(folder)
    os.umask(before)


@posix
def test_files_are_of_their_user_alone_without_a_umask(shared):
    for own in (None, [str(shared)]):
        with dask.config.set({"gpusort.directories": own}):
            kept = store.Store("address", shared / "own", lambda: 0.0)
            (handle,) = kept.put("key", [RUN])
        path = Path(handle.path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        below = path.relative_to(shared).parents
        assert {stat.S_IMODE((shared / folder).stat().st_mode) for folder in list(below)[:-1]} == {0o700}
        kept.close()


@as_root
def test_another_user_reads_nothing(shared):
    kept = store.Store("address", shared / "own", lambda: 0.0)
    (on_disk,) = kept.put("key", [RUN])
    kept.capacity = lambda: 1e9
    (in_memory,) = kept.put("other key", [Run(RUN.keys)])
    for handle in (on_disk, in_memory):
        for command in (["cat", handle.path], ["ls", os.path.dirname(handle.path)]):
            refused = subprocess.run(command, user=OTHER, group=OTHER, capture_output=True, text=True)
            assert refused.returncode, command
            assert "denied" in refused.stderr
    assert not subprocess.run(["ls", shared], user=OTHER, group=OTHER).returncode
    kept.close()


@posix
@pytest.mark.parametrize("kind", ["link", "file", pytest.param("of another", marks=as_root)])
def test_a_folder_that_another_user_has_planted_is_told(shared, tmp_path, kind):
    planted = shared / f"own-{os.getuid()}"
    if kind == "link":
        planted.symlink_to(tmp_path)
    elif kind == "file":
        planted.touch()
    else:
        planted.mkdir()
        os.chown(planted, OTHER, OTHER)
    kept = store.Store("address", shared / "own", lambda: 0.0)
    with pytest.raises(OSError, match=r"address cannot keep sorted runs in a folder of gpusort\.directories") as caught:
        kept.put("key", [RUN])
    assert caught.value.filename == str(shared)
    assert not os.listdir(tmp_path)


@posix
def test_an_own_folder_that_others_may_write_to_is_closed(shared):
    (shared / f"own-{os.getuid()}").mkdir(mode=0o777)
    kept = store.Store("address", shared / "own", lambda: 0.0)
    kept.put("key", [RUN])
    assert stat.S_IMODE((shared / f"own-{os.getuid()}").stat().st_mode) == 0o700
    kept.close()
