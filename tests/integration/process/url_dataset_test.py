"""Datasets that are URLs: downloaded once into the run directory, and run like a file."""

import gzip
import http.server
import json
import os
import signal
import threading

import cluster
import harness

KEY = "hf_T3st/Key+With=Signs.$1_0123456789"


class FileServer:
    """Serves what `files` says by path, on a free port of loopback, and remembers what was asked."""

    def __init__(self):
        self.files = {}  # path: bytes, a status, the URL of a redirect, or an event to wait for
        self.requests = []  # (path, Authorization)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append((self.path, self.headers.get("Authorization")))
                answer = outer.files.get(self.path, 404)
                if isinstance(answer, threading.Event):
                    answer.wait(60)
                    return
                if isinstance(answer, bytes):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(answer)))
                    self.send_header("ETag", '"v1"')
                    self.end_headers()
                    self.wfile.write(answer)
                    return
                self.send_response(302 if isinstance(answer, str) else answer)
                if isinstance(answer, str):
                    self.send_header("Location", answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def rows(count):
    return "".join(json.dumps({"q": f"question {i}"}) + "\n" for i in range(count)).encode()


class UrlDatasetTest(harness.ProcessTest):
    def setUp(self):
        super().setUp()
        self.server = FileServer()
        self.addCleanup(self.server.close)

    def copies(self):
        return sorted(f for f in os.listdir(self.path("out")) if f.startswith("dataset-"))

    def job(self, sim, path, more=""):
        return self.write("job.yaml", f"""
dataset: {{path: "{self.server.url(path)}", prompt: "{{{{q}}}}"{more}}}
models: [{{name: m, endpoint: "{sim.url}"}}]
output: {{dir: out}}
""")

    def test_what_is_not_there_is_named_and_leaves_no_directory(self):
        sim = self.simulator()
        ended = self.headrace(*self.run_args(self.server.url("/none.jsonl?a=b"), sim.url, "out"))
        self.assert_code(ended, 2)
        self.assertIn("/none.jsonl: HTTP status 404", ended.err)
        self.assertNotIn("a=b", ended.err)
        self.assertFalse(os.path.exists(self.path("out")))
        self.assertEqual(sim.truth()["requests"], 0)

    def test_a_page_instead_of_a_dataset_is_refused(self):
        sim = self.simulator()
        self.server.files["/d.jsonl"] = b"<!DOCTYPE html><title>Log in</title>\n"
        ended = self.headrace(*self.run_args(self.server.url("/d.jsonl"), sim.url, "out"))
        self.assert_code(ended, 2)
        self.assertEqual(sim.truth()["requests"], 0)
        # The page is not kept in place of what may come.
        self.assertFalse(os.path.exists(self.path("out")))
        self.server.files["/d.jsonl"] = rows(3)
        self.assert_code(self.headrace(*self.run_args(self.server.url("/d.jsonl"), sim.url, "out")),
                         0)
        self.assert_each_item_once("out", 3)

    def test_a_user_in_the_url_is_refused_and_not_repeated(self):
        url = f"http://me:{KEY[:12].replace('/', '_')}@127.0.0.1:{self.server.port}/d.jsonl"
        ended = self.headrace(*self.run_args(url, "http://127.0.0.1:1/v1", "out"))
        self.assert_code(ended, 2)
        self.assertIn("dataset.path", ended.err)
        self.assertNotIn("hf_T3st", ended.out + ended.err)
        self.assertEqual(self.server.requests, [])

    def test_a_run_goes_on_with_the_bytes_it_began_with(self):
        sim = self.simulator()
        self.server.files["/d.jsonl.gz?rev=1"] = gzip.compress(rows(30))
        args = self.run_args(self.server.url("/d.jsonl.gz?rev=1"), sim.url, "out")
        self.assert_code(self.headrace(*args), 0)
        self.assert_each_item_once("out", 30)
        copy, origin = self.copies()
        self.assertEqual(origin, copy + ".json")
        with open(self.path(f"out/{copy}"), "rb") as file:
            self.assertEqual(file.read(), self.server.files["/d.jsonl.gz?rev=1"])
        with open(self.path(f"out/{origin}"), encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual(told["etag"], '"v1"')
        self.assertEqual(told["bytes"], len(self.server.files["/d.jsonl.gz?rev=1"]))
        summary = harness.RunDirectory(self.path("out")).summary()
        self.assertEqual(told["sha256"], summary["dataset"]["sha256"])
        self.assertEqual(summary["dataset"]["path"], self.server.url("/d.jsonl.gz"))
        # The file of the server has changed since; nobody asks for it.
        self.server.files["/d.jsonl.gz?rev=1"] = gzip.compress(rows(5))
        self.assert_code(self.headrace(*args), 0)
        self.assert_each_item_once("out", 30)
        self.assertEqual(len(self.server.requests), 1)
        # Without its copy, the run would have to begin with other bytes.
        os.remove(self.path(f"out/{copy}"))
        ended = self.headrace(*args)
        self.assert_code(ended, 2)
        self.assertIn("dataset content (SHA-256)", ended.err)

    def test_a_changed_copy_is_refused(self):
        sim = self.simulator()
        self.server.files["/d.jsonl"] = rows(10)
        args = self.run_args(self.server.url("/d.jsonl"), sim.url, "out")
        self.assert_code(self.headrace(*args), 0)
        with open(self.path(f"out/{self.copies()[0]}"), "ab") as file:
            file.write(b'{"q":"one more"}\n')
        ended = self.headrace(*args)
        self.assert_code(ended, 2)
        self.assertIn("dataset content (SHA-256)", ended.err)

    def test_a_key_goes_to_the_host_of_the_url_alone(self):
        sim = self.simulator()
        elsewhere = FileServer()
        self.addCleanup(elsewhere.close)
        elsewhere.files["/blob"] = rows(4)
        self.server.files["/moved"] = self.server.url("/d.jsonl")
        self.server.files["/d.jsonl"] = elsewhere.url("/blob")
        ended = self.headrace("--log-level", "debug", "run",
                              self.job(sim, "/moved", ", api_key: {env: HF_TOKEN}"),
                              env=harness.environment(HF_TOKEN=KEY + "\n"))
        self.assert_code(ended, 0)
        self.assert_each_item_once("out", 4)
        bearer = f"Bearer {KEY}"
        self.assertEqual(self.server.requests, [("/moved", bearer), ("/d.jsonl", bearer)])
        self.assertEqual(elsewhere.requests, [("/blob", None)])
        for where in [ended.out, ended.err, *map(self.content, harness.all_files(self.dir))]:
            self.assertNotIn(KEY[8:], where)

    def content(self, path):
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def test_a_missing_key_is_found_before_anything_is_asked(self):
        ended = self.headrace("run", self.job(self.simulator(), "/d", ", api_key: {env: HF_TOKEN}"),
                              env=harness.environment(HF_TOKEN=None))
        self.assert_code(ended, 4)
        self.assertIn("HF_TOKEN is not set", ended.err)
        self.assertEqual(self.server.requests, [])
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_refused_key_is_named(self):
        self.server.files["/d.jsonl"] = 403
        ended = self.headrace(*self.run_args(self.server.url("/d.jsonl"), "http://127.0.0.1:1/v1",
                                             "out"))
        self.assertNotEqual(ended.code, 0)
        self.assertIn("HTTP status 403", ended.err)

    def test_redirects_have_an_end(self):
        self.server.files["/loop"] = self.server.url("/loop")
        ended = self.headrace(*self.run_args(self.server.url("/loop"), "http://127.0.0.1:1/v1",
                                             "out"))
        self.assert_code(ended, 2)
        self.assertLess(len(self.server.requests), 10)

    def test_a_look_leaves_nothing_behind(self):
        self.server.files["/d.jsonl"] = rows(7)
        os.mkdir(self.path("tmp"))
        env = harness.environment(TMPDIR=self.path("tmp"))
        flags = ["--prompt", "{{q}}", "--model", "m", "--endpoint", "http://127.0.0.1:1/v1"]
        for command in ("validate", "estimate"):
            ended = self.headrace(command, self.server.url("/d.jsonl"), *flags, env=env)
            self.assert_code(ended, 0)
            self.assertIn("7 rows", ended.out)
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assertEqual(sorted(os.listdir(self.dir)), ["tmp"])


class SubmittedUrlTest(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.server = FileServer()
        self.addCleanup(self.server.close)

    def submit(self, coordinator, simulator, name, path, more=""):
        job = self.write(f"{name}.yaml", f"""
job: {name}
dataset: {{path: "{self.server.url(path)}", prompt: "{{{{q}}}}"{more}}}
models: [{{name: m, endpoint: "{simulator.url}"}}]
""")
        return self.start("submit", job, "--coordinator", coordinator.address, "--wait")

    def test_the_coordinator_downloads_the_dataset_of_a_submitted_job(self):
        simulator = self.simulator()
        key = self.write("key", KEY)
        coordinator = self.coordinator("--out", "runs")
        self.worker(coordinator.address, "w")
        self.server.files["/d.jsonl"] = rows(30)
        asked = self.submit(coordinator, simulator, "far", "/d.jsonl", f", api_key: {{file: {key}}}")
        self.assert_code(asked.wait(), 0)
        self.assert_each_item_once("runs/far", 30)
        self.assertEqual(self.server.requests, [("/d.jsonl", f"Bearer {KEY}")])
        # Again: it is resumed with the bytes that it began with.
        self.server.files["/d.jsonl"] = rows(5)
        self.assert_code(self.submit(coordinator, simulator, "far", "/d.jsonl",
                                     f", api_key: {{file: {key}}}").wait(), 0)
        self.assert_each_item_once("runs/far", 30)
        self.assertEqual(len(self.server.requests), 1)

        ended = self.submit(coordinator, simulator, "none", "/none.jsonl").wait()
        self.assertNotEqual(ended.code, 0)
        self.assertIn("/none.jsonl: HTTP status 404", ended.err)

    def test_a_coordinator_that_is_told_to_end_does_not_wait_for_a_download(self):
        simulator = self.simulator()
        coordinator = self.coordinator("--out", "runs")
        self.server.files["/slow.jsonl"] = threading.Event()  # never set
        asked = self.submit(coordinator, simulator, "slow", "/slow.jsonl")
        harness.wait_until(lambda: self.server.requests, "the download begins")
        coordinator.signal(signal.SIGTERM)
        self.assert_code(coordinator.wait(), 130)
        self.assertNotEqual(asked.wait().code, 0)
        left = [f for _, _, files in os.walk(self.path("runs")) for f in files]
        self.assertEqual([f for f in left if f.startswith("dataset-")], [])

    def test_a_job_whose_dataset_is_being_downloaded_can_be_cancelled(self):
        simulator = self.simulator()
        coordinator = self.coordinator("--out", "runs")
        self.worker(coordinator.address, "w")
        self.server.files["/slow.jsonl"] = threading.Event()  # never set
        asked = self.submit(coordinator, simulator, "slow", "/slow.jsonl")
        harness.wait_until(lambda: self.server.requests, "the download begins")
        at = ["--coordinator", coordinator.address]
        told = self.headrace("cancel", *at, "slow", "--reason", "the wrong file")
        self.assert_code(told, 0)
        self.assertIn("stopping", told.out)
        self.assertIn("the wrong file", told.out)
        ended = asked.wait()
        self.assert_code(ended, 130)
        self.assertIn("the wrong file", ended.err)
        job = json.loads(self.headrace("jobs", *at, "--json").out)["jobs"][0]
        self.assertEqual((job["state"], job["reason"]), ("cancelled", "the wrong file"))
        left = [f for _, _, files in os.walk(self.path("runs")) for f in files]
        self.assertEqual([f for f in left if f.startswith("dataset-")], [])
        # Others go on, and so does this one when it is asked for again.
        self.server.files["/slow.jsonl"] = rows(5)
        self.assert_code(self.submit(coordinator, simulator, "slow", "/slow.jsonl").wait(), 0)
        self.assert_each_item_once("runs/slow", 5)


if __name__ == "__main__":
    harness.main()
