"""`headrace probe` against simulated providers: what it finds is how they count, the block that it
prints runs, and it stops at once where it has to."""

import http.server
import json
import os
import signal
import subprocess
import threading

import harness

FAST = {"latency": "20ms", "tokens": "2:12"}


class ProbeTest(harness.ProcessTest):
    def probe(self, url, *more, model="m", env=None):
        return self.headrace("probe", url, "--model", model, "--yes", *more, env=env)

    def found(self, ended):
        """The keys of the pool in the printed block that are no comments."""
        self.assert_code(ended, 0)
        keys = {}
        for line in ended.out.splitlines():
            if line.startswith("models:"):
                break
            if line.startswith("    ") and not line.startswith("    #"):
                key, value = line.split("  # ")[0].strip().split(": ")
                keys[key] = value
        return keys

    def runs(self, ended):
        """The block, with a dataset above it, is a job that validates and runs."""
        self.rows(20)
        job = 'job: probed\ndataset: {path: rows.jsonl, prompt: "{{q}}"}\n' + ended.out
        self.write("probed.yaml", job)
        self.assert_code(self.headrace("validate", "probed.yaml"), 0)
        self.assert_code(self.headrace("run", "probed.yaml", "--progress", "none"), 0)
        run = self.assert_each_item_once("runs/probed", 20)
        self.assertEqual(len(run.ok()), 20)

    def test_a_bucket_that_charges_max_tokens_and_keeps_it(self):
        simulator = self.simulator(tpm="120k", rpm=3000, quota="bucket", charge="larger", **FAST)
        ended = self.probe(simulator.url)
        keys = self.found(ended)
        self.assertEqual(keys["tokens_per_minute"], "120000", ended)
        self.assertEqual(keys["requests_per_minute"], "3000", ended)
        self.assertEqual(keys["window"], "continuous", ended)
        self.assertEqual(keys["charge"], "larger", ended)
        self.assertLessEqual(simulator.truth()["requests"], 40)
        self.runs(ended)

    def test_input_and_output_apart_as_anthropic_counts(self):
        simulator = self.simulator(input_tpm="60k", output_tpm="12k", rpm=600, quota="bucket",
                                   charge="estimate", **FAST)
        ended = self.probe(simulator.url, "--provider", "anthropic")
        keys = self.found(ended)
        self.assertEqual(keys["input_tokens_per_minute"], "60000", ended)
        self.assertEqual(keys["output_tokens_per_minute"], "12000", ended)
        self.assertEqual(keys.get("requests_per_minute"), "600", ended)
        self.assertEqual(keys["charge"], "actuals", ended)
        self.assertNotIn("tokens_per_minute", keys)
        self.runs(ended)

    def test_fixed_windows(self):
        # Ten seconds instead of a minute, so that the test need not wait for one.
        simulator = self.simulator(tpm="120k", rpm=1200, quota="10s", charge="larger", **FAST)
        ended = self.probe(simulator.url)
        keys = self.found(ended)
        self.assertEqual(keys["window"], "10s", ended)
        self.assertEqual(keys["requests_window"], "10s", ended)
        # The simulator looks at a request before it counts it.
        self.assertRegex(ended.err, r"requests refused as wrong +are free \(")
        self.assertEqual(keys["charge"], "larger", ended)
        self.runs(ended)

    def test_without_headers_it_says_what_cannot_be_known(self):
        args = ["simulate", "--tpm", "60k", "--rpm", "3000", "--no-quota-headers", "--latency",
                "20ms", "--tokens", "2:12"]
        process = self.start(*args)
        harness.wait_until(lambda: "/v1\n" in process.output()[0], "the simulator listens")
        url = process.output()[0].split("listening on ")[1].split("\n")[0]
        ended = self.probe(url)
        keys = self.found(ended)
        self.assertNotIn("tokens_per_minute", keys)
        self.assertNotIn("window", keys)
        self.assertIn("none that say what is left", ended.err)
        self.assertIn("needs --exhaust", ended.err)
        exhausted = self.probe(url, "--exhaust")
        keys = self.found(exhausted)
        self.assertEqual(keys.get("tokens_per_minute"), "60000", exhausted)
        self.assertEqual(keys.get("charge"), "larger", exhausted)
        self.runs(exhausted)

    def test_json_is_one_object_and_the_key_is_in_no_output(self):
        simulator = self.simulator(tpm="120k", rpm=3000, **FAST)
        key = "sk-very-secret-0123456789"
        ended = self.probe(simulator.url, "--json", "--api-key-env", "HEADRACE_TEST_KEY",
                           env=harness.environment(HEADRACE_TEST_KEY=key))
        self.assert_code(ended, 0)
        self.assertNotIn(key, ended.out + ended.err)
        report = json.loads(ended.out)
        self.assertEqual(report["end"], "done")
        self.assertEqual(report["pool"]["tokens_per_minute"], 120000)
        self.assertEqual(report["requests"], len(report["answers"]))
        self.assertTrue(all(f["confidence"] for f in report["findings"]))

    def test_1_for_a_provider_that_cannot_be_reached(self):
        ended = self.probe("http://127.0.0.1:9/v1")
        self.assert_code(ended, 1)
        self.assertIn("cannot be reached", ended.err)
        self.assertEqual(ended.out, "")

    def test_1_for_a_web_server_that_is_no_provider(self):
        class Page(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                body = b"<!doctype html><html><body>hello</body></html>"
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ended = self.probe(f"http://127.0.0.1:{server.server_port}/v1")
        self.assert_code(ended, 1)
        self.assertIn("web page", ended.err)
        self.assertEqual(ended.out, "")

    def stops_after_one(self, fault, code, word):
        simulator = self.simulator(faults={fault: 1})
        ended = self.probe(simulator.url)
        self.assert_code(ended, code)
        self.assertIn(word, ended.err)
        self.assertEqual(ended.out, "")
        self.assertEqual(simulator.truth()["requests"], 1)

    def test_4_for_a_wrong_key(self):
        self.stops_after_one("401", 4, "refuses the key")

    def test_6_for_no_money(self):
        self.stops_after_one("insufficient-quota", 6, "used up")

    def test_2_for_a_model_that_does_not_exist(self):
        self.stops_after_one("404-model", 2, "model")

    def test_4_for_a_key_variable_that_is_not_set(self):
        simulator = self.simulator()
        ended = self.probe(simulator.url, "--api-key-env", "HEADRACE_TEST_KEY")
        self.assert_code(ended, 4)
        self.assertIn("HEADRACE_TEST_KEY", ended.err)
        self.assertEqual(simulator.truth()["requests"], 0)

    def test_2_for_flags_that_make_no_sense(self):
        for args in (["probe"], ["probe", "http://127.0.0.1:9/v1"],
                     ["probe", "ftp://127.0.0.1:9/v1", "--model", "m"],
                     ["probe", "http://127.0.0.1:9/v1", "--model", "m", "--provider", "other"],
                     ["probe", "http://127.0.0.1:9/v1", "--model", "m", "--max-requests", "1"]):
            self.assert_code(self.headrace(*args), 2)

    def test_on_a_terminal_it_asks_first(self):
        simulator = self.simulator(tpm="120k", rpm=3000, **FAST)
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [harness.BINARY, "probe", simulator.url, "--model", "m", "--price", "1:10"],
            cwd=self.dir, env=harness.environment(), stdin=theirs, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        os.close(theirs)
        os.write(ours, b"n\n")
        out, err = process.communicate(timeout=harness.RUN_TIMEOUT_S)
        os.close(ours)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out, b"")
        self.assertIn(b"at most 40 requests and 100k tokens", err)
        self.assertIn(b"at most 1.0000 USD", err)
        self.assertIn(b"Go on?", err)
        self.assertEqual(simulator.truth()["requests"], 0)

    def test_130_for_an_interrupt_and_what_was_seen_is_told(self):
        simulator = self.simulator(tpm="120k", rpm=3000, **{**FAST, "latency": "500ms"})
        process = self.start("probe", simulator.url, "--model", "m", "--yes")
        harness.wait_until(lambda: simulator.truth()["requests"] >= 4, "some requests are sent")
        process.signal(signal.SIGINT)
        ended = process.wait()
        self.assert_code(ended, 130)
        self.assertIn("# Not complete: interrupted", ended.out)
        self.assertIn("tokens_per_minute: 120000", ended.out)
        self.assertLess(simulator.truth()["requests"], 15)


if __name__ == "__main__":
    harness.main()
