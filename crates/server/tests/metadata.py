"""Asks a server for its version by gRPC, with a token as metadata: metadata.py ADDRESS TOKEN"""
import sys

import grpc

address, token = sys.argv[1:3]
# The name of a socket is not one of a host.
options = [("grpc.default_authority", "localhost")] if address.startswith("unix:") else []
call = grpc.insecure_channel(address, options=options).unary_unary("/otg.Openapi/GetVersion")
try:
    print(call(b"", metadata=[("authorization", f"Bearer {token}")], timeout=60))
except grpc.RpcError as error:
    print(error.code().name)
