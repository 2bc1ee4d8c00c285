"""What the tests of real headrace processes share: scratch directories, a simulated provider, runs
of the binary, and a reader that trusts nothing of a run directory."""

import csv
import glob
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

BINARY = os.environ["HEADRACE_BINARY"]
SOURCE = os.environ["HEADRACE_SOURCE"]
DATA = os.environ.get("HEADRACE_DATA") or os.path.join(SOURCE, "..", "shared", "data")
EXAMPLES = os.path.join(SOURCE, "examples")
# No run here needs more than some seconds; a busy machine with sanitizers is ten times slower.
RUN_TIMEOUT_S = 90


def seed_of(name):
    """The seed of a test: HEADRACE_TEST_SEED, or a fixed one. Printed, so that a failure repeats."""
    seed = int(os.environ.get("HEADRACE_TEST_SEED", "20261"))
    print(f"{name}: HEADRACE_TEST_SEED={seed}", flush=True)
    return random.Random(f"{seed}/{name}")


def environment(**changes):
    """This process's environment without proxies and keys, and with changes (None removes)."""
    env = {k: v for k, v in os.environ.items() if not re.search("proxy|api_key", k, re.I)}
    env.update(changes)
    return {k: v for k, v in env.items() if v is not None}


class Ended:
    """A process that has ended: code (128 + N when a signal ended it), out, err."""

    def __init__(self, args, code, out, err):
        self.args = args
        self.code = code if code >= 0 else 128 - code
        self.out = out
        self.err = err

    def __str__(self):
        return f"{' '.join(self.args)}\nexit code {self.code}\n{self.out}\n{self.err}"


class Process:
    """A headrace process under way, with its output in files, so that nothing can block."""

    def __init__(self, args, cwd, env=None):
        self.args = [BINARY, *map(str, args)]
        self.files = [tempfile.TemporaryFile("w+b") for _ in range(2)]
        self.popen = subprocess.Popen(
            self.args, cwd=cwd, env=env or environment(), stdin=subprocess.DEVNULL,
            stdout=self.files[0], stderr=self.files[1])

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def output(self):
        # By position, since the process writes at the same offset.
        return [os.pread(f.fileno(), 1 << 26, 0).decode("utf-8", "replace") for f in self.files]

    def wait(self, timeout=RUN_TIMEOUT_S):
        try:
            code = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.popen.send_signal(signal.SIGABRT)
            self.popen.wait()
            raise AssertionError(f"still running after {timeout} s: {self.args}\n{self.output()}")
        return Ended(self.args, code, *self.output())

    def close(self):
        if self.running():
            self.popen.kill()
            self.popen.wait()
        for f in self.files:
            f.close()


class Simulator:
    """A `headrace simulate` process on free ports."""

    def __init__(self, cwd, faults=(), port=0, tls=None, seed=1, **flags):
        args = ["simulate", "--port", port, "--seed", seed]
        if tls is not None:
            args += ["--tls-port", 0, "--cert", tls[0], "--key", tls[1]]
        for name, value in {"latency": "5ms", "chunk_interval": "1ms", "tokens": "5:20",
                            **flags}.items():
            args += ["--" + name.replace("_", "-"), value]
        for name, rate in dict(faults).items():
            args += ["--fault", f"{name}={rate}"]
        self.process = Process(args, cwd)
        listening = r"listening on (%s://127.0.0.1:(\d+)/v1)\n"
        wanted = 1 if tls is None else 2
        wait_until(lambda: self.process.output()[0].count("/v1\n") >= wanted
                   or not self.process.running(), "the simulator listens")
        out = self.process.output()[0]
        if out.count("/v1\n") < wanted:
            raise AssertionError(f"no simulator: {self.process.wait()}")
        self.url, port = re.search(listening % "http", out).groups()
        self.port = int(port)
        secure = re.search(listening % "https", out)
        self.tls_url = secure.group(1) if secure else None

    def truth(self):
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                f"http://127.0.0.1:{self.port}/truth", timeout=20) as answer:
            return json.load(answer)

    def close(self):
        if self.process.running():
            self.process.signal(signal.SIGTERM)
            self.process.wait(20)
        self.process.close()


def wait_until(condition, what, timeout=RUN_TIMEOUT_S):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.005)


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class RunDirectory:
    """All lines of a finished run directory, each checked by its CRC and for its file."""

    def __init__(self, path):
        self.path = path
        self.lines = []
        for name, ok in (("results.jsonl", True), ("errors.jsonl", False)):
            with open(os.path.join(path, name), "rb") as file:
                content = file.read()
            if content and not content.endswith(b"\n"):
                raise AssertionError(f"{path}/{name} ends in {content[-80:]!r}")
            for number, raw in enumerate(content.split(b"\n")[:-1], 1):
                where = f"{path}/{name}:{number}"
                line = json.loads(raw.decode("utf-8", "strict"))
                body, comma, _ = raw.rpartition(b',"crc"')
                if not comma or crc32c(body) != int(line["headrace"]["crc"], 16):
                    raise AssertionError(f"{where}: wrong CRC")
                if (line["headrace"]["status"] == "ok") != ok or (line["error"] is None) != ok:
                    raise AssertionError(f"{where}: in the wrong file: {line['error']}")
                self.lines.append(line)

    def items(self):
        return sorted(line["headrace"]["item"] for line in self.lines)

    def ok(self):
        return [line for line in self.lines if line["error"] is None]

    def failed_by_class(self):
        counts = {}
        for line in self.lines:
            if line["error"] is not None:
                code = line["error"]["code"]
                counts[code] = counts.get(code, 0) + 1
        return counts

    def answers(self):
        """What of each item does not depend on when it ran: by (custom_id, model)."""
        answers = {}
        for line in self.lines:
            response = line["response"]
            body = response and response["body"]
            if isinstance(body, dict):
                # The provider's own ids and clock differ from call to call.
                body = {k: v for k, v in body.items() if k not in ("id", "created")}
            key = (line["custom_id"], line["headrace"]["model"])
            answers[key] = (response and response["status_code"], body, line["error"])
        return answers

    def summary(self):
        with open(os.path.join(self.path, "summary.json"), encoding="utf-8") as file:
            return json.load(file)


class ProcessTest(unittest.TestCase):
    """A test with a directory of its own, in which its processes run and with which they end."""

    maxDiff = 4000

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="headrace-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content):
        if isinstance(content, str):
            content = content.encode("utf-8")
        with open(self.path(name), "wb") as file:
            file.write(content)
        return name

    def rows(self, count, name="rows.jsonl", text="How much is {} plus one?"):
        lines = (json.dumps({"id": f"r{i}", "q": text.format(i)}) for i in range(count))
        return self.write(name, "".join(line + "\n" for line in lines))

    def simulator(self, **options):
        simulator = Simulator(self.dir, **options)
        self.addCleanup(simulator.close)
        return simulator

    def start(self, *args, env=None):
        process = Process(args, self.dir, env)
        self.addCleanup(process.close)
        return process

    def headrace(self, *args, env=None):
        return self.start(*args, env=env).wait()

    def run_args(self, data, endpoint, out, *more, prompt="{{q}}", model="m"):
        return ["run", data, "--prompt", prompt, "--model", model, "--endpoint", endpoint, "--out",
                out, "--progress", "none", *more]

    def assert_code(self, ended, code):
        self.assertEqual(ended.code, code, str(ended))
        self.assertNotIn("Sanitizer", ended.err)

    def assert_each_item_once(self, out, total):
        run = RunDirectory(self.path(out))
        self.assertEqual(run.items(), list(range(total)))
        return run

    def certificate(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        cert, key = self.path("cert.pem"), self.path("key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
            check=True, capture_output=True)
        return cert, key


def all_files(directory):
    return [p for p in glob.glob(os.path.join(directory, "**"), recursive=True)
            if os.path.isfile(p)]


def count_rows(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        return sum(1 for line in file if line.strip())


def main():
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main(verbosity=2)
