"""Calls the test's server with snappi and prints what came back, one line of JSON.

clients.py LOCATION TRANSPORT STREAMED
"""
import json
import sys

import snappi
import urllib3

urllib3.disable_warnings()
location, transport, streamed = sys.argv[1], sys.argv[2], sys.argv[3] == "streamed"
api = snappi.api(location=location, transport=transport, verify=False, version_check=True)
if transport == "grpc":
    api.request_timeout = 60
    if streamed:
        api.enable_grpc_streaming = True
        api.chunk_size = 0.0001  # megabytes: each body is cut into many chunks

config = api.config()
config.ports.add(name="p1", location="eth1")
flow = config.flows.add(name="f1")
flow.tx_rx.port.tx_name = "p1"
flow.rate.pps = 2**40
flow.packet.ethernet().ipv4().udp()
warning = api.set_config(config)
got = api.get_config()

request = api.metrics_request()
request.flow.flow_names = []
[row] = api.get_metrics(request).flow_metrics

capture = api.capture_request()
capture.port_name = "p1"
captured = api.get_capture(capture).read()

try:
    state = api.control_state()
    state.traffic.flow_transmit.state = "stop"
    api.set_control_state(state)
    refused = None
except Exception as error:
    parsed = api.from_exception(error)
    refused = {"code": parsed.code, "kind": parsed.kind, "errors": list(parsed.errors)}

print(json.dumps({
    "warnings": list(warning.warnings),
    "ports": [port.name for port in got.ports],
    "pps": got.flows[0].rate.pps,
    "row": [row.name, row.frames_tx, row.frames_rx, row.loss],
    "captured": len(captured),
    "refused": refused,
}))
