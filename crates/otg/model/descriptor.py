"""Writes the descriptor set of the installed snappi to standard output."""
import sys

from google.protobuf import descriptor_pb2
from snappi import otg_pb2

file = descriptor_pb2.FileDescriptorProto()
otg_pb2.DESCRIPTOR.CopyToProto(file)
sys.stdout.buffer.write(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
