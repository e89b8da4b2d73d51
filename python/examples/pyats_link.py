"""A burst over a link by pyATS's class for the Open Traffic Generator: python pyats_link.py, as root.

Needs genie.trafficgen 26.9, snappi and the wheel of wirerate. For a real device, name its ports in
the testbed instead of those of the lab. pyATS's own `check_traffic_loss` needs minutes, so the
counts are read.
"""
import subprocess

from genie.trafficgen.otg import Otg
from pyats.topology import loader

import wirerate

TESTBED = """
devices:
  otg:
    os: otg
    type: tgn
    connections:
      defaults: {{class: genie.trafficgen.otg.Otg, via: tgn}}
      tgn: {{class: genie.trafficgen.otg.Otg, transport: http, location: "http://{address}"}}
topology:
  otg:
    interfaces:
      p1: {{type: ethernet, location: "{tx}"}}
      p2: {{type: ethernet, location: "{rx}"}}
"""


def burst(tgn: Otg) -> dict[str, float]:
    """Sends 100 frames from p1 to p2 and returns the counts of the flow."""
    tgn.connect()
    tgn.configure_ipv4_data_traffic(
        interface="p1", rx_interface="p2", src_ip="198.18.0.1", dst_ip="198.18.0.2", l4_protocol="udp",
        transmit_mode="single_burst", pkts_per_burst=100, pps=1000, flow_name="f")
    tgn.start_traffic(wait_time=1)
    tgn.stop_traffic()
    counts = tgn.get_stats("Flow Statistics")["f"]
    tgn.disconnect()
    return counts


def device(address: str, tx: str, rx: str) -> Otg:
    """The generator of a testbed."""
    otg = loader.load(TESTBED.format(address=address, tx=tx, rx=rx)).devices.otg
    otg.instantiate(via="tgn", alias="tgn")
    return otg.tgn


with wirerate.Lab() as lab:
    left, right = lab.netns("left"), lab.netns("right")
    lab.link(left, "eth0", right, "eth0")
    command = [wirerate.program(), "otg", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = next(line for line in server.stderr if line.startswith("listening on "))
            counts = burst(device(line.split()[2], left.device("eth0"), right.device("eth0")))
        finally:
            server.terminate()
print(counts["Tx Frames"], "sent", counts["Rx Frames"], "received")
assert (counts["Tx Frames"], counts["Rx Frames"]) == (100, 100)
