"""Quota shared through Redis by real processes: several jobs on several workers, and faults of Redis
under them."""

import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import cluster
import harness
from harness import wait_until

TOKENS_PER_MINUTE = 100_000


def readme_block(heading):
    """The first indented block below a heading of README.md, as one script."""
    with open(os.path.join(harness.SOURCE, "README.md"), encoding="utf-8") as file:
        section = file.read().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "".join(line[4:] + "\n" for line in re.search(r"(?m)(?:^    .*\n)+", section).group(0)
                   .splitlines())


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is not installed")
class ReadmeTest(cluster.ClusterTest):
    def test_three_jobs_share_two_quotas_by_weight_as_the_readme_says(self):
        ports = {port: str(cluster.free_port()) for port in ("6379", "8080", "7070")}
        script = readme_block("Several jobs, one quota")
        # Only the ports differ, so that tests can run side by side; and the simulator is asked for
        # the truth before everything is told to end.
        for port, free in ports.items():
            self.assertIn(port, script)
            script = script.replace(port, free)
        script = script.replace("headrace coordinator ",
                                f"headrace coordinator --listen 127.0.0.1:{ports['7070']} ")
        self.assertTrue(script.endswith("kill $(jobs -p)\n"))
        script = script.replace("kill $(", f"curl -s --noproxy '*' http://127.0.0.1:{ports['8080']}"
                                "/truth >truth.json\nkill $(")
        shutil.copytree(harness.EXAMPLES, self.path("examples"))
        for job in "abc":
            path = self.path(f"examples/shared-{job}.yaml")
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("8080", ports["8080"]))
        env = harness.environment(
            PATH=os.path.dirname(harness.BINARY) + os.pathsep + os.environ["PATH"])
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            shell = subprocess.Popen(["bash", "-e"], cwd=self.dir, env=env, stdin=subprocess.PIPE,
                                     stdout=out, stderr=err, start_new_session=True)
            self.addCleanup(self.end_group, shell.pid)
            try:
                shell.communicate(script.encode(), timeout=150)
            except subprocess.TimeoutExpired:
                self.end_group(shell.pid)
        with open(self.path("err"), encoding="utf-8", errors="replace") as file:
            errors = file.read()
        self.assertEqual(shell.returncode, 0, errors[-3000:])
        self.assertNotIn("Sanitizer", errors)
        runs = {job: self.assert_each_item_once(f"runs/shared/shared-{job}", 600) for job in "abc"}
        workers = set()
        for run in runs.values():
            self.assertEqual(run.failed_by_class(), {})
            helped = {line["headrace"]["worker"] for line in run.lines}
            # A worker that comes late on a busy machine may find a job taken.
            self.assertGreaterEqual(len(helped), 2)
            workers |= helped
        self.assertEqual(len(workers), 4)
        with open(self.path("truth.json"), encoding="utf-8") as file:
            truth = json.load(file)
        self.assertEqual(truth["requests"], 1800)
        self.assertEqual(truth["rejected"], 0)
        self.assert_paced(truth)
        self.assert_shares(runs)

    def end_group(self, pid):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def assert_paced(self, truth):
        """Both keys together never got more than rate and burst allow in any 5 s."""
        tokens = {second["s"]: second["tokens"] for second in truth["seconds"]}
        for second in tokens:
            within = sum(tokens.get(second + i, 0) for i in range(5))
            self.assertLessEqual(within, 2 * TOKENS_PER_MINUTE / 60 * (5 + 1.5), second)

    def assert_shares(self, runs):
        """While all three had something to do, the quota of one key went 1 to 2 to 4."""
        def sent_at(line):
            begun = datetime.datetime.fromisoformat(line["started"].replace("Z", "+00:00"))
            return begun.timestamp() + line["ms"]["queue"] / 1000

        started = {job: sorted(sent_at(line["headrace"]) for line in run.lines
                               if line["headrace"]["model"] != "sim-large")
                   for job, run in runs.items()}
        since = max(times[0] for times in started.values())
        end = min(times[-1] for times in started.values())
        begun = {job: sum(1 for at in times if since < at < end) for job, times in started.items()}
        print(f"calls while all had some to make: {begun}", flush=True)
        if begun["c"] < 100:
            return  # a machine so busy that the first job was done when the last came
        for job, part in (("a", 0.25), ("b", 0.5)):
            self.assertGreater(begun[job], begun["c"] * part * 0.6, begun)
            self.assertLess(begun[job], begun["c"] * part * 1.6, begun)


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is not installed")
class FaultsTest(cluster.ClusterTest):
    """Eight workers under a backlog while one thing after the other happens to their Redis."""

    def redis(self, port):
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--save", "", "--dir", self.dir],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (server.kill(), server.wait()))
        wait_until(lambda: self.cli(port, "PING") == "PONG", "redis-server answers")
        return server

    def cli(self, port, *words):
        return subprocess.run(["redis-cli", "-p", str(port), *words], capture_output=True,
                              text=True, timeout=20).stdout.strip()

    def test_whatever_happens_to_redis_no_call_is_rejected_and_none_is_lost(self):
        # 600 calls a minute, of which one in 250 ms may come early.
        per_minute, rows, workers = 600, 420, 8
        simulator = self.simulator(rpm=per_minute, latency="100ms")
        port = cluster.free_port()
        server = self.redis(port)
        job = self.job(simulator, "shaken", rows=rows, in_flight=20,
                       more=f"pools: {{main: {{requests_per_minute: {per_minute}}}}}")
        coordinator = self.coordinator("--job", job, "--out", "shaken", lease="30s")
        for i in range(workers):
            self.worker(coordinator.address, f"w{i}", "--redis", f"redis://127.0.0.1:{port}")

        def another(count):
            begun = simulator.truth()["requests"]
            self.wait_for_requests(simulator, begun + count, coordinator)

        self.wait_for_requests(simulator, 30, coordinator)
        self.assertEqual(self.cli(port, "SCRIPT", "FLUSH"), "OK")
        another(30)
        self.assertEqual(self.cli(port, "FLUSHALL"), "OK")
        another(30)
        server.kill()
        server.wait()
        server = self.redis(port)
        another(30)
        server.send_signal(signal.SIGSTOP)
        time.sleep(2)
        server.send_signal(signal.SIGCONT)
        another(30)
        self.assertEqual(self.cli(port, "CONFIG", "SET", "maxmemory", "1"), "OK")
        time.sleep(1)
        self.assertEqual(self.cli(port, "CONFIG", "SET", "maxmemory", "0"), "OK")
        self.assert_code(coordinator.wait(150), 0)
        self.assert_each_item_once("shaken", rows)
        truth = simulator.truth()
        self.assertEqual(truth["rejected"], 0)
        self.assertEqual(truth["requests"], rows)
        seconds = {second["s"]: second["requests"] for second in truth["seconds"]}
        for second in seconds:
            within = sum(seconds.get(second + i, 0) for i in range(10))
            self.assertLessEqual(within, per_minute / 60 * (10 + 1.5), second)


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is not installed")
class TlsTest(cluster.ClusterTest):
    def redis(self, cert, key):
        port = cluster.free_port()
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1",
             "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert,
             "--tls-auth-clients", "no", "--requirepass", "pw", "--save", "", "--dir", self.dir],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lambda: (server.kill(), server.communicate()))
        wait_until(lambda: self.cli(cert, port, "PING") == "PONG" or server.poll() is not None,
                   "redis-server answers")
        if server.poll() is not None:
            output = server.communicate()[0]
            if "Bad directive" in output:  # how one that was built without TLS takes --tls-port
                self.skipTest("this redis-server has no TLS")
            self.fail(output)
        return port

    def cli(self, cert, port, *words):
        return subprocess.run(
            ["redis-cli", "--tls", "--cacert", cert, "-h", "localhost", "-p", str(port), *words],
            env=harness.environment(REDISCLI_AUTH="pw"), capture_output=True, text=True,
            timeout=20).stdout.strip()

    def test_a_run_shares_its_quota_over_tls_and_not_with_a_redis_that_it_cannot_verify(self):
        cert, key = self.certificate()
        port = self.redis(cert, key)
        simulator = self.simulator()
        rows = self.rows(40)
        env = harness.environment(REDIS_PASSWORD="pw")

        def run(out, query):
            return self.headrace(*self.run_args(
                rows, simulator.url, out, "--rpm", "6000", "--redis",
                f"rediss://localhost:{port}{query}"), env=env)

        self.assert_code(run("verified", f"?ca_file={cert}"), 0)
        self.assertEqual(self.assert_each_item_once("verified", 40).failed_by_class(), {})
        self.assertIn("cmdstat_evalsha", self.cli(cert, port, "INFO", "commandstats"))

        refused = run("refused", "")
        self.assert_code(refused, 7)
        self.assertIn("certificate verify failed", refused.err)
        self.assertEqual(simulator.truth()["requests"], 40)


if __name__ == "__main__":
    harness.main()
