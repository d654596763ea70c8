"""Figure 8.4: the client's keys follow Zipf's law, and ratios are of slices of one round."""

from __future__ import annotations

import pytest

from workloads.bench.sampling.slices import CLIENTS as MANY
from workloads.bench.sampling.slices import Kind, LoadProgram, fill
from workloads.experiment.thesis import client_latency
from workloads.experiment.thesis.latency_slices import CLIENTS, IN_USE, NULLS, STATES, ratio
from workloads.local_server import BUILD, LocalServer


def data_of(factors: dict[str, float], rounds: int = 8) -> dict:
    """Each round is as much slower than the one before as a state is made slower than stock."""
    return {
        "percentiles": [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9],
        "keys": 10,
        "value_bytes": 10,
        "slice_seconds": 0.1,
        "slices": [
            {
                "seed": 1,
                "round": number,
                "state": state.name,
                "clients": clients,
                "latency_us": [10.0 * (1 + number) * factors.get(state.name, 1.0)] * 8,
                "cpu_us": 5.0,
            }
            for number in range(rounds)
            for clients in CLIENTS
            for state in STATES
        ],
    }


def test_a_machine_that_gets_slower_changes_no_ratio():
    data = data_of({IN_USE[0]: 1.2})
    assert ratio(data, IN_USE[0], 1).median == pytest.approx(1.2)
    assert ratio(data, NULLS[0], 1).median == 1.0
    told = client_latency.conclude(data)
    assert "+20.0 % with one client" in told
    assert "up to 0.0 % apart" in told


def test_what_is_below_the_distance_of_equal_servers_is_not_told():
    told = client_latency.conclude(data_of({IN_USE[0]: 0.9, NULLS[1]: 1.5, IN_USE[1]: 1.6}))
    unclear = told[told.index("nothing can be told") :]
    assert client_latency.WORDS[IN_USE[0]] in unclear
    assert client_latency.WORDS[IN_USE[1]] not in unclear


def test_a_few_slices_have_no_interval():
    one = data_of({}, rounds=1)
    assert "nothing for certain" in client_latency.conclude(one)
    assert not any("95 %" in head for table in client_latency.tables(one) for head in table.header)
    assert "their range" in " ".join(client_latency.tables(data_of({}, rounds=5))[0].header)


def test_a_slower_server_is_missed_and_an_equal_one_is_not():
    assert not client_latency.missed(data_of({}))
    assert not client_latency.missed(data_of({IN_USE[1]: 0.9}))
    assert len(client_latency.missed(data_of({IN_USE[1]: 1.2}))) == len(CLIENTS)


@pytest.mark.skipif(not (BUILD / "bin/redis-server-stock").exists(), reason="not built")
@pytest.mark.parametrize(("skew", "only_the_first"), [(6.0, True), (0.0, False)])
def test_keys_are_drawn_by_zipfs_law(skew, only_the_first):
    settings = {"maxmemory": "64mb", "maxmemory-policy": "allkeys-lfu", "maxclients": MANY + 50}
    with LocalServer(settings, BUILD / "bin/redis-server-stock") as server, LoadProgram() as load:
        server.client.config_set("lfu-log-factor", 0)  # a counter counts each read
        fill(server)
        while server.client.info("stats")["keyspace_hits"] < 2000:  # a busy machine may serve few
            load.run(server, Kind("get", 1), 0.2, 1, clients=2, skew=skew)

        def reads(key: int) -> int:
            return int(server.client.object("freq", f"key:{key:012d}"))

        assert (reads(0) >= 200) == only_the_first
        assert reads(9_999) <= 10
