"""A coordinator and its workers as processes on loopback, for tests."""

import json
import re
import socket

import harness
from harness import wait_until

LEASE_S = 2


def free_port():
    """A port that nothing listens at now; for a coordinator that must come back at the same one."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class ClusterTest(harness.ProcessTest):
    def job(self, simulator, out, rows=200, in_flight=10, more="", name=None):
        self.rows(rows)
        return self.write(
            f"{out}.yaml",
            f"""
job: {name or out}
dataset: {{path: {self.path("rows.jsonl")}, id: id, prompt: "{{{{q}}}}"}}
models:
  - {{name: m, endpoint: "{simulator.url}"}}
max_in_flight: {in_flight}
batch: {{size: 20}}
retry: {{attempts: 4, first_delay: 5ms, max_delay: 20ms, jitter: 5ms}}
{more}
""")

    def coordinator(self, *args, port=0, lease=f"{LEASE_S}s", env=None):
        process = self.start("coordinator", "--listen", f"127.0.0.1:{port}", "--lease", lease,
                             "--progress", "none", *args, env=env)
        wait_until(lambda: "listening on " in process.output()[0] or not process.running(),
                   "the coordinator listens")
        listening = re.search(r"listening on (\S+)\n", process.output()[0])
        if listening is None:
            raise AssertionError(f"no coordinator: {process.wait()}")
        process.address = listening.group(1)
        return process

    def worker(self, address, name, *more, env=None):
        return self.start("worker", "--coordinator", address, "--id", name, *more, env=env)

    def status(self, address, *more, env=None):
        ended = self.headrace("status", "--coordinator", address, "--json", *more, env=env)
        self.assert_code(ended, 0)
        return json.loads(ended.out)

    def wait_for_log(self, process, text):
        wait_until(lambda: text in process.output()[1] or not process.running(), f"log: {text}")
        self.assertIn(text, process.output()[1])

    def wait_for_requests(self, simulator, count, *processes):
        wait_until(lambda: simulator.truth()["requests"] >= count
                   or not all(p.running() for p in processes), f"{count} requests")
        for process in processes:
            if not process.running():
                raise AssertionError(f"ended too soon: {process.wait()}")
