"""Exit codes as scripts see them: what ends a run, what it says, and that it goes on later."""

import json

import harness

ROWS = 40


class ExitCodesTest(harness.ProcessTest):
    def setUp(self):
        super().setUp()
        self.rows(ROWS)

    def outcome(self, simulator, out, *more, **kwargs):
        return self.headrace(*self.run_args("rows.jsonl", simulator.url, out, *more), **kwargs)

    def test_0_when_every_item_is_ok(self):
        simulator = self.simulator()
        self.assert_code(self.outcome(simulator, "out"), 0)
        run = self.assert_each_item_once("out", ROWS)
        self.assertEqual(run.summary()["exit_code"], 0)
        self.assertEqual(simulator.truth()["requests"], ROWS)

    def test_2_when_the_job_has_changed_and_says_what(self):
        simulator = self.simulator()
        self.assert_code(self.outcome(simulator, "out"), 0)
        changed = self.outcome(simulator, "out", "--param", "temperature=0.5")
        self.assert_code(changed, 2)
        self.assertIn("temperature", changed.err)
        self.assertIn("0.5", changed.err)
        self.assert_each_item_once("out", ROWS)
        self.assertEqual(simulator.truth()["requests"], ROWS)

    def test_2_when_the_data_set_has_changed_and_says_what(self):
        simulator = self.simulator()
        self.assert_code(self.outcome(simulator, "out"), 0)
        self.rows(ROWS, text="How much is {} plus two?")
        content = self.outcome(simulator, "out")
        self.assert_code(content, 2)
        self.assertIn("dataset content", content.err)
        self.rows(ROWS + 1)
        count = self.outcome(simulator, "out")
        self.assert_code(count, 2)
        self.assertIn(f"dataset rows: {ROWS} -> {ROWS + 1}", count.err)
        self.assertEqual(simulator.truth()["requests"], ROWS)

    def test_2_for_a_second_process_on_the_same_directory(self):
        simulator = self.simulator(latency="300ms")
        first = self.start(*self.run_args("rows.jsonl", simulator.url, "out", "--max-in-flight", 4))
        harness.wait_until(lambda: simulator.truth()["requests"] > 0, "the first run has begun")
        second = self.outcome(simulator, "out", "--max-in-flight", 4)
        self.assert_code(second, 2)
        self.assertIn(str(first.pid), second.err)
        self.assert_code(first.wait(), 0)
        self.assert_each_item_once("out", ROWS)
        self.assertEqual(simulator.truth()["repeats"], 0)

    def test_3_for_more_failures_than_allowed_and_0_for_fewer(self):
        simulator = self.simulator(faults={"context-400": 0.3})
        many = self.outcome(simulator, "many")
        self.assert_code(many, 3)
        run = self.assert_each_item_once("many", ROWS)
        failed = sum(run.failed_by_class().values())
        self.assertGreater(failed, 0)
        self.assertLess(failed, ROWS)
        self.assertIn(f"{failed} of {ROWS} items failed", many.out)
        self.assert_code(self.outcome(simulator, "few", "--max-failed", failed), 0)
        self.assert_code(self.outcome(simulator, "fewer", "--max-failed", failed - 1), 3)
        self.assert_code(self.outcome(simulator, "share", "--max-failed", "90%"), 0)

    def test_4_for_a_key_variable_that_is_not_set(self):
        simulator = self.simulator()
        args = ("--api-key-env", "HEADRACE_TEST_KEY")
        ended = self.outcome(simulator, "out", *args)
        self.assert_code(ended, 4)
        self.assertIn("HEADRACE_TEST_KEY", ended.err)
        self.assertEqual(simulator.truth()["requests"], 0)
        env = harness.environment(HEADRACE_TEST_KEY="sk-there-now")
        self.assert_code(self.outcome(simulator, "out", *args, env=env), 0)
        self.assert_each_item_once("out", ROWS)

    def test_4_for_a_key_that_no_header_can_carry(self):
        simulator = self.simulator()
        for name, key in {"inner": "sk-one\nsk-two\n", "umlaut": "sk-\u00fc"}.items():
            ended = self.outcome(simulator, "out", "--api-key-file", self.write(name, key))
            self.assert_code(ended, 4)
            self.assertIn(name, ended.err)
        self.assert_code(self.outcome(simulator, "out", "--api-key-file", "no-such-file"), 4)
        self.assertEqual(simulator.truth()["requests"], 0)

    def stops_at_once(self, fault, code):
        simulator = self.simulator(faults={fault: 1})
        args = ("--max-in-flight", 4)
        ended = self.outcome(simulator, "out", *args)
        self.assert_code(ended, code)
        # Only what was in flight when the first answer came, and nothing counts as an attempt.
        self.assertLessEqual(simulator.truth()["requests"], 8)
        self.assertEqual(harness.RunDirectory(self.path("out")).lines, [])
        summary = harness.RunDirectory(self.path("out")).summary()
        self.assertEqual(summary["items"]["missing"], ROWS)
        self.assertEqual(summary["exit_code"], code)
        simulator.close()
        simulator = self.simulator(port=simulator.port)
        self.assert_code(self.outcome(simulator, "out", *args), 0)
        run = self.assert_each_item_once("out", ROWS)
        self.assertEqual(run.summary()["items"]["ok"], ROWS)

    def test_4_for_a_wrong_key_and_a_later_run_goes_on(self):
        self.stops_at_once("401", 4)

    def test_6_for_no_money_and_a_later_run_goes_on(self):
        self.stops_at_once("insufficient-quota", 6)

    def test_6_for_a_balance_of_zero_and_a_later_run_goes_on(self):
        self.stops_at_once("402", 6)

    def test_2_for_a_model_that_does_not_exist_and_nothing_is_written(self):
        simulator = self.simulator(faults={"404-model": 1})
        ended = self.outcome(simulator, "out")
        self.assert_code(ended, 2)
        self.assertIn("model", ended.out)
        self.assertEqual(harness.RunDirectory(self.path("out")).lines, [])

    def test_6_for_a_budget_that_is_used_up(self):
        simulator = self.simulator(tokens="10:10")
        # A cent for each answer.
        self.write("budget.yaml", f"""
dataset: {{path: rows.jsonl, prompt: "{{{{q}}}}"}}
models: [{{name: m, endpoint: "{simulator.url}", price: {{input: 0, output: 1000}}}}]
max_in_flight: 2
batch: {{size: 2}}
max_cost: 0.1
output: {{dir: budget}}
""")
        ended = self.headrace("run", "budget.yaml", "--progress", "none")
        self.assert_code(ended, 6)
        self.assertIn("budget", ended.out)
        run = harness.RunDirectory(self.path("budget"))
        self.assertGreaterEqual(len(run.lines), 10)
        self.assertLessEqual(len(run.lines), 16)
        # Run again with the same budget: it is still used up, and nothing more is spent.
        requests = simulator.truth()["requests"]
        again = self.headrace("run", "budget.yaml", "--progress", "none")
        self.assert_code(again, 6)
        self.assertEqual(simulator.truth()["requests"], requests)
        self.assertIn("max_cost", again.out)
        # A larger one goes on where it ended.
        more = self.headrace("run", "budget.yaml", "--progress", "none", "--max-cost", 1)
        self.assert_code(more, 0)
        self.assert_each_item_once("budget", ROWS)

    def test_2_for_wrong_places_to_write_to(self):
        simulator = self.simulator()
        ended = self.outcome(simulator, "rows.jsonl")
        self.assert_code(ended, 2)
        self.assertIn("rows.jsonl", ended.err)
        self.assert_code(self.outcome(simulator, "/proc/headrace/out"), 2)

    def test_a_summary_is_json_and_a_csv_has_each_item(self):
        simulator = self.simulator(faults={"context-400": 0.2})
        self.outcome(simulator, "out")
        run = harness.RunDirectory(self.path("out"))
        summary = run.summary()
        self.assertEqual(summary["items"]["ok"], len(run.ok()))
        self.assertEqual(summary["failed_by_class"], run.failed_by_class())
        with open(self.path("out/results.csv"), newline="", encoding="utf-8") as file:
            rows = list(harness.csv.DictReader(file))
        self.assertEqual(sorted(r["custom_id"] for r in rows),
                         sorted(line["custom_id"] for line in run.lines))
        self.assertEqual(sum(r["status"] == "ok" for r in rows), len(run.ok()))
        json.dumps(summary, allow_nan=False)

    def test_selftest_proves_the_concurrency(self):
        # The recommended number where no sanitizer slows it down.
        sanitized = harness.os.environ.get("HEADRACE_SANITIZE", "")
        ended = self.headrace("selftest", "--concurrency", 500 if sanitized else 2500)
        self.assert_code(ended, 0)
        self.assertIn("the configured concurrency is the real one", ended.out)


if __name__ == "__main__":
    harness.main()
