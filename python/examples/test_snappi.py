"""Loss and latency of a link by the Open Traffic Generator API: pytest test_snappi.py, as root.

Needs snappi and the wheel of wirerate. For a real device, name its ports instead of those of the lab.
"""
import subprocess

import pytest
import snappi


@pytest.fixture
def otg(wirerate):
    """A server for one test, at a free port, which the server prints."""
    command = [wirerate.program(), "otg", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        line = next(line for line in server.stderr if line.startswith("listening on "))
        yield snappi.api(location=f"http://{line.split()[2]}")
        server.terminate()


def test_a_link_loses_nothing(otg, wirerate_lab):
    left, right = wirerate_lab.netns("left"), wirerate_lab.netns("right")
    wirerate_lab.link(left, "eth0", right, "eth0")
    config = otg.config()
    config.ports.port(name="tx", location=left.device("eth0")).port(name="rx", location=right.device("eth0"))
    flow = config.flows.add(name="f")
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = "tx", ["rx"]
    flow.packet.ethernet().ipv4().udp()
    flow.duration.fixed_packets.packets, flow.rate.pps = 1000, 1000
    flow.metrics.enable = flow.metrics.loss = flow.metrics.latency.enable = True
    otg.set_config(config)

    state, request = otg.control_state(), otg.metrics_request()
    state.traffic.flow_transmit.state, request.flow.flow_names = "start", ["f"]
    otg.set_control_state(state)
    row = otg.get_metrics(request).flow_metrics[0]
    while row.transmit != "stopped":
        row = otg.get_metrics(request).flow_metrics[0]
    assert (row.frames_tx, row.frames_rx, row.loss) == (1000, 1000, 0)
    assert 0 < row.latency.minimum_ns <= row.latency.maximum_ns
    otg.set_config(otg.config())
