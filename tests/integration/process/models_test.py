"""Several models in one job: the weights hold, and one that fails does not stop the others."""

import harness


class ModelsTest(harness.ProcessTest):
    def test_weights_of_three_to_one_on_a_slow_pool_progress_three_to_one(self):
        self.rows(400)
        simulator = self.simulator(latency="20ms")
        self.write("job.yaml", f"""
dataset: {{path: rows.jsonl, id: id, prompt: "{{{{q}}}}"}}
pools:
  slow: {{max_in_flight: 4}}
models:
  - {{name: heavy, endpoint: "{simulator.url}", weight: 3}}
  - {{name: light, endpoint: "{simulator.url}", weight: 1}}
batch: {{size: 10}}
output: {{dir: out}}
""")
        process = self.start("run", "job.yaml", "--progress", "none")
        harness.wait_until(lambda: simulator.truth()["completions"] >= 200 or not process.running(),
                           "half of the heavy model is done")
        process.signal(harness.signal.SIGINT)
        self.assert_code(process.wait(), 130)
        run = harness.RunDirectory(self.path("out"))
        done = {"heavy": 0, "light": 0}
        for line in run.lines:
            done[line["headrace"]["model"]] += 1
        print(f"weights 3:1, done {done}")
        self.assertGreater(done["light"], 0)
        self.assertGreater(done["heavy"] / done["light"], 2)
        self.assertLess(done["heavy"] / done["light"], 4.5)

    def test_each_model_has_its_own_answers_and_its_own_numbers(self):
        self.rows(50)
        simulator = self.simulator()
        self.assert_code(
            self.headrace(*self.run_args("rows.jsonl", simulator.url, "out", "--model", "other")),
            0)
        run = self.assert_each_item_once("out", 100)
        for line in run.lines:
            self.assertEqual(line["response"]["body"]["model"], line["headrace"]["model"])
            self.assertEqual(line["custom_id"], str(line["headrace"]["row"]))
        models = {m["name"]: m["items"]["ok"] for m in run.summary()["models"]}
        self.assertEqual(models, {"m": 50, "other": 50})

    def test_both_dialects_in_one_job(self):
        self.rows(30)
        simulator = self.simulator()
        root = simulator.url.removesuffix("/v1")
        self.write("job.yaml", f"""
dataset: {{path: rows.jsonl, id: id, prompt: "{{{{q}}}}", system: "Be brief."}}
pools: {{one: {{max_in_flight: 20}}, two: {{max_in_flight: 20}}}}
models:
  - {{name: gpt, endpoint: "{simulator.url}", pool: one}}
  - {{name: claude, provider: anthropic, endpoint: "{root}", pool: two, params: {{max_tokens: 50}}}}
  - {{name: claude, label: whole, provider: anthropic, endpoint: "{root}", pool: two,
      stream: false, params: {{max_tokens: 50}}}}
output: {{dir: out}}
""")
        self.assert_code(self.headrace("run", "job.yaml", "--progress", "none"), 0)
        self.assert_each_item_once("out", 90)
        self.assertEqual(simulator.truth()["requests"], 90)


if __name__ == "__main__":
    harness.main()
