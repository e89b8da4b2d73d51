"""Drives `wirerate otg` with snappi between two ports, and prints what it saw as one line of JSON.

script.py NAME LOCATION TRANSPORT TX RX [TX RX]
"""
import json
import statistics
import struct
import subprocess
import sys
import time

import snappi
import urllib3

urllib3.disable_warnings()
NAME, LOCATION, TRANSPORT, TX, RX, *MORE = sys.argv[1:]
SECONDS_MAX = 60


def connect(location=LOCATION, transport=TRANSPORT):
    api = snappi.api(location=location, transport=transport, verify=False, version_check=True)
    if transport == "grpc":
        api.request_timeout = SECONDS_MAX
    return api


def config(api):
    config = api.config()
    config.ports.add(name="tx", location=TX)
    config.ports.add(name="rx", location=RX)
    return config


def flow(config, name, count, size=64, pps=2000, tx="tx", rx="rx"):
    flow = config.flows.add(name=name)
    flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = tx, [rx]
    flow.metrics.enable, flow.metrics.loss = True, True
    flow.rate.pps, flow.size.fixed = pps, size
    if count:
        flow.duration.fixed_packets.packets = count
    return flow


def udp(flow):
    ethernet, ip, udp = flow.packet.ethernet().ipv4().udp()
    ethernet.src.value, ethernet.dst.value = "02:00:00:00:00:01", "02:00:00:00:00:02"
    ip.src.value, ip.dst.value = "198.18.0.1", "198.18.0.2"
    return ethernet, ip, udp


def transmit(api, state, names=()):
    control = api.control_state()
    control.traffic.flow_transmit.state = state
    control.traffic.flow_transmit.flow_names = list(names)
    return list(api.set_control_state(control).warnings)


def capture(api, state):
    control = api.control_state()
    control.port.capture.state = state
    api.set_control_state(control)


def rows(api):
    request = api.metrics_request()
    request.flow.flow_names = []
    return {row.name: row for row in api.get_metrics(request).flow_metrics}


def ports(api):
    request = api.metrics_request()
    request.port.port_names = []
    return {row.name: row for row in api.get_metrics(request).port_metrics}


def until(what, condition):
    end = time.time() + SECONDS_MAX
    while time.time() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.05)
    raise SystemExit("waited %d s for %s" % (SECONDS_MAX, what))


def stopped(api):
    def all_stopped():
        found = rows(api)
        return found if all(row.transmit == "stopped" for row in found.values()) else None
    return until("all flows to be stopped", all_stopped)


def frames(api):
    """Frames of a pcap file: bytes with FCS."""
    request = api.capture_request()
    request.port_name = "rx"
    data = api.get_capture(request).read()
    found, at = [], 24
    while at < len(data):
        length = int.from_bytes(data[at + 8:at + 12], "little")
        found.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return found


def counts():
    """Exact counts in the first answer that says stopped; a second start begins at 0."""
    api = connect()
    cfg = config(api)
    udp(flow(cfg, "there", 1000))
    udp(flow(cfg, "back", 7, size=200, tx="rx", rx="tx"))
    warnings = list(api.set_config(cfg).warnings)
    seen = []
    for _ in range(2):
        transmit(api, "start")
        seen.append({name: [row.frames_tx, row.frames_rx, row.bytes_tx, row.bytes_rx, row.loss]
                     for name, row in stopped(api).items()})
    port = ports(api)["tx"]
    return {"warnings": warnings, "seen": seen, "port": [port.frames_tx, port.frames_rx]}


def captured():
    """Frames as a client sees them: patterns, lengths, FCS."""
    api = connect()
    cfg = config(api)
    cfg.captures.add(name="cap", port_names=["rx"])
    one = flow(cfg, "one", 5, size=128)
    _, ip, transport = udp(one)
    ip.src.increment.start, ip.src.increment.step, ip.src.increment.count = "198.18.0.250", "0.0.0.3", 4
    transport.src_port.values = [7, 9]
    api.set_config(cfg)
    capture(api, "start")
    transmit(api, "start")
    stopped(api)
    capture(api, "stop")
    return [{"length": len(frame), "total_length": int.from_bytes(frame[16:18], "big"),
             "source": frame[29], "port": int.from_bytes(frame[34:36], "big"), "frame": frame.hex()}
            for frame in frames(api)]


def control():
    """Pause keeps the place, resume goes on, a stop is final, a rate changes in flight."""
    api = connect()
    cfg = config(api)
    udp(flow(cfg, "f", None, pps=2000))
    api.set_config(cfg)
    transmit(api, "start")
    until("frames", lambda: rows(api)["f"].frames_rx > 100)
    transmit(api, "pause")
    paused = rows(api)["f"]
    transmit(api, "resume")
    until("more frames", lambda: rows(api)["f"].frames_rx > paused.frames_rx)
    update = api.config_update()
    update.flows.property_names = ["rate"]
    [changed] = cfg.flows
    changed.rate.pps = 500
    update.flows.flows.append(changed)
    api.update_config(update)
    updated = rows(api)["f"]
    until("frames at the new rate", lambda: rows(api)["f"].frames_rx > updated.frames_rx + 10)
    transmit(api, "stop")
    row = rows(api)["f"]
    return {"paused": [paused.transmit, paused.frames_tx == paused.frames_rx],
            "stopped": [row.transmit, row.frames_tx == row.frames_rx, row.frames_tx > paused.frames_tx],
            "rate": api.get_config().flows[0].rate.pps}


def mesh():
    """Flows with the same headers are told apart."""
    api = connect()
    cfg = config(api)
    for number in range(32):
        udp(flow(cfg, "there%d" % number, 10, pps=50))
        udp(flow(cfg, "back%d" % number, 10, pps=50, tx="rx", rx="tx"))
    api.set_config(cfg)
    transmit(api, "start")
    found = stopped(api)
    return [len(found), sorted({(row.frames_tx, row.frames_rx) for row in found.values()})]


def sends(count):
    """Flows with latency that no port of the configuration receives."""
    api = connect()
    cfg = api.config()
    cfg.ports.add(name="tx", location=TX)
    for number in range(count):
        one = flow(cfg, "f%d" % number, 100, pps=1000)
        one.tx_rx.port.rx_names = []
        one.metrics.latency.enable = True
        udp(one)
    warnings = list(api.set_config(cfg).warnings)
    transmit(api, "start")
    stopped(api)
    return warnings


def sends_one():
    return sends(1)


def sends_ten():
    return sends(10)


def times():
    """Latency and time stamps where a flow asks for them, of each of its sizes; exact bytes."""
    api = connect()
    cfg = config(api)
    for name in "plain", "timed":
        one = flow(cfg, name, 300, pps=1000)
        udp(one)
        one.size.weight_pairs.custom.add(size=100, weight=1)
        one.size.weight_pairs.custom.add(size=200, weight=2)
    timed = cfg.flows[1].metrics
    timed.timestamps, timed.latency.enable = True, True
    timed.latency.mode = timed.latency.CUT_THROUGH
    warnings = list(api.set_config(cfg).warnings)
    seen = []
    for _ in range(2):
        before_ns = time.time_ns()
        transmit(api, "start")
        found = stopped(api)
        after_ns = time.time_ns()
        plain, timed = found["plain"], found["timed"]
        latency, times = timed.latency, timed.timestamps
        seen.append({
            "bytes": [row.bytes_rx - row.bytes_tx for row in (plain, timed)],
            "frames": [timed.frames_tx, timed.frames_rx],
            "plain": [plain.get("latency"), plain.get("timestamps")],
            "latency": 0 < latency.minimum_ns <= latency.average_ns <= latency.maximum_ns < 1e9,
            "differ": latency.minimum_ns < latency.maximum_ns,
            "times": before_ns < times.first_timestamp_ns < times.last_timestamp_ns < after_ns,
            # 299 ms, longer on a busy machine, and shorter if the first frame was late.
            "apart": times.last_timestamp_ns - times.first_timestamp_ns > 100e6,
        })
    return {"warnings": warnings, "seen": seen}


def number(frame):
    """The number in the mark of a frame with FCS."""
    return int.from_bytes(frame[-14:-10], "big")


def sizes():
    """Patterns and marks count the frames of a flow, whatever their sizes."""
    api = connect()
    seen = {}
    for name in ("increment", "random", "weight_pairs"):
        cfg = config(api)
        cfg.captures.add(name="cap", port_names=["rx"])
        one = flow(cfg, "one", 300)
        _, _, transport = udp(one)
        transport.src_port.increment.start, transport.src_port.increment.count = 1000, 300
        if name == "increment":
            one.size.increment.start, one.size.increment.end, one.size.increment.step = 100, 200, 50
        elif name == "random":
            one.size.random.min, one.size.random.max = 100, 900
        else:
            one.size.weight_pairs.predefined = "imix"
        api.set_config(cfg)
        capture(api, "start")
        transmit(api, "start")
        row = stopped(api)["one"]
        found = frames(api)
        seen[name] = {
            "counts": [row.frames_tx, row.frames_rx],
            "numbers": [number(frame) for frame in found] == list(range(300)),
            "ports": [int.from_bytes(frame[34:36], "big") for frame in found] == list(range(1000, 1300)),
            "lengths": all(int.from_bytes(frame[16:18], "big") == len(frame) - 18 for frame in found),
            "sizes": len({len(frame) for frame in found}),
        }
    return seen


def update():
    """Another size in flight: the numbers of the frames go on without a hole."""
    api = connect()
    cfg = config(api)
    cfg.captures.add(name="cap", port_names=["rx"])
    one = flow(cfg, "one", None, size=100, pps=2000)
    _, ip, _ = udp(one)
    ip.priority.dscp.phb.value = 46
    ip.priority.dscp.phb.metric_tags.add(name="dscp")
    api.set_config(cfg)
    capture(api, "start")
    transmit(api, "start")
    until("frames", lambda: rows(api)["one"].frames_rx > 100)

    def resize():
        change = api.config_update()
        change.flows.property_names = ["size"]
        change.flows.flows.append(one)
        api.update_config(change)
        before = rows(api)["one"].frames_rx
        until("frames of the new sizes", lambda: rows(api)["one"].frames_rx > before + 100)

    one.size.increment.start, one.size.increment.end, one.size.increment.step = 200, 400, 100
    resize()
    one.size.fixed = 300
    resize()
    transmit(api, "stop")
    row = rows(api)["one"]
    found = frames(api)
    [value] = row.tagged_metrics
    return {"counts": row.frames_tx == row.frames_rx == len(found),
            "numbers": [number(frame) for frame in found] == list(range(len(found))),
            "sizes": sorted({len(frame) for frame in found}),
            "tagged": [value.frames_tx == row.frames_tx, value.bytes_rx == row.bytes_rx, value.get("bytes_tx")]}


def device(cfg, name, port, mac, addresses):
    """An emulated interface: its addresses are pairs of an own one and a gateway."""
    ethernet = cfg.devices.add(name=name).ethernets.add(name="eth-" + name, mac=mac)
    ethernet.connection.port_name = port
    for own, gateway in addresses:
        if ":" in own:
            ethernet.ipv6_addresses.add(name=name + "-6", address=own, gateway=gateway)
        else:
            ethernet.ipv4_addresses.add(name=name + "-4", address=own, gateway=gateway)


def neighbours(api, version):
    request = api.states_request()
    request.choice = "ipv%d_neighbors" % version
    answer = api.get_states(request)
    rows = answer.ipv4_neighbors if version == 4 else answer.ipv6_neighbors
    return {row.ethernet_name: row.link_layer_address for row in rows}


def device_flow(cfg, name, tx, rx, count=20):
    one = flow(cfg, name, count, size=100)
    one.tx_rx.device.tx_names, one.tx_rx.device.rx_names = [tx], [rx]
    return one


def devices():
    """Interfaces of two ports resolve each other; a gateway that is not there is named at start."""
    api = connect()
    cfg = config(api)
    cfg.captures.add(name="cap", port_names=["rx"])
    device(cfg, "a", "tx", "02:00:00:00:0a:01", [("198.18.7.1", "198.18.7.2"), ("2001:db8:7::1", "2001:db8:7::2")])
    device(cfg, "b", "rx", "02:00:00:00:0b:02", [("198.18.7.2", "198.18.7.1"), ("2001:db8:7::2", "2001:db8:7::1")])
    for version in (4, 6):
        one = device_flow(cfg, "v%d" % version, "a-%d" % version, "b-%d" % version)
        if version == 4:
            one.packet.ethernet().ipv4().udp()
        else:
            one.packet.ethernet().ipv6().udp()
    api.set_config(cfg)
    known = [until("neighbours", lambda: all((found := neighbours(api, version)).values()) and found)
             for version in (4, 6)]
    capture(api, "start")
    transmit(api, "start")
    counts = {name: [row.frames_tx, row.frames_rx] for name, row in stopped(api).items()}
    destinations = sorted({frame[:6].hex(":") for frame in frames(api) if frame[6:12] == bytes(6)})
    device(cfg, "c", "tx", "02:00:00:00:0a:03", [("198.18.8.1", "198.18.8.2")])
    device_flow(cfg, "lost", "c-4", "b-4").packet.ethernet().ipv4()
    api.set_config(cfg)
    refusal = None
    try:
        transmit(api, "start")
    except Exception as error:
        refusal = api.from_exception(error).errors
    return {"neighbours": known, "counts": counts, "destinations": destinations, "refusal": refusal}


def vlans():
    """Interfaces behind tags resolve each other, and the frames of their flows have the tags."""
    api = connect()
    cfg = config(api)
    cfg.captures.add(name="cap", port_names=["rx"])
    stacks = {"a": [("x8100", 5)], "q": [("x88A8", 7), ("x8100", 9)]}
    for number, (name, tags) in enumerate(stacks.items()):
        for side, port in ((1, "tx"), (2, "rx")):
            # The same addresses in both VLANs.
            addresses = [("198.18.7.%d" % end, "198.18.7.%d" % (3 - end)) for end in (side,)]
            addresses += [("2001:db8:7::%d" % end, "2001:db8:7::%d" % (3 - end)) for end in (side,)]
            device(cfg, name + port, port, "02:00:00:00:%02x:%02x" % (number, side), addresses)
            for at, (tpid, vlan) in enumerate(tags):
                cfg.devices[-1].ethernets[0].vlans.add(
                    name="%s%s%d" % (name, port, at), tpid=tpid, priority=3, id=vlan)
        for version in (4, 6):
            one = device_flow(cfg, "%s%d" % (name, version), "%stx-%d" % (name, version),
                              "%srx-%d" % (name, version))
            headers = one.packet.ethernet()
            (headers.ipv4() if version == 4 else headers.ipv6()).udp()
    api.set_config(cfg)
    known = [until("neighbours", lambda: all((found := neighbours(api, version)).values()) and found)
             for version in (4, 6)]
    capture(api, "start")
    transmit(api, "start")
    counts = {name: [row.frames_tx, row.frames_rx] for name, row in stopped(api).items()}
    seen = {frame[:6].hex() + " " + frame[12:14 + 4 * (2 if frame[12] == 0x88 else 1)].hex()
            for frame in frames(api) if frame[6:12] == bytes(6)}
    return {"known": known[0] == known[1] and known[0], "counts": counts, "frames": sorted(seen)}


def tagged(row):
    """The rows of a flow by the values of its tags."""
    def value(tag):
        return tag.value.hex if tag.value.choice == "hex" else tag.value.str
    return {" ".join(tag.name + "=" + value(tag) for tag in one.tags):
            [one.get("frames_tx"), one.frames_rx, one.get("bytes_tx"), one.bytes_rx, one.get("loss")]
            for one in row.tagged_metrics}


def tags():
    """Frames are counted by the values that they arrive with, by port, and as the client asks."""
    api = connect()
    cfg = config(api)
    udp_flow = flow(cfg, "sent", 300)
    _, ip, transport = udp(udp_flow)
    ip.priority.dscp.phb.values = [0, 10, 46]
    ip.priority.dscp.phb.metric_tags.add(name="dscp", offset=0, length=6)
    transport.dst_port.increment.start, transport.dst_port.increment.count = 7, 2
    transport.dst_port.metric_tags.add(name="low", offset=15, length=1)
    udp_flow.metrics.latency.enable, udp_flow.metrics.timestamps = True, True
    # The frames have a tag that these headers do not have: what counts is what arrives.
    changed = flow(cfg, "changed", 50, size=100)
    headers = changed.packet.ethernet().vlan().ipv4().udp()
    headers[1].id.value = 100
    changed.egress_packet.ethernet()[-1].ether_type.metric_tags.add(name="type")
    ports_of = flow(cfg, "ports", 20)
    ports_of.tx_rx.port.rx_names = ["rx", "tx"]
    ports_of.metrics.predefined_metric_tags.rx_name = True
    udp(ports_of)
    cfg.egress_only_tracking.add(port_name="rx", enable_timestamps=True)
    cfg.egress_only_tracking[0].metric_tags.add(name="any", rx_offset=96, length=16)
    warnings = list(api.set_config(cfg).warnings)
    seen = []
    for _ in range(2):
        transmit(api, "start")
        found = stopped(api)
        seen.append({name: tagged(row) for name, row in found.items()})
    first = found["sent"].tagged_metrics[0]
    request = api.metrics_request()
    request.flow.flow_names = ["sent"]
    request.flow.tagged_metrics.metric_names = ["frames_rx"]
    request.flow.tagged_metrics.filters.add(name="dscp", values=["2e"])
    [row] = api.get_metrics(request).flow_metrics
    filtered = [[tag.value.hex for tag in one.tags] + [one.frames_rx, one.get("frames_tx")]
                for one in row.tagged_metrics]
    request = api.metrics_request()
    request.egress_only_tracking.port_names = []
    [egress] = api.get_metrics(request).egress_only_tracking_metrics
    return {"warnings": warnings, "same": seen[0] == seen[1], "seen": seen[0], "filtered": filtered,
            "latency": 0 < first.latency.minimum_ns <= first.latency.average_ns <= first.latency.maximum_ns,
            "times": 0 < first.timestamps.first_timestamp_ns <= first.timestamps.last_timestamp_ns,
            "port": egress.port_rx,
            "egress": {row.tags[0].value: [row.frames_rx, row.bytes_rx] for row in egress.tagged_metrics},
            # A busy machine may send too slowly, which is not what is tried here.
            "warned": [text for text in transmit(api, "stop") if ", reached " not in text]}


def copies():
    """The loss of flows of which more than one copy, or less, is to arrive."""
    api = connect()
    cfg = config(api)
    for name, ratio in (("twice", 2.0), ("half", 0.5), ("each", None)):
        one = flow(cfg, name, 100)
        udp(one)
        one.tx_rx.port.rx_names = ["rx", "tx"]
        if ratio:
            one.metrics.rx_tx_ratio.value = ratio
        else:
            one.metrics.rx_tx_ratio.rx_count
    api.set_config(cfg)
    transmit(api, "start")
    return {name: [row.frames_tx, row.frames_rx, row.loss] for name, row in stopped(api).items()}


def ping():
    """Emulated interfaces ping each other, also through a gateway; a host that is not there fails."""
    api = connect()
    cfg = config(api)
    device(cfg, "a", "tx", "02:00:00:00:0a:01", [("198.18.7.1", "198.18.7.2"), ("2001:db8:7::1", "2001:db8:7::2")])
    device(cfg, "b", "rx", "02:00:00:00:0b:02", [("198.18.7.2", "198.18.7.1"), ("2001:db8:7::2", "2001:db8:7::1")])
    for ethernet in (cfg.devices[0].ethernets[0], cfg.devices[1].ethernets[0]):
        ethernet.vlans.add(name=ethernet.name + "-vlan", id=9)
    api.set_config(cfg)
    seen = []
    for version, hosts in ((4, ("198.18.7.2", "198.18.7.3")), (6, ("2001:db8:7::2", "2001:db8:9::1"))):
        action = api.control_action()
        pings = (action.protocol.ipv4 if version == 4 else action.protocol.ipv6).ping
        for address in hosts:
            pings.requests.add(src_name="a-%d" % version, dst_ip=address)
        answer = api.set_control_action(action).response.protocol
        answer = answer.ipv4 if version == 4 else answer.ipv6
        seen.append([[one.src_name, one.dst_ip, one.result] for one in answer.ping.responses])
    action = api.control_action()
    action.protocol.ipv4.ping.requests.add(src_name="nope", dst_ip="198.18.7.2")
    try:
        api.set_control_action(action)
        refused = None
    except Exception as error:
        refused = api.from_exception(error).errors
    return {"seen": seen, "refused": refused}


def host():
    """The gateway is the kernel of the receiving end: it answers, and it is answered."""
    api = connect()
    cfg = api.config()
    cfg.ports.add(name="tx", location=TX)
    device(cfg, "a", "tx", "02:00:00:00:0a:01", [("198.18.0.9", "198.18.0.2"), ("2001:db8::9", "2001:db8::2")])
    api.set_config(cfg)
    return [until("the host to answer", lambda: neighbours(api, version).get("eth-a")) for version in (4, 6)]


def link():
    """A link goes down and up: its row says so, nothing is sent meanwhile, an empty configuration restores it."""
    api = connect()
    cfg = config(api)
    udp(flow(cfg, "f", None, pps=500))
    api.set_config(cfg)
    before = ports(api)["tx"]

    def set_link(state):
        control = api.control_state()
        control.port.link.port_names, control.port.link.state = ["tx"], state
        api.set_control_state(control)
        return until("the link to be " + state, lambda: (row := ports(api)["tx"]).link == state and row)

    down = set_link("down")
    refused = None
    try:
        transmit(api, "start")
    except Exception as error:
        refused = api.from_exception(error).errors[0]
    sent = ports(api)["tx"].frames_tx
    up = set_link("up")
    set_link("down")
    api.set_config(api.config())
    return {"links": [before.link, down.link, up.link], "speed": before.speed, "sent": sent,
            "is_now": abs(down.last_change / 1e9 - time.time()) < 60, "grows": up.last_change > down.last_change,
            "names": "down" in (refused or "")}


def several():
    """Frames count at all receiving ports of a flow, at none, and not at other ones."""
    api = connect()
    cfg = config(api)
    udp(flow(cfg, "both", 50))
    cfg.flows[0].tx_rx.port.rx_names = ["rx", "tx"]
    udp(flow(cfg, "none", 50))
    cfg.flows[1].tx_rx.port.rx_names = []
    udp(flow(cfg, "other", 50))
    cfg.flows[2].tx_rx.port.rx_names = ["tx"]
    api.set_config(cfg)
    transmit(api, "start")
    return {name: [row.frames_tx, row.frames_rx, row.port_rx] for name, row in stopped(api).items()}


def asking():
    """Rows in the order asked for, with the columns asked for; unknown names are refused by name."""
    api = connect()
    cfg = config(api)
    for name in "abc":
        udp(flow(cfg, name, 1))
    api.set_config(cfg)
    request = api.metrics_request()
    request.flow.flow_names, request.flow.metric_names = ["c", "a"], ["frames_tx"]
    found = api.get_metrics(request).flow_metrics
    columns = [[row.name, row.frames_tx, row.get("frames_rx")] for row in found]
    request.flow.flow_names = ["c", "nope"]
    try:
        api.get_metrics(request)
        refused = None
    except Exception as error:
        refused = list(api.from_exception(error).errors)
    request = api.metrics_request()
    request.port.port_names, request.port.column_names = ["rx"], ["link"]
    port = [[row.name, row.link, row.get("frames_tx")] for row in api.get_metrics(request).port_metrics]
    transmit(api, "start", ["b"])
    started = {name: [row.frames_tx, row.frames_rx] for name, row in stopped(api).items()}
    api.set_config(api.config())
    return {"columns": columns, "refused": refused, "port": port, "started": started, "rows": len(rows(api))}


def convoys():
    """Flows of one rate send their first frames one after the other, spread over the gap of the rate."""
    api = connect()
    cfg = config(api)
    cfg.captures.add(name="cap", port_names=["rx"], format="pcap")
    for index in range(64):
        udp(flow(cfg, "f%d" % index, 10, pps=10))
    api.set_config(cfg)
    capture(api, "start")
    transmit(api, "start")
    found = stopped(api)
    first = [time_s for time_s, frame in timed_frames(api) if number(frame) == 0]
    return {"counts": sorted({(row.frames_tx, row.frames_rx) for row in found.values()}),
            "flows": len(first), "spread_s": max(first) - min(first)}


def timed_frames(api):
    """Times and frames of a pcap file."""
    request = api.capture_request()
    request.port_name = "rx"
    data = api.get_capture(request).read()
    at = 24
    while at < len(data):
        seconds, micros, length = struct.unpack("<III", data[at:at + 12])
        yield seconds + micros / 1e6, data[at + 16:at + 16 + length]
        at += 16 + length


def final():
    """A stop is final: counts agree in the next answer, and the next run begins with frame 0."""
    api = connect()
    cfg = config(api)
    cfg.captures.add(name="cap", port_names=["rx"])
    udp(flow(cfg, "f", None, pps=20000))
    api.set_config(cfg)
    agree, first = [], []
    for _ in range(5):
        capture(api, "start")
        transmit(api, "start")
        until("frames", lambda: rows(api)["f"].frames_rx > 100)
        transmit(api, "stop")
        row = rows(api)["f"]
        agree.append(row.transmit == "stopped" and row.frames_tx == row.frames_rx)
        first.append(number(frames(api)[0]))
    return [agree, first]


def leaves():
    """Starts a run and goes away."""
    api = connect()
    cfg = config(api)
    udp(flow(cfg, "f", 3000, pps=2000))
    api.set_config(cfg)
    transmit(api, "start")
    return rows(api)["f"].transmit


def returns():
    """Another client sees the end of that run."""
    row = stopped(connect())["f"]
    return [row.frames_tx, row.frames_rx]


def replaced():
    """A configuration set while frames are sent ends the run; the next one counts from 0."""
    api = connect()
    cfg = config(api)
    udp(flow(cfg, "old", None, pps=5000))
    api.set_config(cfg)
    seen = []
    for name in ("new", "newer"):
        transmit(api, "start")
        until("frames", lambda: next(iter(rows(api).values())).frames_rx > 100)
        cfg = config(api)
        udp(flow(cfg, name, 100))
        api.set_config(cfg)
        seen.append({name: [row.frames_tx, row.frames_rx, row.transmit] for name, row in rows(api).items()})
        transmit(api, "start")
        seen.append({name: [row.frames_tx, row.frames_rx, row.transmit] for name, row in stopped(api).items()})
        cfg = config(api)
        udp(flow(cfg, "again", None, pps=5000))
        api.set_config(cfg)
    api.set_config(api.config())
    return seen


def two_clients():
    """One client polls while another one sets, starts and stops: no errors, never more received than sent."""
    import threading
    api, other = connect(), connect()
    wrong, polls, done = [], [0], threading.Event()

    def poll():
        while not done.is_set():
            try:
                for row in rows(other).values():
                    if row.frames_rx > row.frames_tx:
                        wrong.append([row.frames_tx, row.frames_rx])
                polls[0] += 1
            except Exception as error:
                wrong.append(str(error))

    thread = threading.Thread(target=poll)
    thread.start()
    for _ in range(4):
        cfg = config(api)
        udp(flow(cfg, "there", None, pps=5000))
        udp(flow(cfg, "back", None, pps=5000, tx="rx", rx="tx"))
        api.set_config(cfg)
        transmit(api, "start")
        time.sleep(0.3)
        transmit(api, "stop")
    done.set()
    thread.join()
    return {"wrong": wrong[:3], "polled": polls[0] > 4}


def hostile():
    """Configurations that are wrong somewhere are answered with an error or taken; the server stays."""
    import random
    import urllib.error
    import urllib.request
    api = connect()
    cfg = config(api)
    for name in "ab":
        _, ip, transport = udp(flow(cfg, name, 10))
        ip.src.increment.start, ip.src.increment.count = "198.18.0.7", 3
        transport.src_port.values = [1, 2, 3]
    good = cfg.serialize(cfg.JSON)
    random.seed(7)
    odd = ["-1", "1e400", "null", "{}", "[]", "\"x\"", "18446744073709551616", "true", "\"\\u0000\"", "[" * 200 + "]" * 200]
    answers, url = {}, LOCATION + "/config"
    for _ in range(300):
        text = good
        kind = random.randrange(3)
        if kind == 0:
            text = text[:random.randrange(len(text))]
        elif kind == 1:
            at = random.choice([place for place in range(len(text)) if text[place] == ":"])
            end = min(place for place in (text.find(",", at), text.find("}", at), len(text)) if place > 0)
            text = text[:at + 1] + random.choice(odd) + text[end:]
        else:
            at = random.randrange(len(text))
            text = text[:at] + chr(random.randrange(32, 127)) + text[at + 1:]
        request = urllib.request.Request(url, text.encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                body, status = json.loads(answer.read()), answer.status
        except urllib.error.HTTPError as error:
            body, status = json.loads(error.read()), error.code
            if not body.get("errors"):
                return "an error without a text: %s for %s" % (body, text)
        answers[status] = answers.get(status, 0) + 1
    api.set_config(cfg)
    transmit(api, "start")
    counts = sorted((row.frames_tx, row.frames_rx) for row in stopped(api).values())
    return {"statuses": sorted(answers), "counts": counts}


def transports():
    """One configuration by each transport: the same read back, the same counts, the same frames. Where
    messages are streamed, configuration and capture are longer than a chunk.
    """
    seen = []
    for location, transport, streams in (
            ("http://" + LOCATION, "http", False), ("https://" + LOCATION, "http", False),
            (LOCATION, "grpc", False), (LOCATION, "grpc", True)):
        api = connect(location, transport)
        if streams:
            # Its own least is 1 MiB, of which snappi makes YAML for its log.
            api.enable_grpc_streaming, api._chunk_size = True, 1 << 16
        cfg = config(api)
        cfg.captures.add(name="cap", port_names=["rx"])
        few = flow(cfg, "few", 5, size=128)
        _, ip, _ = udp(few)
        ip.src.values = ["198.18.0.%d" % (index + 1) for index in range(4)]
        # The payload is zeros, however long its pattern is.
        few.payload.fixed.pattern = "00" * (50000 if streams else 1)
        udp(flow(cfg, "many", 1000 if streams else 10, size=1518, pps=20000))
        api.set_config(cfg)
        is_same = api.get_config().serialize("dict") == cfg.serialize("dict")
        capture(api, "start")
        transmit(api, "start")
        rows = stopped(api)
        found = frames(api)
        seen.append({
            "config": is_same,
            "counts": {name: row.frames_tx == row.frames_rx for name, row in rows.items()},
            "few": [rows["few"].frames_rx, rows["few"].bytes_rx],
            "many": len([frame for frame in found if len(frame) == 1518]) == rows["many"].frames_tx,
            # Without the mark, which has the numbers of flow and run, and the checksum that covers it.
            "frames": [(frame[:40] + frame[42:-22]).hex() for frame in found if len(frame) == 128],
        })
    return seen


def other_version():
    """A client of another major version refuses this server by itself."""
    api = connect()
    api.get_local_version().api_spec_version = "2.0.0"
    try:
        api.set_config(config(api))
    except Exception as error:
        return "2.0.0" in str(error)
    return False


def append_delete():
    """A flow is added, started and removed while another one is sent, which goes on."""
    api = connect()
    cfg = config(api)
    udp(flow(cfg, "a", None, pps=2000))
    api.set_config(cfg)
    transmit(api, "start")
    until("frames", lambda: rows(api)["a"].frames_rx > 100)

    def added(name):
        append, more = api.config_append(), config(api)
        udp(flow(more, name, 100))
        append.config_append_list.add().flows.append(more.flows[0])
        return api.append_config(append)

    def removed(name):
        delete = api.config_delete()
        delete.config_delete_list.add().flows = [name]
        return api.delete_config(delete)

    def refusal(change, name):
        try:
            change(name)
        except Exception as error:
            return list(api.from_exception(error).errors)
        return None

    def names():
        return [flow.name for flow in api.get_config().flows]

    def goes_on(frames):
        """The first flow is sent, and its counts are not below those of before."""
        row = until("more frames", lambda: (row := rows(api)["a"]).frames_rx > frames and row)
        return row.transmit == "started" and row.frames_rx > frames

    before = rows(api)["a"].frames_rx
    warnings = list(added("b").warnings)
    waits = rows(api)["b"].transmit
    seen = [names(), goes_on(before)]
    transmit(api, "start", ["b"])
    row = until("the end of b", lambda: (row := rows(api)["b"]).transmit == "stopped" and row)
    before = rows(api)["a"].frames_rx
    refused = [refusal(added, "b"), refusal(removed, "nope")]
    removed("b")
    seen += [names(), goes_on(before)]
    transmit(api, "stop")
    last = rows(api)["a"]
    return {"warnings": warnings, "waits": waits, "seen": seen, "b": [row.frames_tx, row.frames_rx],
            "refused": refused, "last": last.frames_tx == last.frames_rx}


def layer1():
    """A share of the line depends on its speed, the longest frame on the MTU."""
    api = connect()

    def refusal(cfg):
        try:
            return list(api.set_config(cfg).warnings)
        except Exception as error:
            return list(api.from_exception(error).errors)

    counts, missed = [], []
    for speed in ("speed_1_gbps", "speed_10_gbps", "speed_100_gbps"):
        cfg = config(api)
        cfg.layer1.add(name="line", port_names=["tx"], speed=speed)
        # 125 bytes on the line, so 1 Gbit/s has a million of them per second.
        one = flow(cfg, "f", None, size=105)
        udp(one)
        one.rate.percentage = 0.01
        one.duration.fixed_seconds.seconds = 0.5
        api.set_config(cfg)
        transmit(api, "start")
        row = stopped(api)["f"]
        counts.append([row.frames_tx, row.frames_rx])
        missed.append(transmit(api, "stop"))

    def jumbo(mtu):
        cfg = config(api)
        if mtu:
            cfg.layer1.add(name="line", port_names=["tx"], mtu=mtu)
        udp(flow(cfg, "f", 20, size=9000))
        return cfg

    refused = refusal(jumbo(None))
    short = config(api)
    short.layer1.add(name="line", port_names=["tx"], mtu=9200)
    warned = refusal(short)
    # Programs of receivers bound the MTU of a veth.
    api.set_config(api.config())
    for port in (TX, RX):
        netns, device = port.split("/")
        subprocess.run(["ip", "-n", netns, "link", "set", device, "mtu", "9200"], check=True)
    warnings = refusal(jumbo(9200))
    transmit(api, "start")
    row = stopped(api)["f"]
    return {"counts": counts, "missed": missed, "refused": refused, "warned": warned,
            "warnings": warnings, "jumbo": [row.frames_tx, row.frames_rx, row.bytes_rx]}


def bursts():
    """Frames come in groups, with the gap in bytes, nanoseconds or microseconds between them; a flow
    with a delay begins later.
    """
    api = connect()
    cfg = config(api)
    cfg.layer1.add(name="line", port_names=["tx"], speed="speed_1_gbps")
    cfg.captures.add(name="cap", port_names=["rx"])
    # 200 ms each.
    gaps = {"bytes": 25000000, "nanoseconds": 2e8, "microseconds": 2e5}
    for index, (unit, gap) in enumerate(gaps.items()):
        one = flow(cfg, unit, None, pps=10000)
        udp(one)[2].dst_port.value = index
        burst = one.duration.burst
        burst.bursts, burst.packets = 3, 5
        setattr(burst.inter_burst_gap, unit, gap)
    late = flow(cfg, "late", 3, pps=10000)
    udp(late)[2].dst_port.value = 3
    late.duration.fixed_packets.delay.microseconds = 2e5
    api.set_config(cfg)
    seen = None
    # A machine that gives the sender no time spoils a run, not each one.
    for _ in range(5):
        seen = burst_times(api, list(gaps))
        if all(within < 0.02 and 0.18 < between < 0.22 for within, between in seen["medians"].values()):
            break
    return seen


def burst_times(api, units):
    """Counts of flows of bursts, and half of their waits within and between bursts."""
    capture(api, "start")
    transmit(api, "start")
    counts = {name: [row.frames_tx, row.frames_rx] for name, row in stopped(api).items()}
    times = {index: [] for index in range(len(units) + 1)}
    for time_s, frame in timed_frames(api):
        times[int.from_bytes(frame[36:38], "big")].append(time_s)
    medians = {}
    for index, unit in enumerate(units):
        waits = [after - before for before, after in zip(times[index], times[index][1:])]
        between = [waits[place] for place in range(4, len(waits), 5)]
        within = [wait for place, wait in enumerate(waits) if place % 5 != 4]
        medians[unit] = [statistics.median(within), statistics.median(between)]
    first, late = min(times[index][0] for index in range(len(units))), times[len(units)][0]
    return {"counts": counts, "medians": medians, "delay": late - first}


def speed():
    """A million frames of 64 bytes at half a million per second."""
    api = connect()
    cfg = config(api)
    one = flow(cfg, "f", 1000000, pps=500000)
    udp(one)
    one.metrics.timestamps, one.metrics.latency.enable = True, True
    api.set_config(cfg)
    transmit(api, "start")
    row = stopped(api)["f"]
    times = row.timestamps
    return {"counts": [row.frames_tx, row.frames_rx, row.loss], "latency_ns": row.latency.average_ns,
            "seconds": (times.last_timestamp_ns - times.first_timestamp_ns) / 1e9}


def chain():
    """Two pairs of ports, on up to three hosts: a flow on each, and one back."""
    api = connect()
    cfg = config(api)
    for name, location in zip(("tx2", "rx2"), MORE):
        cfg.ports.add(name=name, location=location)
    udp(flow(cfg, "one", 300))
    udp(flow(cfg, "back", 200, tx="rx", rx="tx"))
    udp(flow(cfg, "two", 100, tx="tx2", rx="rx2"))
    api.set_config(cfg)
    transmit(api, "start")
    return {name: [row.frames_tx, row.frames_rx] for name, row in stopped(api).items()}


def rows_of_counts():
    """The rows of the flows of `counts`, as another client sees them."""
    return {name: [row.frames_tx, row.frames_rx, row.bytes_tx, row.bytes_rx, row.loss]
            for name, row in rows(connect()).items()}


print(json.dumps({function.__name__: function for function in (
    counts, captured, control, mesh, sizes, update, devices, vlans, tags, copies, ping, host, times, link,
    several, asking, convoys, final, leaves, returns, replaced, two_clients, hostile,
    sends_one, sends_ten, transports, other_version, append_delete, layer1, bursts, speed,
    chain, rows_of_counts)}[NAME]()))
