"""Two hosts behind VLAN tags ping each other and exchange frames of two priorities, by the Open
Traffic Generator API: pytest test_snappi_hosts.py, as root.

Needs snappi and the wheel of wirerate. For a real switch, name its ports instead of those of the lab.
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


@pytest.fixture
def config(otg, wirerate_lab):
    """Two hosts in VLAN 100, on the ends of a link."""
    left, right = wirerate_lab.netns("left"), wirerate_lab.netns("right")
    wirerate_lab.link(left, "eth0", right, "eth0")
    config = otg.config()
    for number, netns in ((1, left), (2, right)):
        port = config.ports.add(name=f"p{number}", location=netns.device("eth0"))
        host = config.devices.add(name=f"host{number}")
        ethernet = host.ethernets.add(name=f"eth{number}", mac=f"02:00:00:00:00:0{number}")
        ethernet.connection.port_name = port.name
        ethernet.vlans.add(name=f"vlan{number}", id=100)
        ethernet.ipv4_addresses.add(
            name=f"ip{number}", address=f"198.18.0.{number}", gateway=f"198.18.0.{3 - number}")
    return config


def test_a_host_answers_ping(otg, config):
    otg.set_config(config)
    action = otg.control_action()
    action.protocol.ipv4.ping.requests.add(src_name="ip1", dst_ip="198.18.0.2")
    answer = otg.set_control_action(action).response.protocol.ipv4.ping.responses[0]
    assert answer.result == "succeeded"


def test_both_priorities_arrive(otg, config):
    flow = config.flows.add(name="f")
    flow.tx_rx.device.tx_names, flow.tx_rx.device.rx_names = ["ip1"], ["ip2"]
    _, ip, _ = flow.packet.ethernet().ipv4().udp()
    ip.priority.dscp.phb.values = [0, 46]
    ip.priority.dscp.phb.metric_tags.add(name="dscp")
    flow.duration.fixed_packets.packets, flow.rate.pps = 1000, 1000
    flow.metrics.enable = flow.metrics.loss = True
    otg.set_config(config)

    state, request = otg.control_state(), otg.metrics_request()
    state.traffic.flow_transmit.state, request.flow.flow_names = "start", ["f"]
    otg.set_control_state(state)
    row = otg.get_metrics(request).flow_metrics[0]
    while row.transmit != "stopped":
        row = otg.get_metrics(request).flow_metrics[0]
    received = {one.tags[0].value.hex: (one.frames_tx, one.frames_rx) for one in row.tagged_metrics}
    assert received == {"0x0": (500, 500), "0x2e": (500, 500)}
