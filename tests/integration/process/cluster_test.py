"""A coordinator and workers in processes of their own: they end together, come and go, and are
told why they are turned away."""

import json
import os
import re
import shlex
import shutil
import signal
import time

import cluster
import harness


class ClusterLifeTest(cluster.ClusterTest):
    def test_two_workers_share_a_job_and_leave_when_it_is_done(self):
        simulator = self.simulator(latency="50ms")
        coordinator = self.coordinator("--job", self.job(simulator, "two"), "--out", "two")
        workers = [self.worker(coordinator.address, f"w{i}") for i in range(2)]
        ended = coordinator.wait()
        self.assert_code(ended, 0)
        self.assertIn("complete: 200 of 200 ok, 0 failed", ended.out)
        for worker in workers:
            self.assert_code(worker.wait(), 0)
        run = self.assert_each_item_once("two", 200)
        self.assertEqual({line["headrace"]["worker"] for line in run.lines}, {"w0", "w1"})
        self.assertEqual(simulator.truth()["requests"], 200)
        self.assertEqual(run.summary()["items"]["ok"], 200)

    def test_a_worker_waits_for_its_coordinator_and_says_so_once(self):
        simulator = self.simulator()
        port = cluster.free_port()
        worker = self.worker(f"127.0.0.1:{port}", "early")
        self.wait_for_log(worker, f"waiting for the coordinator at 127.0.0.1:{port}")
        time.sleep(2)  # several attempts more
        self.assertLessEqual(worker.output()[1].count("waiting for the coordinator"), 3)
        coordinator = self.coordinator("--job", self.job(simulator, "late", rows=20), "--out",
                                       "late", port=port)
        self.assert_code(coordinator.wait(), 0)
        self.assert_code(worker.wait(), 0)
        self.assert_each_item_once("late", 20)

    def test_a_worker_that_is_told_to_end_delivers_and_gives_back(self):
        simulator = self.simulator(latency="200ms")
        coordinator = self.coordinator("--job", self.job(simulator, "drain"), "--out", "drain")
        leaving = self.worker(coordinator.address, "leaving", "--grace", "20s")
        self.wait_for_requests(simulator, 15, coordinator, leaving)
        leaving.signal(signal.SIGTERM)
        self.assert_code(leaving.wait(), 130)
        staying = self.worker(coordinator.address, "staying")
        self.assert_code(coordinator.wait(), 0)
        self.assert_code(staying.wait(), 0)
        self.assert_each_item_once("drain", 200)
        self.assertEqual(simulator.truth()["requests"], 200, "no call was made twice")

    def test_a_second_signal_ends_a_worker_at_once(self):
        simulator = self.simulator(latency="30s")
        coordinator = self.coordinator("--job", self.job(simulator, "twice", rows=5), "--out",
                                       "twice")
        worker = self.worker(coordinator.address, "w")
        self.wait_for_requests(simulator, 5, coordinator, worker)
        worker.signal(signal.SIGTERM)
        self.wait_for_log(worker, "draining")
        begun = time.monotonic()
        worker.signal(signal.SIGTERM)
        ended = worker.wait()
        self.assertEqual(ended.code, 130, str(ended))
        self.assertLess(time.monotonic() - begun, 10)
        coordinator.signal(signal.SIGKILL)

    def test_a_coordinator_that_is_told_to_end_leaves_a_run_that_goes_on(self):
        simulator = self.simulator(latency="200ms")
        port = cluster.free_port()
        args = ["--job", self.job(simulator, "pause"), "--out", "pause"]
        first = self.coordinator(*args, port=port)
        worker = self.worker(first.address, "w")
        self.wait_for_requests(simulator, 30, first, worker)
        first.signal(signal.SIGTERM)
        self.assert_code(first.wait(), 130)
        self.assertTrue(worker.running(), "the worker waits for the next coordinator")
        second = self.coordinator(*args, port=port)
        self.assert_code(second.wait(), 0)
        self.assert_code(worker.wait(), 0)
        self.assert_each_item_once("pause", 200)
        self.assertEqual(simulator.truth()["requests"], 200, "no call was made twice")


class ReadmeTest(cluster.ClusterTest):
    def test_the_run_of_the_readme_works_as_written(self):
        with open(os.path.join(harness.SOURCE, "README.md"), encoding="utf-8") as file:
            section = file.read().split("\n## On several machines\n")[1].split("\n## ")[0]
        commands = re.findall(r"(?m)^    ((?:SIM_KEY=\S+ )?headrace (?:coordinator|worker|status) .*)$",
                              section)
        coordinator, worker, status = [shlex.split(command) for command in commands]
        self.assertEqual(worker[0], "SIM_KEY=any-key")
        # Only the ports differ, so that tests can run side by side.
        simulator = self.simulator()
        port = cluster.free_port()
        shutil.copytree(harness.EXAMPLES, self.path("examples"))
        job = self.path("examples/cluster.yaml")
        with open(job, encoding="utf-8") as file:
            text = file.read()
        with open(job, "w", encoding="utf-8") as file:
            file.write(text.replace("http://127.0.0.1:8080/v1", simulator.url))
        here = lambda words: [word.replace(":7070", f":{port}") for word in words]
        first = self.start(*coordinator[1:], "--listen", f"127.0.0.1:{port}")
        # The worker comes last, so that the job cannot end before it is looked at.
        shown = self.headrace(*here(status[1:]))
        self.assert_code(shown, 0)
        self.assertIn("cluster", shown.out)
        second = self.start(*here(worker[2:]), env=harness.environment(SIM_KEY="any-key"))
        self.assert_code(first.wait(), 0)
        self.assert_code(second.wait(), 0)
        self.assert_each_item_once("runs/cluster", 200)


class RefusalTest(cluster.ClusterTest):
    def test_a_coordinator_listens_beyond_loopback_only_with_tls_or_that_word(self):
        ended = self.headrace("coordinator", "--listen", "0.0.0.0:0", "--out", "runs")
        self.assert_code(ended, 2)
        self.assertIn("refusing to listen at 0.0.0.0:0 without TLS", ended.err)
        self.assertIn("--insecure", ended.err)

    def test_a_wrong_token_is_refused_to_workers_and_operators(self):
        env = harness.environment(RIGHT="s3cret-token", WRONG="an0ther-token")
        coordinator = self.coordinator("--out", "runs", "--token-env", "RIGHT", env=env)
        worker = self.worker(coordinator.address, "w", "--token-env", "WRONG", env=env)
        ended = worker.wait()
        self.assert_code(ended, 4)
        self.assertIn("the token is not the coordinator's", ended.err)
        for command in (["status"], ["jobs"], ["cancel", "x"]):
            ended = self.headrace(*command, "--coordinator", coordinator.address, env=env)
            self.assert_code(ended, 4)
            self.assertIn("this coordinator asks for a token", ended.err)
        self.status(coordinator.address, "--token-env", "RIGHT", env=env)
        coordinator.signal(signal.SIGTERM)
        ended = coordinator.wait()
        self.assert_code(ended, 130)
        for text in (ended.out, ended.err):
            self.assertNotIn("s3cret", text)
            self.assertNotIn("an0ther", text)

    def test_a_missing_token_is_an_error_of_credentials(self):
        ended = self.headrace("worker", "--coordinator", "127.0.0.1:1", "--token-env", "NOT_SET")
        self.assert_code(ended, 4)
        self.assertIn("NOT_SET", ended.err)

    def test_a_token_is_not_sent_in_plaintext_to_another_machine(self):
        self.write("token", "s3cret\n")
        ended = self.headrace("status", "--coordinator", "198.51.100.1:7070", "--token-file",
                              "token")
        self.assert_code(ended, 2)
        self.assertIn("refusing to send the token to 198.51.100.1:7070 without TLS", ended.err)

    def test_nobody_there_is_exit_code_7(self):
        address = f"127.0.0.1:{cluster.free_port()}"
        ended = self.headrace("status", "--coordinator", address, "--timeout", "300ms")
        self.assert_code(ended, 7)
        self.assertIn(f"no coordinator at {address}", ended.err)
        ended = self.headrace("worker", "--coordinator", address, "--connect-timeout", "300ms")
        self.assert_code(ended, 7)
        self.assertIn(f"no coordinator at {address}", ended.err)

    def test_a_port_in_use_is_an_error(self):
        first = self.coordinator("--out", "a")
        ended = self.headrace("coordinator", "--listen", first.address, "--out", "b")
        self.assert_code(ended, 1)
        self.assertIn(f"cannot listen at {first.address}", ended.err)

    def test_a_second_coordinator_on_one_run_directory_is_refused(self):
        simulator = self.simulator(latency="1s")
        args = ["--job", self.job(simulator, "held"), "--out", "held"]
        first = self.coordinator(*args)
        self.worker(first.address, "w")
        self.wait_for_requests(simulator, 1, first)
        ended = self.headrace("coordinator", "--listen", "127.0.0.1:0", *args)
        self.assertNotEqual(ended.code, 0, str(ended))
        self.assertIn("held", ended.err)
        self.assertTrue(first.running())


class TlsTest(cluster.ClusterTest):
    def test_a_whole_run_over_mutual_tls(self):
        cert, key = self.certificate()  # signed by itself, for localhost: its own CA
        simulator = self.simulator()
        coordinator = self.coordinator("--job", self.job(simulator, "tls", rows=40), "--out", "tls",
                                       "--tls-cert", cert, "--tls-key", key, "--client-ca", cert)
        tls = ["--ca-file", cert, "--cert", cert, "--key", key]
        ended = self.worker(coordinator.address, "somebody-else", *tls).wait()
        self.assert_code(ended, 4)
        self.assertIn("has shown a certificate for", ended.err)
        ended = self.headrace("status", "--coordinator", coordinator.address, "--timeout", "1s")
        self.assert_code(ended, 7)
        self.assertEqual(self.status(coordinator.address, *tls)["jobs"][0]["state"], "waiting")
        # Without --id the worker takes the name in its certificate.
        worker = self.start("worker", "--coordinator", coordinator.address, *tls)
        self.assert_code(coordinator.wait(), 0)
        self.assert_code(worker.wait(), 0)
        run = self.assert_each_item_once("tls", 40)
        self.assertEqual({line["headrace"]["worker"] for line in run.lines}, {"localhost"})


class OperatorTest(cluster.ClusterTest):
    def ask(self, command, address, *more):
        return self.headrace(command, *more, "--coordinator", address)

    def test_jobs_are_submitted_watched_cancelled_and_resumed(self):
        simulator = self.simulator(latency="100ms")
        coordinator = self.coordinator("--out", "runs")
        worker = self.worker(coordinator.address, "w")
        quick = self.job(simulator, "quick", rows=40)
        ended = self.ask("submit", coordinator.address, quick, "--wait")
        self.assert_code(ended, 0)
        self.assertIn("complete, 40 of 40 done", ended.out)
        self.assert_each_item_once("runs/quick", 40)

        long = self.job(simulator, "long", rows=2000)
        ended = self.ask("submit", coordinator.address, long, "--json")
        self.assert_code(ended, 0)
        submitted = json.loads(ended.out)
        self.assertFalse(submitted["existed"])
        again = self.ask("submit", coordinator.address, long)
        self.assert_code(again, 0)
        self.assertIn("runs already", again.out)
        self.wait_for_requests(simulator, 60, coordinator, worker)
        status = self.status(coordinator.address)
        self.assertEqual([job["name"] for job in status["jobs"]], ["quick", "long"])
        self.assertEqual(status["jobs"][0]["state"], "complete")
        self.assertEqual(status["jobs"][1]["state"], "running")
        self.assertEqual(status["jobs"][1]["total"], 2000)
        self.assertEqual(status["workers"][0]["worker_id"], "w")
        self.assertTrue(status["workers"][0]["connected"])
        self.assertRegex(status["workers"][0]["peer"], r"^127\.0\.0\.1:\d+$")
        table = self.ask("status", coordinator.address)
        self.assert_code(table, 0)
        self.assertRegex(table.out, r"(?m)^ +2 +long +running ")

        self.assert_code(self.ask("cancel", coordinator.address, "long", "--reason", "enough"), 0)
        harness.wait_until(
            lambda: self.status(coordinator.address)["jobs"][1]["state"] == "cancelled",
            "the job ends")
        self.assertEqual(self.status(coordinator.address)["jobs"][1]["reason"], "enough")
        ended = self.ask("cancel", coordinator.address, "nothing")
        self.assert_code(ended, 2)
        self.assertIn("no job nothing", ended.err)
        ended = self.ask("jobs", coordinator.address)
        self.assert_code(ended, 0)
        self.assertNotIn("WORKER", ended.out)

        coordinator.signal(signal.SIGTERM)
        self.assert_code(coordinator.wait(), 130)
        worker.signal(signal.SIGTERM)
        self.assert_code(worker.wait(), 130)

    def test_submitted_jobs_go_on_with_the_next_coordinator(self):
        simulator = self.simulator(latency="100ms")
        port = cluster.free_port()
        first = self.coordinator("--out", "runs", port=port)
        worker = self.worker(first.address, "w")
        self.assert_code(self.ask("submit", first.address, self.job(simulator, "kept")), 0)
        self.wait_for_requests(simulator, 40, first, worker)
        first.signal(signal.SIGKILL)
        first.wait()
        second = self.coordinator("--out", "runs", port=port)
        harness.wait_until(
            lambda: self.status(second.address)["jobs"][0]["state"] == "complete", "the job ends")
        self.assert_each_item_once("runs/kept", 200)
        self.assertLessEqual(simulator.truth()["repeats"], 20)

    def test_a_bad_job_is_refused_in_words(self):
        coordinator = self.coordinator("--out", "runs")
        self.write("bad.yaml", "job: x\nmodles: []\n")
        ended = self.ask("submit", coordinator.address, "bad.yaml")
        self.assert_code(ended, 2)
        self.assertIn("modles", ended.err)
        self.assertEqual(self.status(coordinator.address)["jobs"], [])


if __name__ == "__main__":
    harness.main()
