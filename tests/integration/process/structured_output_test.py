"""Schemas that a provider would refuse are found before a call, and answers are looked at for JSON."""

import csv
import json
import os

import harness

GOOD = {"type": "object", "additionalProperties": False, "required": ["a"],
        "properties": {"a": {"type": "string"}}}


def chat_format(schema, strict=True):
    return {"type": "json_schema", "json_schema": {"name": "r", "strict": strict, "schema": schema}}


class StructuredOutputTest(harness.ProcessTest):
    def job(self, endpoint, schema, more=""):
        model = {"name": "m", "endpoint": endpoint,
                 "params": {"response_format": chat_format(schema)}}
        self.rows(5)
        return self.write("job.yaml", f"""
dataset: {{path: rows.jsonl, prompt: "{{{{q}}}}"}}
models: [{json.dumps(model)}]
output: {{dir: out{more}}}
""")

    def test_a_schema_that_would_be_refused_stops_before_a_call(self):
        schema = json.loads(json.dumps(GOOD))
        schema["properties"]["a"] = {"type": "object", "properties": {}}
        # Nobody listens at the proxy: a call would end in another error.
        env = harness.environment(https_proxy="http://127.0.0.1:1")
        job = self.job("https://api.openai.com/v1", schema)
        for command in ("run", "validate"):
            ended = self.headrace(command, job, env=env)
            self.assert_code(ended, 2)
            self.assertIn("job.yaml: models[0] (m): params.response_format.json_schema.schema"
                          ".properties.a: needs additionalProperties: false",
                          ended.out + ended.err)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_hostile_pattern_is_a_configuration_error_and_no_crash(self):
        simulator = self.simulator()
        for pattern in ("[0-9]{99999}", "^+[a-z]$", "(" * 10000 + ")" * 10000):
            schema = {**GOOD, "properties": {"a": {"type": "string", "pattern": pattern}}}
            ended = self.headrace("run", self.job(simulator.url, schema))
            self.assert_code(ended, 2)
            self.assertIn("properties.a.pattern: ", ended.err)
        self.assertEqual(simulator.truth()["requests"], 0)

    def test_schemas_of_a_batch_file_are_checked_by_validate(self):
        rows = [{"custom_id": str(i), "body": {"model": "m", "messages": [],
                                               "response_format": chat_format({"type": "object"})}}
                for i in range(3)]
        self.write("b.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        ended = self.headrace("validate", "b.jsonl", "--model", "m", "--endpoint",
                              "https://api.openai.com/v1")
        self.assert_code(ended, 2)
        self.assertEqual(ended.out.count("needs additionalProperties: false"), 1, str(ended))
        self.assertIn("b.jsonl:1: (m): body.response_format", ended.out)

    def test_answers_that_are_no_json_are_counted_and_kept(self):
        simulator = self.simulator()
        job = self.job(simulator.url, GOOD)
        self.assert_code(self.headrace("run", job), 0)
        # Asked for later, of the answers that are there.
        ended = self.headrace("run", self.job(simulator.url, GOOD, ", json: true"))
        self.assert_code(ended, 0)
        run = self.assert_each_item_once("out", 5)
        kinds = run.summary()["json"]
        with open(self.path("out/results.csv"), newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        self.assertEqual(len(table), 5)
        for row in table:
            self.assertIn(row["json"], kinds)
            self.assertTrue(row["output"])
        self.assertEqual(sum(v for k, v in kinds.items() if k != "white_space_tails"), 5)
        self.assertIn("json: ", ended.out)


if __name__ == "__main__":
    harness.main()
