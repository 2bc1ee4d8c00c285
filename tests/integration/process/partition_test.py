"""A coordinator and two workers in network namespaces of their own, with a cut between them. The
provider is on each worker's own loopback, so that a worker that is cut off goes on calling."""

import json
import os
import subprocess
import tempfile
import shutil
import time
import unittest

import harness

LEASE_S = 3
ROWS = 400
PORT = 7070
PROVIDER_PORT = 9100


def ip(*args, check=True):
    return subprocess.run(["ip", *args], check=check, capture_output=True, text=True)


def may_make_namespaces():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"hr-try-{os.getpid()}"
    try:
        made = ip("netns", "add", name, check=False).returncode == 0
        pair = made and ip("-n", name, "link", "add", "name", "hra", "type", "veth", "peer", "name", "hrb",
                           check=False).returncode == 0
        ip("netns", "del", name, check=False)
        return bool(pair)
    except OSError:
        return False


class Namespaces:
    """`c` for the coordinator with a bridge, `w1` and `w2` for workers, each on a cable of its own."""

    def __init__(self):
        self.prefix = f"hr{os.getpid()}"
        self.names = [self.name(n) for n in ("c", "w1", "w2")]
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        hub = self.name("c")
        ip("-n", hub, "link", "add", "name", "br0", "type", "bridge")
        ip("-n", hub, "addr", "add", "10.77.0.1/24", "dev", "br0")
        ip("-n", hub, "link", "set", "br0", "up")
        for number, worker in enumerate(("w1", "w2"), 2):
            ip("-n", hub, "link", "add", "name", worker, "type", "veth", "peer", "name", "eth0", "netns",
               self.name(worker))
            ip("-n", hub, "link", "set", worker, "master", "br0", "up")
            ip("-n", self.name(worker), "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            ip("-n", self.name(worker), "link", "set", "eth0", "up")

    def name(self, short):
        return f"{self.prefix}-{short}"

    def cut(self, worker):
        ip("-n", self.name("c"), "link", "set", worker, "down")

    def heal(self, worker):
        ip("-n", self.name("c"), "link", "set", worker, "up")

    def close(self):
        for name in self.names:
            ip("netns", "del", name, check=False)


class InNamespace(harness.Process):
    """A headrace process in a network namespace."""

    def __init__(self, namespace, args, cwd):
        self.args = ["ip", "netns", "exec", namespace, harness.BINARY, *map(str, args)]
        self.files = [tempfile.TemporaryFile("w+b") for _ in range(2)]
        self.popen = subprocess.Popen(
            self.args, cwd=cwd, env=harness.environment(), stdin=subprocess.DEVNULL,
            stdout=self.files[0], stderr=self.files[1])


def truth(namespace):
    """What the simulator on the loopback of `namespace` has seen."""
    code = ("import urllib.request;"
            "print(urllib.request.urlopen('http://127.0.0.1:%d/truth', timeout=20).read().decode())"
            % PROVIDER_PORT)
    out = subprocess.run(["ip", "netns", "exec", namespace, "python3", "-c", code], check=True,
                         capture_output=True, text=True, env=harness.environment()).stdout
    return json.loads(out)


@unittest.skipUnless(may_make_namespaces(),
                     "needs root, iproute2 and the right to make network namespaces")
class Partition(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="headrace-partition-")
        self.net = Namespaces()
        self.processes = []
        with open(os.path.join(self.dir, "data.jsonl"), "w") as file:
            for row in range(ROWS):
                file.write(json.dumps({"id": f"r{row}", "question": f"question {row}"}) + "\n")
        with open(os.path.join(self.dir, "job.yaml"), "w") as file:
            file.write(f"""
job: cut
dataset: {{path: data.jsonl, id: id, prompt: "{{{{question}}}}"}}
models: [{{name: m, endpoint: "http://127.0.0.1:{PROVIDER_PORT}/v1", stream: false}}]
batch: {{size: 10}}
max_in_flight: 8
""")

    def tearDown(self):
        for process in reversed(self.processes):
            process.close()
        self.net.close()
        shutil.rmtree(self.dir)

    def start(self, where, *args):
        process = InNamespace(self.net.name(where), args, self.dir)
        self.processes.append(process)
        return process

    def start_all(self):
        for worker in ("w1", "w2"):
            self.start(worker, "simulate", "--port", PROVIDER_PORT, "--latency", "300ms",
                       "--tokens", "5:20")
        coordinator = self.start("c", "coordinator", "--job", "job.yaml", "--out", "run",
                                 "--listen", f"10.77.0.1:{PORT}", "--insecure", "--lease",
                                 f"{LEASE_S}s", "--progress", "none")
        workers = [self.start(worker, "worker", "--coordinator", f"10.77.0.1:{PORT}", "--insecure",
                              "--id", worker) for worker in ("w1", "w2")]
        return coordinator, workers

    def lines(self):
        path = os.path.join(self.dir, "run", "results.jsonl")
        if not os.path.exists(path):
            return 0
        with open(path, "rb") as file:
            return file.read().count(b"\n")

    def check(self, coordinator, calls_beyond):
        ended = coordinator.wait()
        self.assertEqual(ended.code, 0, str(ended))
        run = harness.RunDirectory(os.path.join(self.dir, "run"))
        self.assertEqual(run.items(), list(range(ROWS)))
        calls = sum(truth(self.net.name(worker))["requests"] for worker in ("w1", "w2"))
        print(f"{calls} calls for {ROWS} items")
        self.assertGreaterEqual(calls, ROWS)
        self.assertLessEqual(calls, ROWS + calls_beyond)

    def test_a_worker_that_is_cut_off_past_its_lease_doubles_no_result(self):
        coordinator, workers = self.start_all()
        harness.wait_until(lambda: self.lines() >= 40, "both workers are at work")
        self.net.cut("w1")
        # Longer than the lease: its batches go to the other worker, while it calls on.
        time.sleep(2.5 * LEASE_S)
        self.net.heal("w1")
        # What it held at the cut may be called twice: the gate, what waits behind it, and what it
        # began on its own until its lease was over.
        self.check(coordinator, calls_beyond=60)
        for worker in workers:
            ended = worker.wait()
            self.assertEqual(ended.code, 0, str(ended))

    def test_a_short_cut_costs_no_call(self):
        coordinator, workers = self.start_all()
        harness.wait_until(lambda: self.lines() >= 40, "both workers are at work")
        for _ in range(3):
            self.net.cut("w2")
            time.sleep(0.3 * LEASE_S)
            self.net.heal("w2")
            time.sleep(0.5)
        self.check(coordinator, calls_beyond=0)

    def test_both_workers_cut_off_come_back_with_what_they_have(self):
        coordinator, workers = self.start_all()
        harness.wait_until(lambda: self.lines() >= 40, "both workers are at work")
        self.net.cut("w1")
        self.net.cut("w2")
        time.sleep(2 * LEASE_S)
        self.net.heal("w1")
        self.net.heal("w2")
        self.check(coordinator, calls_beyond=60)


if __name__ == "__main__":
    unittest.main()
