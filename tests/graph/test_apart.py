"""Workers that share nothing, as those of containers: networks, processes and file systems of their own."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from support.scripts import end_script, start_script

pytest.importorskip("distributed")

#: A command that runs another one in namespaces of its own, in which it may make more.
APART = ["unshare", "-r", "-n", "-m", "-p", "-f", "--mount-proc", "--kill-child"]
#: What a script does there before it makes workers: a bridge, on which its scheduler listens.
BRIDGE = [
    "mount -t tmpfs tmpfs /run",
    "mkdir /run/netns",
    "ip link set lo up",
    "ip link add br0 type bridge",
    "ip addr add 10.9.0.1/24 dev br0",
    "ip link set br0 up",
]


def may_be_apart() -> bool:
    """Whether this user may make namespaces, with a network in them."""
    if not all(map(shutil.which, ("unshare", "ip", "sh"))):
        return False
    more = "ip netns add one && ip link add v1 type veth peer name e0 netns one && ip link set v1 master br0"
    command = [*APART, "sh", "-c", " && ".join([*BRIDGE, more, "ip link set v1 type bridge_slave isolated on"])]
    return subprocess.run(command, capture_output=True, timeout=30).returncode == 0


pytestmark = pytest.mark.skipif(not may_be_apart(), reason="needs unshare, ip, and leave to make namespaces")

WORKERS = """
import re, socket, subprocess
from support import gangs, runs
from dask_gpusort.graph.runs import keep_and_take, store
from dask_gpusort.plan import division

division.RUN_BYTES, gangs.LONG, runs.At.before = 1, 120.0, True
where, since = arguments

def run(*commands):
    for command in commands:
        subprocess.run(command.split(), check=True)

def start_worker(number, scheduler):
    net, host = f"w{number}", f"10.9.0.1{number}"
    run(
        f"ip netns add {net}",
        f"ip link add v{number} type veth peer name e0 netns {net}",
        f"ip link set v{number} master br0 up",
        f"ip -n {net} addr add {host}/24 dev e0",
        f"ip -n {net} link set e0 up",
        f"ip -n {net} link set lo up",
    )
    worker = f"{sys.executable} -m distributed.cli.dask_worker {scheduler} --host {host} --no-nanny --no-dashboard"
    own = f"mount -t tmpfs tmpfs /mnt; exec {worker} --nthreads 1 --memory-limit 0 --local-directory /mnt"
    apart = "unshare -m -p -f --mount-proc --kill-child sh -c"
    return subprocess.Popen([*f"ip netns exec {net} {apart}".split(), own])

def cut(on):
    # Packets between isolated ports vanish; the scheduler is no such port.
    for number in range(2):
        run(f"ip link set v{number} type bridge_slave isolated {on}")

def wait_at_most(seconds):
    keep_and_take.SILENT_SECONDS = seconds

def prepare():
    store.MEMORY_SHARE = 0 if where == "files" else 1
    # The other worker has as many files open, of which one has the path that memory has here.
    globals()["open_sockets"] = [socket.socket() for _ in range(100)]
    return os.getpid()

def slowly(block):
    time.sleep(0.02)  # so that both workers make some
    return block.copy()

def results():
    return client.compute(runs.results(da.from_array(ARRAY, chunks=1000).map_blocks(slowly)))

def check_all(futures):
    runs.assert_right(map(gangs.result_of, futures), ARRAY)

def check_error(future):
    message = str(gangs.error_of(future))
    told = re.search("^worker (.*) has asked worker (.*) for sorted runs in vain.*firewalls", message)
    assert told, message
    assert set(told.groups()) == set(gangs.addresses(client))

if __name__ == "__main__":
    dask.config.set({"gpusort.exchange": "runs", "gpusort.groups": 4})
    with (
        distributed.LocalCluster(n_workers=0, host="10.9.0.1", dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = [start_worker(number, cluster.scheduler_address) for number in range(2)]
        client.wait_for_workers(2, timeout=60)
        assert len(set(client.run(prepare).values())) == 1  # the same number of another process
        check_all(results())
        runs.check_nothing_is_left(client)
        cut("on")
        futures = results()
        time.sleep(2)
        cut("off")
        check_all(futures)
        client.run(wait_at_most, 5.0)
        stages = ("sort-scan", "unique-list") if since == "the list" else ("sort-local", "unique-local")
        with runs.call_at(client, stages, (1,), lambda *_: cut("on")):
            futures = results()
            for future in futures:
                check_error(future)
        cut("off")
        client.run(wait_at_most, gangs.LONG)  # TCP sends again what was lost ever later
        del future, futures
        runs.check_nothing_is_left(client)
        check_all(results())
        os._exit(0)  # the workers end with the namespace
"""


@pytest.mark.slow
@pytest.mark.parametrize(("where", "since"), [("memory", "the first run"), ("files", "the list")])
def test_workers_that_share_nothing_and_lose_each_other(tmp_path, where, since):
    under = [*APART, "sh", "-c", " && ".join([*BRIDGE, 'exec "$0" "$@"'])]
    end_script(start_script(tmp_path, WORKERS, where, since, under=under))
