"""Drives `wirerate otg` with snappi between two ports, and prints what it saw as one line of JSON.

script.py NAME LOCATION TRANSPORT TX RX
"""
import json
import sys
import time

import snappi
import urllib3

urllib3.disable_warnings()
NAME, LOCATION, TRANSPORT, TX, RX = sys.argv[1:]
SECONDS_MAX = 60


def connect():
    api = snappi.api(location=LOCATION, transport=TRANSPORT, verify=False, version_check=True)
    if TRANSPORT == "grpc":
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
    udp(one)
    api.set_config(cfg)
    capture(api, "start")
    transmit(api, "start")
    until("frames", lambda: rows(api)["one"].frames_rx > 100)
    change = api.config_update()
    change.flows.property_names = ["size"]
    one.size.increment.start, one.size.increment.end, one.size.increment.step = 200, 400, 100
    change.flows.flows.append(one)
    api.update_config(change)
    before = rows(api)["one"].frames_rx
    until("frames of the new sizes", lambda: rows(api)["one"].frames_rx > before + 100)
    transmit(api, "stop")
    row = rows(api)["one"]
    found = frames(api)
    return {"counts": row.frames_tx == row.frames_rx == len(found),
            "numbers": [number(frame) for frame in found] == list(range(len(found))),
            "sizes": sorted({len(frame) for frame in found})}


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


def host():
    """The gateway is the kernel of the receiving end: it answers, and it is answered."""
    api = connect()
    cfg = api.config()
    cfg.ports.add(name="tx", location=TX)
    device(cfg, "a", "tx", "02:00:00:00:0a:01", [("198.18.0.9", "198.18.0.2"), ("2001:db8::9", "2001:db8::2")])
    api.set_config(cfg)
    return [until("the host to answer", lambda: neighbours(api, version).get("eth-a")) for version in (4, 6)]


print(json.dumps({function.__name__: function for function in (
    counts, captured, control, mesh, sizes, update, devices, host, times, sends_one, sends_ten)}[NAME]()))
