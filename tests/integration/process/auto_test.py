"""`--max-in-flight auto`: a run finds how many answers the provider produces at a time, and says so."""

import re

import cluster
import harness

SERVERS = 30


class AutoTest(harness.ProcessTest):
    def find(self, out, *more, rows=3600, servers=SERVERS, **simulator):
        self.rows(rows)
        provider = self.simulator(latency="400ms", servers=servers, **simulator)
        ended = self.headrace("run", "rows.jsonl", "--prompt", "{{q}}", "--model", "m",
                              "--endpoint", provider.url, "--out", out, "--progress", "json",
                              "--max-in-flight", "auto", *more)
        self.assert_code(ended, 0)
        run = self.assert_each_item_once(out, rows)
        lines = [harness.json.loads(l) for l in ended.err.splitlines() if l.startswith("{")]
        progress = [l for l in lines if l.get("event") == "progress"]
        return ended, run, progress, provider.truth()

    def test_finds_the_knee_of_a_provider_and_says_what_and_why(self):
        ended, run, progress, truth = self.find("out")
        found = run.summary()["in_flight"]
        print(found, "peak", truth["peak_in_flight"], "served", truth["peak_served"])
        self.assertEqual([f["pool"] for f in found], ["default"])
        # How near it comes is a matter of virtual time (knee_test, in_flight_test): here the
        # machine's own delays are in what is measured.
        self.assertGreaterEqual(found[0]["found"], SERVERS * 0.5)
        self.assertLessEqual(found[0]["found"], SERVERS * 3)
        self.assertRegex(found[0]["why"], "latency")
        self.assertEqual(truth["peak_served"], SERVERS)
        # It doubles from 16, and a probe is at most twice what was found.
        self.assertLessEqual(truth["peak_in_flight"], 8 * SERVERS)
        self.assertTrue(all(l["auto_in_flight"] for l in progress))
        self.assertTrue(all(l["pools"][0]["in_flight_why"] for l in progress))
        self.assertTrue(re.search(r"in flight: auto found \d+ for pool default: ", ended.out),
                        str(ended))

    def test_a_pool_bounds_what_is_tried(self):
        self.rows(300)
        provider = self.simulator(latency="50ms")
        self.write("job.yaml", f"""
dataset: {{path: rows.jsonl, id: id, prompt: "{{{{q}}}}"}}
pools: {{p: {{max_in_flight: 5}}}}
models: [{{name: m, endpoint: "{provider.url}", pool: p}}]
max_in_flight: auto
output: {{dir: out}}
""")
        self.assert_code(self.headrace("run", "job.yaml", "--progress", "none"), 0)
        run = self.assert_each_item_once("out", 300)
        self.assertLessEqual(provider.truth()["peak_in_flight"], 5)
        self.assertLessEqual(run.summary()["in_flight"][0]["found"], 5)

    def test_neither_a_count_nor_auto_is_an_error(self):
        self.rows(1)
        args = self.run_args("rows.jsonl", "http://127.0.0.1:1/v1", "out")
        ended = self.headrace(*args, "--max-in-flight", "automatic")
        self.assert_code(ended, 2)
        self.assertIn("is neither auto nor a count", ended.err)
        self.write("job.yaml", """
dataset: {path: rows.jsonl, id: id, prompt: "{{q}}"}
models: [{name: m, endpoint: "http://127.0.0.1:1/v1"}]
max_in_flight: automatic
""")
        ended = self.headrace("validate", "job.yaml")
        self.assert_code(ended, 2)
        self.assertIn("max_in_flight: must be a count or auto, not", ended.out + ended.err)


class AutoClusterTest(cluster.ClusterTest):
    def test_status_says_what_was_found_so_far_and_why(self):
        simulator = self.simulator(latency="100ms", servers=SERVERS)
        job = self.job(simulator, "found", rows=20_000, in_flight="auto")
        coordinator = self.coordinator("--job", job, "--out", "found")
        self.worker(coordinator.address, "w")
        found = []

        def told():
            found[:] = self.status(coordinator.address)["jobs"][0]["in_flight"]
            return found and found[0]["found"] > 16

        harness.wait_until(told, "it has grown")
        self.assertEqual([f["pool"] for f in found], ["default"])
        self.assertGreaterEqual(found[0]["limit"], 1)
        table = self.headrace("status", "--coordinator", coordinator.address).out
        self.assertRegex(table, r"calls in flight, auto:\n  JOB +POOL +NOW +FOUND +WHY\n"
                                r"  found +default +\d+ +\d+ +\w.*\nworkers: 1\n")


if __name__ == "__main__":
    harness.main()
