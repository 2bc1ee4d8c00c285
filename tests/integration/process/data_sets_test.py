"""Whole runs over data sets with a provider that fails in many ways: each item ends once, rightly.

The example set is part of the source and always runs. The public sets run where they are found.
"""

import json
import os

import harness

# Failures that a later attempt or pass gets over, each with its share of requests.
PASSING = {"503": 0.02, "truncated-stream": 0.03, "lost-after-accept": 0.03, "429-bare": 0.02,
           "rst-mid-body": 0.03, "500": 0.02, "html-502": 0.02}
# Failures that an item keeps, and the class in which it ends.
LASTING = {"bad-utf8": "invalid_response", "content-filter": "content_filter",
           "context-400": "never_fits"}
# Over HTTP/2 such a failure takes all calls of its connection with it.
OF_A_CONNECTION = 0.003
# Odd ways to say the right thing.
ODD = {"crlf": 0.1, "cr": 0.1, "mixed-line-ends": 0.05, "no-space": 0.05,
       "comments": 0.05, "no-done": 0.05, "usage-chunk-last": 0.05,
       "bom": 0.05, "retry-only-blocks": 0.05, "empty-data": 0.05}


class DataSetsTest(harness.ProcessTest):
    def run_set(self, data, prompt, *more, limit=None, faults=(), tls=False, stream=True, passes=4,
                models=("a", "b"), out="out"):
        rng = harness.seed_of(self.id())
        certificate = self.certificate() if tls else None
        simulator = self.simulator(faults=faults, tls=certificate, seed=rng.randrange(1 << 30),
                                   latency="10ms")
        rows = harness.count_rows(data)
        if limit is not None:
            rows = min(rows, limit)
            more += ("--limit", limit)
        if tls:
            more += ("--ca-file", certificate[0])
        self.write("job.yaml", json.dumps({
            "dataset": {"path": data, "prompt": prompt},
            "models": [{"name": m, "endpoint": simulator.tls_url or simulator.url, "stream": stream}
                       for m in models],
            "max_in_flight": 60, "batch": {"size": 50}, "passes": passes,
            "retry": {"attempts": 4, "first_delay": "5ms", "max_delay": "50ms", "jitter": "5ms"},
            "output": {"dir": out}}))
        ended = self.headrace("run", "job.yaml", "--progress", "none", *more)
        truth = simulator.truth()
        print(f"{self.id()}: {rows} rows, {truth['requests']} requests, faults {truth['faults']}")
        lasting = {LASTING[f] for f in faults if f in LASTING}
        self.assert_code(ended, 3 if lasting else 0)
        run = self.assert_each_item_once(out, rows * len(models))
        self.assertEqual(set(run.failed_by_class()), lasting)
        self.assertGreater(len(run.ok()), 0.8 * rows * len(models))
        for name in (n for n, rate in dict(faults).items() if rate > OF_A_CONNECTION):
            self.assertGreater(truth["faults"].get(name, 0), 0, f"{name} never struck")
        if tls:
            self.assertGreater(truth["h2_connections_total"], 0)
        for line in run.ok():
            body = line["response"]["body"]
            text = body["choices"][0]["message"]["content"]
            self.assertTrue(text, line["custom_id"])
            self.assertNotIn("\ufffd", text)
            self.assertEqual(line["headrace"]["usage"]["completion_tokens"],
                             body["usage"]["completion_tokens"])
        return run, truth

    def shared(self, name):
        path = os.path.join(harness.DATA, name)
        if not os.path.exists(path):
            self.skipTest(f"{name} is not in {harness.DATA}; set HEADRACE_DATA to its directory")
        return path

    def example(self):
        return os.path.join(harness.EXAMPLES, "sample.jsonl")

    # Examples.

    def test_the_example_survives_faults(self):
        run, _ = self.run_set(self.example(), "{{question}}", "--id", "id", "--expected",
                              "{{answer}}", faults={**PASSING, "bad-utf8": 0.02,
                                                    "content-filter": 0.02})
        with open(self.example(), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        for line in run.lines:
            row = rows[line["headrace"]["row"]]
            self.assertEqual(line["custom_id"], row["id"])
            self.assertEqual(line["headrace"]["expected"], row["answer"])

    def test_the_example_survives_faults_without_streams_over_tls(self):
        self.run_set(self.example(), "{{question}}", tls=True, stream=False, faults={
            "503": 0.02, "rst-mid-body": 0.04, "short-body": 0.03, "bad-utf8": 0.03,
            "refused-stream": 0.03, "goaway": 0.02, "goaway-hard": 0.01,
            "lost-after-accept": OF_A_CONNECTION})

    def test_odd_streams_give_the_very_answers_of_plain_ones(self):
        odd, truth = self.run_set(self.example(), "{{question}}", "--id", "id", faults=ODD)
        self.assertEqual(truth["requests"], 400, "an odd stream was asked for again")
        plain, _ = self.run_set(self.example(), "{{question}}", "--id", "id", out="plain")
        odd, plain = odd.answers(), plain.answers()
        self.assertEqual(odd.keys(), plain.keys())
        for key, (_, body, _) in plain.items():
            self.assertEqual(odd[key][1]["choices"], body["choices"], key)
            self.assertEqual(odd[key][1]["usage"], body["usage"], key)

    def test_characters_that_are_split_between_writes_arrive_whole(self):
        faults = {"split-utf8": 0.3, "one-byte-writes": 0.2, "unicode-separators": 0.2}
        split, truth = self.run_set(self.example(), "{{question}}", faults=faults)
        self.assertEqual(truth["requests"], 400, "an odd stream was asked for again")
        texts = [line["response"]["body"]["choices"][0]["message"]["content"]
                 for line in split.lines]
        self.assertTrue(any("a\u2028b\u2029c\u0085d" in text for text in texts))
        self.assertTrue(any("\U0001f30d" in text for text in texts))

    def test_a_batch_file_runs_as_it_is(self):
        simulator = self.simulator()
        data = os.path.join(harness.EXAMPLES, "requests.batch.jsonl")
        self.assert_code(self.headrace("run", data, "--model", "m", "--endpoint", simulator.url,
                                       "--out", "out", "--progress", "none"), 0)
        with open(data, encoding="utf-8") as file:
            ids = sorted(json.loads(line)["custom_id"] for line in file)
        run = self.assert_each_item_once("out", len(ids))
        self.assertEqual(sorted(line["custom_id"] for line in run.lines), ids)

    # Public sets.

    def test_gsm8k(self):
        run, _ = self.run_set(self.shared("gsm8k_test.jsonl"), "{{question}}", "--expected",
                              "{{answer}}", limit=400, faults={**PASSING, "bad-utf8": 0.02,
                                                            "context-400": 0.01})
        self.assertIn("####", run.lines[0]["headrace"]["expected"])

    def test_human_eval_over_tls(self):
        run, _ = self.run_set(self.shared("HumanEval.jsonl.gz"), "{{prompt}}", "--id", "task_id",
                              tls=True, faults={**PASSING, "lost-after-accept": OF_A_CONNECTION})
        self.assertIn("HumanEval/163", {line["custom_id"] for line in run.lines})

    def test_mt_bench(self):
        run, _ = self.run_set(self.shared("mt_bench_question.jsonl"), "{{turns[0]}}", "--id",
                              "question_id", faults={"503": 0.03, "429-bare": 0.03,
                                                     "rst-mid-body": 0.06, "split-utf8": 0.2,
                                                     "crlf": 0.2})
        self.assertIn("81", {line["custom_id"] for line in run.lines})


if __name__ == "__main__":
    harness.main()
