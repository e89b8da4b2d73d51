"""Send, measure, capture and replay frames with the program wirerate.

Each function runs one command of the program with ``--json`` and returns its report. Keyword
arguments are options of the command: ``pps="10k"`` is ``--pps 10k``, ``end_frames=5`` is
``--end-frames 5``, ``full=True`` is ``--full``, and a list repeats its option. A device is ``DEV`` or
``DEV@NETNS``; :meth:`Namespace.device` makes the latter.
"""
from __future__ import annotations

from .lab import Lab, Namespace
from .program import Background, WirerateError, beside, capture, measure, program, receive, replay, send
from .reports import CaptureReport, Latency, MeasureReport, Measured, ReplayReport, SendReport

__all__ = [
    "Background",
    "CaptureReport",
    "Lab",
    "Latency",
    "MeasureReport",
    "Measured",
    "Namespace",
    "ReplayReport",
    "SendReport",
    "WirerateError",
    "beside",
    "capture",
    "measure",
    "program",
    "receive",
    "replay",
    "send",
]
