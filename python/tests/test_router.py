"""The test of docs/pytest.md: a router with two ways, one of which goes down."""
import time


def test_a_router_loses_nothing_and_fails_over(wirerate, wirerate_lab):
    lab = wirerate_lab
    tx, rx = lab.netns("tx"), lab.netns("rx")
    router, far = lab.netns("router", forwards=True), lab.netns("far", forwards=True)
    lab.link(tx, "eth0", router, "lan", "198.18.1.2/24", "198.18.1.1/24")
    lab.link(router, "main", far, "main", "198.18.3.1/24", "198.18.3.2/24")
    lab.link(router, "spare", far, "spare", "198.18.4.1/24", "198.18.4.2/24")
    lab.link(far, "lan", rx, "eth0", "198.18.2.1/24", "198.18.2.2/24")
    router.run("ip", "route", "add", "198.18.2.0/24", "via", "198.18.3.2", "metric", "1")
    router.run("ip", "route", "add", "198.18.2.0/24", "via", "198.18.4.2", "metric", "2")
    tx.run("ip", "route", "add", "198.18.2.0/24", "via", "198.18.1.1")

    ends = tx.device("eth0"), rx.device("eth0")
    result = wirerate.measure(*ends, dst="198.18.2.2", pps="1k", count=1000)
    assert result.lost == 0 and result.latency.p99_ns < 50_000_000

    with wirerate.beside(wirerate.measure, *ends, dst="198.18.2.2", pps="1k", duration="2s") as run:
        time.sleep(1)
        router.run("ip", "link", "set", "main", "down")
        assert run.report().lost < 200, "the spare way is taken within 200 ms"
