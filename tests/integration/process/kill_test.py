"""A run that is killed at any moment, and started again, loses nothing and repeats nothing."""

import signal
import time

import harness
from harness import RunDirectory

ITEMS = 300  # 150 rows, two models
KILLS = 5
IN_FLIGHT = 24


class KillTest(harness.ProcessTest):
    def job(self, simulator, out):
        return self.write(
            f"{out}.yaml",
            f"""
job: killed
dataset: {{path: rows.jsonl, id: id, prompt: "{{{{q}}}}"}}
pools:
  main: {{max_in_flight: {IN_FLIGHT}}}
models:
  - {{name: a, endpoint: "{simulator.url}"}}
  - {{name: b, endpoint: "{simulator.url}", stream: false}}
max_in_flight: {IN_FLIGHT}
batch: {{size: 20}}
retry: {{attempts: 4, first_delay: 5ms, max_delay: 20ms, jitter: 5ms}}
output: {{dir: {out}}}
""")

    def line_count(self, out):
        """Lines so far, without the zeroes that a log has reserved behind them."""
        try:
            with open(self.path(f"{out}/results.jsonl"), "rb") as file:
                return file.read().count(b"\n")
        except FileNotFoundError:
            return 0

    def kill_and_restart(self, name, faults):
        rng = harness.seed_of(name)
        self.rows(ITEMS // 2)
        # What an item gets must not depend on how often it was asked before, so faults here are
        # those that a second try gets over.
        simulator = self.simulator(faults=faults, latency="60ms", seed=rng.randrange(1 << 30))
        args = ["run", self.job(simulator, "killed"), "--progress", "none"]
        killed = 0
        requests = 0
        while killed < KILLS:
            process = self.start(*args)
            # Either from the first request on, or when some more lines are on the disk.
            if rng.random() < 0.3:
                wanted = requests + rng.randrange(1, IN_FLIGHT)
                reached = lambda: simulator.truth()["requests"] >= wanted
            else:
                wanted = self.line_count("killed") + rng.randrange(1, 50)
                reached = lambda: self.line_count("killed") >= wanted
            harness.wait_until(lambda: reached() or not process.running(), "the run gets on")
            time.sleep(rng.random() * 0.05)
            process.signal(signal.SIGKILL)
            if process.wait().code == 0:
                break  # it was faster than the signal
            killed += 1
            requests = simulator.truth()["requests"]
        ended = self.headrace(*args)
        self.assert_code(ended, 0)
        print(f"{name}: {killed} kills, truth {simulator.truth()['requests']} requests")
        self.assertGreaterEqual(killed, 2)
        run = self.assert_each_item_once("killed", ITEMS)

        truth = simulator.truth()
        retried = sum(truth["faults"].values())
        # Each kill loses at most what was in flight, and what was answered and not yet synced.
        self.assertLessEqual(truth["repeats"] - retried, killed * 2 * IN_FLIGHT)
        self.assertEqual(run.summary()["items"]["ok"], ITEMS)
        self.assertEqual(run.summary()["starts"], killed + 1)

        whole = self.headrace("run", self.job(simulator, "whole"), "--progress", "none")
        self.assert_code(whole, 0)
        self.assertEqual(run.answers(), RunDirectory(self.path("whole")).answers())

        # Everything is done: one more start sends nothing and changes nothing.
        before = simulator.truth()["requests"]
        self.assert_code(self.headrace(*args), 0)
        self.assertEqual(simulator.truth()["requests"], before)
        self.assertEqual(RunDirectory(self.path("killed")).lines, run.lines)

    def test_killed_runs_end_with_each_item_once(self):
        self.kill_and_restart("clean", {})

    def test_killed_runs_with_faults_end_with_each_item_once(self):
        self.kill_and_restart("faults", {"503": 0.02, "truncated-stream": 0.05,
                                         "lost-after-accept": 0.05})

    def test_a_torn_last_line_is_cut_and_nothing_is_paid_again(self):
        self.rows(40)
        simulator = self.simulator()
        args = self.run_args("rows.jsonl", simulator.url, "torn")
        self.assert_code(self.headrace(*args), 0)
        log = self.path("torn/results.jsonl")
        with open(log, "r+b") as file:
            content = file.read()
            file.write(content[:100])  # what a crash leaves of a line that was not acknowledged
        ended = self.headrace(*args)
        self.assert_code(ended, 0)
        self.assert_each_item_once("torn", 40)
        with open(log, "rb") as file:
            self.assertEqual(file.read(), content)
        self.assertEqual(simulator.truth()["requests"], 40)

    def test_a_shortened_log_is_refused_and_nothing_is_paid_again(self):
        self.rows(40)
        simulator = self.simulator()
        args = self.run_args("rows.jsonl", simulator.url, "short")
        self.assert_code(self.headrace(*args), 0)
        log = self.path("short/results.jsonl")
        with open(log, "r+b") as file:
            size = len(file.read())
            file.truncate(size // 2)
        ended = self.headrace(*args)
        self.assertNotEqual(ended.code, 0, str(ended))
        self.assertIn("results.jsonl has lost acknowledged results", ended.err)
        self.assertIn(f"{size // 2} bytes, but {size} bytes (40 lines)", ended.err)
        self.assertEqual(simulator.truth()["requests"], 40)

    def test_a_damaged_line_before_good_ones_is_refused_by_its_number(self):
        self.rows(40)
        simulator = self.simulator()
        args = self.run_args("rows.jsonl", simulator.url, "damaged")
        self.assert_code(self.headrace(*args), 0)
        with open(self.path("damaged/results.jsonl"), "r+b") as file:
            lines = file.readlines()
            lines[4] = lines[4].replace(b'"row":', b'"rov":')
            file.seek(0)
            file.writelines(lines)
        # Without a snapshot the whole log is read.
        for snapshot in harness.all_files(self.path("damaged/journal")):
            if "snapshot" in snapshot:
                harness.os.remove(snapshot)
        ended = self.headrace(*args)
        self.assertNotEqual(ended.code, 0, str(ended))
        self.assertIn("results.jsonl", ended.err)
        self.assertIn("5", ended.err)
        self.assertEqual(simulator.truth()["requests"], 40)


if __name__ == "__main__":
    harness.main()
