"""Ctrl-C and SIGTERM: once ends calls under way and writes everything, twice leaves at once."""

import gzip
import os
import signal
import time

import harness

ROWS = 200
IN_FLIGHT = 10


class InterruptTest(harness.ProcessTest):
    def begin(self, simulator, out):
        self.rows(ROWS)
        self.args = self.run_args("rows.jsonl", simulator.url, out, "--max-in-flight", IN_FLIGHT)
        process = self.start(*self.args)
        harness.wait_until(lambda: simulator.truth()["completions"] >= IN_FLIGHT,
                           "some calls are answered")
        return process

    def resume(self, simulator, out):
        done = len(harness.RunDirectory(self.path(out)).lines)
        before = simulator.truth()["requests"]
        self.assert_code(self.headrace(*self.args), 0)
        self.assert_each_item_once(out, ROWS)
        return done, simulator.truth()["requests"] - before

    def interrupted_once(self, number):
        simulator = self.simulator(latency="100ms")
        process = self.begin(simulator, "once")
        process.signal(number)
        ended = process.wait()
        self.assert_code(ended, 130)
        truth = simulator.truth()
        self.assertEqual(truth["requests"], truth["completions"], "a call was cut")
        self.assertLess(truth["requests"], ROWS)
        run = harness.RunDirectory(self.path("once"))
        self.assertEqual(len(run.lines), truth["completions"], "an answer was not written")
        self.assertEqual(run.summary()["state"], "interrupted")
        self.assertEqual(run.summary()["exit_code"], 130)
        self.assertEqual(run.summary()["items"]["missing"], ROWS - len(run.lines))
        self.assertIn("the same command resumes", ended.out + ended.err)
        done, requests = self.resume(simulator, "once")
        self.assertEqual(done + requests, ROWS)
        self.assertEqual(simulator.truth()["repeats"], 0)
        self.assertEqual(harness.RunDirectory(self.path("once")).summary()["state"], "complete")

    def interrupted_twice(self, number):
        # A call that would hold the first interrupt for long.
        simulator = self.simulator(latency="20ms", faults={"silent-hang": 0.2})
        process = self.begin(simulator, "twice")
        process.signal(number)
        harness.wait_until(lambda: "stopping" in process.output()[1], "the first signal is seen")
        self.assertTrue(process.running())
        process.signal(number)
        begun = time.monotonic()
        ended = process.wait(20)
        self.assert_code(ended, 130)
        self.assertLess(time.monotonic() - begun, 5)
        simulator.close()
        # The same place without the fault.
        simulator = self.simulator(port=simulator.port)
        done, requests = self.resume(simulator, "twice")
        self.assertEqual(done + requests, ROWS)

    def test_ctrl_c_ends_calls_under_way_and_resumes(self):
        self.interrupted_once(signal.SIGINT)

    def test_sigterm_ends_calls_under_way_and_resumes(self):
        self.interrupted_once(signal.SIGTERM)

    def test_two_ctrl_c_leave_at_once_and_resume(self):
        self.interrupted_twice(signal.SIGINT)

    def test_two_sigterm_leave_at_once_and_resume(self):
        self.interrupted_twice(signal.SIGTERM)

    def test_reading_a_large_data_set_does_not_delay_the_end(self):
        row = b'{"q":"How much is one plus one, and why is that so, in your own words?"}\n'
        self.write("large.jsonl.gz", gzip.compress(row * 2_000_000, 1))
        for number in (signal.SIGINT, signal.SIGTERM):
            out = f"large-{number}"
            process = self.start(*self.run_args("large.jsonl.gz", "http://127.0.0.1:1/v1", out))
            # It is made when everything else has been checked.
            harness.wait_until(lambda: os.path.exists(self.path(out)), "rows are read")
            begun = time.monotonic()
            process.signal(number)
            self.assert_code(process.wait(), 130)
            self.assertLess(time.monotonic() - begun, 3)

    def test_waiting_for_the_quota_does_not_delay_the_end(self):
        self.rows(ROWS)
        simulator = self.simulator()
        process = self.start(*self.run_args("rows.jsonl", simulator.url, "quota", "--rpm", 60))
        harness.wait_until(lambda: simulator.truth()["completions"] >= 1, "a call is answered")
        begun = time.monotonic()
        process.signal(signal.SIGINT)
        self.assert_code(process.wait(), 130)
        self.assertLess(time.monotonic() - begun, 10)

    def test_waiting_for_a_retry_does_not_delay_the_end(self):
        self.rows(20)
        simulator = self.simulator(faults={"503": 1})
        self.write("slow.yaml", f"""
dataset: {{path: rows.jsonl, prompt: "{{{{q}}}}"}}
models: [{{name: m, endpoint: "{simulator.url}"}}]
retry: {{attempts: 9, first_delay: 50s, max_delay: 50s}}
output: {{dir: retry}}
""")
        process = self.start("run", "slow.yaml", "--progress", "none")
        harness.wait_until(lambda: simulator.truth()["requests"] >= 20, "all calls have failed")
        begun = time.monotonic()
        process.signal(signal.SIGINT)
        self.assert_code(process.wait(), 130)
        self.assertLess(time.monotonic() - begun, 10)


if __name__ == "__main__":
    harness.main()
