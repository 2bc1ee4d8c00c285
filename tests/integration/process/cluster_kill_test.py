"""Every role of a cluster killed, frozen and restarted under load: no acknowledged result is lost,
no item is written twice, and no more calls are repeated than were in flight at the kills."""

import signal
import time

import cluster
import harness

IN_FLIGHT = 10  # of each worker


class ClusterKillTest(cluster.ClusterTest):
    def finish(self, name, coordinator, workers, simulator, total, most_repeats):
        self.assert_code(coordinator.wait(), 0)
        for worker in workers:
            self.assert_code(worker.wait(), 0)
        self.assert_each_item_once(name, total)
        truth = simulator.truth()
        print(f"{name}: {truth['requests']} requests, {truth['repeats']} repeats")
        self.assertLessEqual(truth["repeats"], most_repeats)

    def test_a_worker_that_is_killed_loses_no_item(self):
        simulator = self.simulator(latency="150ms")
        coordinator = self.coordinator("--job", self.job(simulator, "kill"), "--out", "kill")
        victim = self.worker(coordinator.address, "victim")
        other = self.worker(coordinator.address, "other")
        self.wait_for_requests(simulator, 60, coordinator, victim, other)
        victim.signal(signal.SIGKILL)
        victim.wait()
        self.finish("kill", coordinator, [other], simulator, 200, 2 * IN_FLIGHT)

    def test_a_worker_that_froze_past_its_lease_can_do_no_harm(self):
        simulator = self.simulator(latency="150ms")
        coordinator = self.coordinator("--job", self.job(simulator, "stop", rows=400), "--out",
                                       "stop")
        frozen = self.worker(coordinator.address, "frozen")
        other = self.worker(coordinator.address, "other")
        self.wait_for_requests(simulator, 60, coordinator, frozen, other)
        frozen.signal(signal.SIGSTOP)
        time.sleep(cluster.LEASE_S * 1.5)
        frozen.signal(signal.SIGCONT)
        self.finish("stop", coordinator, [frozen, other], simulator, 400, 2 * IN_FLIGHT)

    def test_a_coordinator_that_is_killed_and_restarted_loses_nothing_of_its_workers(self):
        rng = harness.seed_of("coordinator kills")
        simulator = self.simulator(latency="150ms")
        port = cluster.free_port()
        args = ["--job", self.job(simulator, "restart", rows=400), "--out", "restart"]
        coordinator = self.coordinator(*args, port=port)
        workers = [self.worker(coordinator.address, f"w{i}") for i in range(2)]
        for kill in range(3):
            self.wait_for_requests(simulator, simulator.truth()["requests"] +
                                   rng.randrange(20, 60), coordinator, *workers)
            coordinator.signal(signal.SIGKILL)
            coordinator.wait()
            time.sleep(rng.random() * cluster.LEASE_S)
            coordinator = self.coordinator(*args, port=port)
        # Workers keep what they hold over the restart, results too: nothing is called twice but
        # what was granted in the moment of a kill.
        self.finish("restart", coordinator, workers, simulator, 400, 3 * 2 * IN_FLIGHT)

    def test_everything_killed_in_turn_under_load(self):
        rng = harness.seed_of("everything killed")
        simulator = self.simulator(latency="150ms", faults={"503": 0.02})
        port = cluster.free_port()
        args = ["--job", self.job(simulator, "all", rows=600), "--out", "all"]
        coordinator = self.coordinator(*args, port=port)
        workers = [self.worker(coordinator.address, f"w{i}") for i in range(3)]
        kills = 0
        while kills < 6:
            wanted = simulator.truth()["requests"] + rng.randrange(20, 60)
            harness.wait_until(lambda: simulator.truth()["requests"] >= wanted
                               or not coordinator.running(), "the run gets on")
            if not coordinator.running():
                break
            if rng.random() < 0.4:
                coordinator.signal(signal.SIGKILL)
                coordinator.wait()
                coordinator = self.coordinator(*args, port=port)
            else:
                at = rng.randrange(len(workers))
                workers[at].signal(signal.SIGKILL)
                workers[at].wait()
                workers[at] = self.worker(f"127.0.0.1:{port}", f"w{at}")
            kills += 1
        self.assertGreaterEqual(kills, 3)
        retried = simulator.truth()["faults"].get("503", 0) + 600  # counted as repeats as well
        self.finish("all", coordinator, workers, simulator, 600,
                    kills * 3 * IN_FLIGHT + retried)


if __name__ == "__main__":
    harness.main()
