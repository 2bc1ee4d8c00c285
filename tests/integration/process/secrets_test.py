"""A key never gets anywhere but into the provider's header."""

import harness

# Of the form that a careless pattern would miss: with characters of base64 and of regular
# expressions.
KEY = "sk-proj-T3st/Key+With=Signs.$1_0123456789abcdef"


class SecretsTest(harness.ProcessTest):
    def run_and_search(self, *args, env=None, code=0, faults=()):
        self.rows(60)
        simulator = self.simulator(latency="100ms", faults=faults)
        process = self.start("--log-level", "debug",
                             *self.run_args("rows.jsonl", simulator.url, "out", "--max-in-flight",
                                            20, *args), env=env)
        harness.wait_until(lambda: simulator.truth()["requests"] >= 1 or not process.running(),
                           "calls begin")
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            self.nowhere(file.read(), "argv")
        ended = process.wait()
        self.assert_code(ended, code)
        self.nowhere(ended.out.encode(), "standard output")
        self.nowhere(ended.err.encode(), "standard error")
        files = harness.all_files(self.path("out"))
        self.assertTrue(any(f.endswith("results.jsonl") for f in files))
        self.assertTrue(any(f.endswith("job.resolved.yaml") for f in files))
        self.assertTrue(any("journal" in f for f in files))
        for file in files:
            with open(file, "rb") as content:
                self.nowhere(content.read(), file)
        return ended

    def nowhere(self, content, where):
        # The beginning is enough to be a leak.
        for part in (KEY, KEY[8:24], KEY[-16:]):
            self.assertNotIn(part.encode(), content, where)

    def test_a_key_from_a_variable_stays_secret(self):
        self.run_and_search("--api-key-env", "OPENAI_API_KEY",
                            env=harness.environment(OPENAI_API_KEY=KEY))

    def test_a_key_from_a_file_stays_secret(self):
        self.run_and_search("--api-key-file", self.write("key", KEY + "\n"))

    def test_a_key_of_the_other_dialect_stays_secret(self):
        self.run_and_search("--provider", "anthropic", "--api-key-env", "ANTHROPIC_API_KEY",
                            "--param", "max_tokens=20",
                            env=harness.environment(ANTHROPIC_API_KEY=KEY))

    def test_a_key_stays_secret_when_calls_fail(self):
        self.run_and_search("--api-key-env", "OPENAI_API_KEY", "--attempts", 1, "--passes", 1,
                            env=harness.environment(OPENAI_API_KEY=KEY), code=3,
                            faults={"500": 0.3, "rst-mid-body": 0.2, "html-502": 0.2})

    def test_a_key_stays_secret_when_it_is_refused(self):
        ended = self.run_and_search("--api-key-env", "OPENAI_API_KEY",
                                    env=harness.environment(OPENAI_API_KEY=KEY), code=4,
                                    faults={"401": 1})
        self.assertIn("401", ended.out)

    def test_a_key_that_no_header_can_carry_is_not_shown(self):
        self.rows(3)
        simulator = self.simulator()
        ended = self.headrace("--log-level", "debug",
                              *self.run_args("rows.jsonl", simulator.url, "out", "--api-key-env",
                                             "OPENAI_API_KEY"),
                              env=harness.environment(OPENAI_API_KEY=KEY + "\n" + KEY))
        self.assert_code(ended, 4)
        self.nowhere((ended.out + ended.err).encode(), "output")


if __name__ == "__main__":
    harness.main()
