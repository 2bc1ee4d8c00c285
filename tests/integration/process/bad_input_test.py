"""Bad input: one clear line that says where, exit code 2, nothing sent, nothing left behind."""

import gzip
import os

import harness

ROWS = '{"id":"a","q":"one"}\n{"id":"b","q":"two"}\n'


class BadInputTest(harness.ProcessTest):
    def setUp(self):
        super().setUp()
        self.sim = self.simulator()
        self.write("good.jsonl", ROWS)

    def refused(self, ended, *words):
        self.assert_code(ended, 2)
        lines = ended.err.splitlines()
        self.assertEqual(len(lines), 1, str(ended))
        self.assertTrue(lines[0].startswith("headrace run: "), lines[0])
        for word in words:
            self.assertIn(word, lines[0])
        self.assertEqual(ended.out, "")
        self.assertFalse(os.path.exists(self.path("out")), "a directory was left behind")
        self.assertEqual(self.sim.truth()["requests"], 0)

    def data(self, content, *words, args=(), prompt="{{q}}", name="data.jsonl"):
        self.write(name, content)
        ended = self.headrace(*self.run_args(name, self.sim.url, "out", *args, prompt=prompt))
        self.refused(ended, name, *words)

    def job(self, text, *words):
        self.write("job.yaml", text.replace("URL", self.sim.url))
        self.refused(self.headrace("run", "job.yaml", "--progress", "none"), *words)

    def url(self, url, *words):
        self.refused(self.headrace(*self.run_args("good.jsonl", url, "out")), "endpoint", *words)

    def test_yaml_that_is_none(self):
        self.job("job: x\ndataset: {path: good.jsonl\nmodels: [\n", "job.yaml:", "YAML")

    def test_an_unknown_key_names_the_nearest(self):
        self.job("""dataset: {path: good.jsonl, promt: "{{q}}"}
models: [{name: m, endpoint: "URL"}]
output: {dir: out}
""", "job.yaml:1:", "dataset.promt", "'prompt'")

    def test_a_key_given_twice(self):
        self.job("""job: a
job: b
dataset: {path: good.jsonl, prompt: "{{q}}"}
models: [{name: m, endpoint: "URL"}]
output: {dir: out}
""", "job.yaml:2:", "job")

    def test_a_value_of_the_wrong_kind(self):
        self.job("""dataset: {path: good.jsonl, prompt: "{{q}}"}
models: [{name: m, endpoint: "URL"}]
batch: {deadline: 120}
output: {dir: out}
""", "job.yaml:3:", "batch.deadline")

    def test_a_key_in_the_text_of_a_job_is_refused_and_not_repeated(self):
        secret = "sk-proj-0123456789abcdefghij"
        self.job(f"""dataset: {{path: good.jsonl, prompt: "{{{{q}}}}"}}
models: [{{name: m, endpoint: "URL", api_key: {secret}}}]
output: {{dir: out}}
""", "job.yaml:2:", "api_key")
        ended = self.headrace("run", "job.yaml")
        self.assertNotIn(secret, ended.err + ended.out)

    def test_no_models_and_no_data_set(self):
        self.job('dataset: {path: good.jsonl, prompt: "{{q}}"}\noutput: {dir: out}\n', "models")
        self.job('models: [{name: m, endpoint: "URL"}]\noutput: {dir: out}\n', "dataset")

    def test_an_empty_job_file(self):
        self.job("", "job.yaml")

    def test_a_field_that_no_row_has(self):
        self.data(ROWS, "'nope'", "dataset.prompt", "id, q", prompt="{{nope}}")
        self.data(ROWS, "'nope'", "dataset.id", "id, q", args=["--id", "nope"])

    def test_a_template_without_an_end(self):
        self.refused(self.headrace(*self.run_args("good.jsonl", self.sim.url, "out", prompt="{{q")),
                     "dataset.prompt", "}}")

    def test_ids_used_twice_name_both_lines(self):
        self.data('{"id":"a","q":"1"}\n{"id":"b","q":"2"}\n{"id":"a","q":"3"}\n', "'a'", "1", "3",
                  args=["--id", "id"])

    def test_files_without_rows(self):
        self.data("", "is empty")
        self.data("\n \n\n", "no rows")
        self.data("\ufeff", "data.jsonl")
        self.data(gzip.compress(b""), "data.jsonl.gz", name="data.jsonl.gz")

    def test_files_that_are_no_data_set(self):
        self.data(b"\xff\xfe{\x00}\x00", "UTF-16")
        self.data(b'{"q":"a"}\n{"q":"b\xff"}\n', "data.jsonl:2:", "UTF-8")
        self.data(gzip.compress(ROWS.encode())[:-9], "cut.jsonl.gz", name="cut.jsonl.gz")
        self.data(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "data.png", name="data.png")
        self.data('[{"q":"one"},{"q":"two"}]\n', "data.json", name="data.json")

    def test_places_that_are_no_file(self):
        os.mkdir(self.path("folder"))
        for name, words in {"folder": "directory", "missing.jsonl": "No such file"}.items():
            self.refused(self.headrace(*self.run_args(name, self.sim.url, "out")), name, words)

    def test_addresses_that_are_none(self):
        self.url("http//127.0.0.1/v1", "http://")
        self.url("ftp://127.0.0.1/v1", "http://")
        self.url("http://", "host")
        self.url("http://127.0.0.1:99999/v1", "port")
        self.url("http://[::1/v1", "IPv6")
        self.url("http://some where/v1", "space")
        self.url("http://user:word@127.0.0.1/v1", "password")

    def test_a_key_in_an_address_is_refused_before_it_is_written_anywhere(self):
        self.url("http://127.0.0.1:1/v1?api_key=abc", "key")

    def test_certificates_that_are_not_there(self):
        ended = self.headrace(*self.run_args("good.jsonl", self.sim.url, "ca", "--ca-file", "none"))
        self.assert_code(ended, 2)
        self.assertIn("ca_file none", ended.err)

    def test_flags_that_are_wrong(self):
        for flags, word in {("--param", "temperature"): "--param", ("--tpm", "many"): "--tpm",
                            ("--max-failed", "120%"): "max", ("--deadline", "0s"): "deadline",
                            ("--limit", "-1"): "--limit", ("--frob", "1"): "--frob"}.items():
            ended = self.headrace(*self.run_args("good.jsonl", self.sim.url, "out", *flags))
            self.assert_code(ended, 2)
            self.assertIn(word, ended.err)
            self.assertFalse(os.path.exists(self.path("out")))

    def test_nothing_listens_there(self):
        self.sim.close()
        self.write("job.yaml", f"""
dataset: {{path: good.jsonl, prompt: "{{{{q}}}}"}}
models: [{{name: m, endpoint: "{self.sim.url}"}}]
retry: {{attempts: 2, first_delay: 5ms, jitter: 1ms}}
output: {{dir: out}}
""")
        ended = self.headrace("run", "job.yaml", "--progress", "none")
        self.assert_code(ended, 1)
        self.assertIn("cannot be reached", ended.out)
        for log in ("results.jsonl", "errors.jsonl"):
            path = self.path(os.path.join("out", log))
            self.assertFalse(os.path.exists(path) and os.path.getsize(path), log)

    # What looks bad and is not.

    def good(self, content, ids, name="data.jsonl", args=()):
        self.write(name, content)
        ended = self.headrace(*self.run_args(name, self.sim.url, "good-" + name, "--id", "id",
                                             *args))
        self.assert_code(ended, 0)
        run = self.assert_each_item_once("good-" + name, len(ids))
        self.assertEqual(sorted(line["custom_id"] for line in run.lines), ids)

    def test_a_byte_order_mark_and_windows_lines_are_fine(self):
        self.good(b"\xef\xbb\xbf" + ROWS.replace("\n", "\r\n").encode(), ["a", "b"])
        self.good("\ufeffid;q\r\na;\"one;\r\ntwo\"\r\nb;zwei\r\n", ["a", "b"], "data.csv")

    def test_no_line_end_at_the_end_and_blank_lines_are_fine(self):
        self.good("\n" + ROWS.replace("\n", "\n\n").rstrip(), ["a", "b"])

    def test_separators_of_unicode_in_a_row_are_no_line_ends(self):
        self.good('{"id":"a","q":"one\u2028two\u0085three"}\n{"id":"b","q":"\u2029"}\n', ["a", "b"])

    def test_a_row_that_gives_no_request_fails_alone(self):
        self.write("data.jsonl", ROWS + '{"id":"c","q":\n{"id":"d"}\n')
        ended = self.headrace(*self.run_args("data.jsonl", self.sim.url, "some"))
        self.assert_code(ended, 3)
        self.assertIn("data.jsonl:3:", ended.err)
        self.assertEqual(self.assert_each_item_once("some", 4).failed_by_class(), {"bad_row": 2})
        self.assertEqual(self.sim.truth()["requests"], 2)


if __name__ == "__main__":
    harness.main()
