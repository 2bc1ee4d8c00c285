"""dataset.order: prompt_cache, against a provider that keeps few prefixes."""

import json

import harness

DOCUMENTS = 20
QUESTIONS = 6


class PromptCacheTest(harness.ProcessTest):
    def rows_by_question(self):
        rows = []
        for question in range(QUESTIONS):
            for document in range(DOCUMENTS):
                text = f"Document {document}. " + f"Fact {document} is as old as the hills. " * 200
                rows.append({"id": f"d{document}q{question}", "text": text,
                             "question": f"Question {question}?"})
        self.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def cached_share(self, simulator, out, *flags):
        ended = self.headrace("run", "rows.jsonl", "--model", "m", "--endpoint", simulator.url,
                              "--prompt", "{{text}}\n{{question}}", "--id", "id", "--out", out,
                              "--max-in-flight", "2", "--progress", "none", *flags)
        self.assert_code(ended, 0)
        tokens = self.assert_each_item_once(out, DOCUMENTS * QUESTIONS).summary()["tokens"]
        return tokens["cached"] / tokens["prompt"]

    def test_rows_that_share_a_document_are_called_together_and_are_cached(self):
        self.rows_by_question()
        # A document has 15 steps of 128 tokens; three of them have room.
        with_order = self.cached_share(self.simulator(prompt_cache=48), "ordered",
                                       "--order", "prompt_cache")
        as_in_file = self.cached_share(self.simulator(prompt_cache=48), "plain")
        self.assertEqual(as_in_file, 0)
        self.assertGreater(with_order, 0.5)

    def test_a_run_may_go_on_in_another_order(self):
        self.rows_by_question()
        simulator = self.simulator()
        self.cached_share(simulator, "out", "--order", "prompt_cache")
        requests = simulator.truth()["requests"]
        self.cached_share(simulator, "out")
        self.assertEqual(simulator.truth()["requests"], requests)

    def test_another_order_is_refused_in_words(self):
        self.rows_by_question()
        ended = self.headrace("run", "rows.jsonl", "--model", "m", "--endpoint",
                              "http://127.0.0.1:1/v1", "--prompt", "x", "--order", "prompt")
        self.assert_code(ended, 2)
        self.assertIn("'prompt' is no order", ended.err)


if __name__ == "__main__":
    harness.main()
