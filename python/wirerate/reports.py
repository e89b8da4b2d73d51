"""The reports of the program as dataclasses: the fields that docs/json.md of wirerate describes.

Counts are frames, times are nanoseconds. A value that is unknown or does not apply is None. ``data``
has the whole object, with the fields that have no attribute here.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Type, TypeVar

Report = TypeVar("Report")


def of_json(kind: Type[Report], data: Dict[str, Any], **more: Any) -> Report:
    """The report in an object of the program. Fields without an attribute are in ``data``."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {name: value for name, value in data.items() if name in names}
    values.update(more)
    return kind(data=data, **values)


@dataclasses.dataclass(frozen=True)
class Latency:
    """Latencies of the frames that have one, in nanoseconds."""

    stamped: int
    min_ns: int
    mean_ns: float
    max_ns: int
    percentiles: Dict[float, int]

    @classmethod
    def of(cls, data: Dict[str, Any]) -> "Latency":
        percentiles = {float(row["percentile"]): row["latency_ns"] for row in data["percentiles"]}
        return cls(data["stamped"], data["min_ns"], data["mean_ns"], data["max_ns"], percentiles)

    @property
    def p99_ns(self) -> int:
        """99 % of the frames took at most this time."""
        return self.percentiles[99.0]


@dataclasses.dataclass(frozen=True)
class CommandReport:
    """The fields of all reports."""

    data: Dict[str, Any] = dataclasses.field(repr=False)
    exit_code: int
    device: str
    duration_ns: int

    @property
    def netns(self) -> Optional[str]:
        """The network namespace of the device; None for that of the program."""
        netns: Optional[str] = self.data.get("netns")
        return netns


@dataclasses.dataclass(frozen=True)
class SendReport(CommandReport):
    """The frames of a sender (``wirerate.send``). ``offered`` is ``sent`` + ``errors``."""

    end: str
    offered: int
    sent: int
    errors: int
    rate_pps: float
    wire_bps: float
    rate_missed: bool
    asked_pps: Optional[float] = None
    reached_percent: Optional[float] = None
    notes: List[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class MeasureReport(CommandReport):
    """The measurement of a receiver (``wirerate.measure``)."""

    received: int
    unique: int
    duplicate: int
    reordered: int
    missing: int
    failed_checks: List[str]
    rate_pps: Optional[float] = None
    lost_ring: Optional[int] = None

    @property
    def lost(self) -> Optional[int]:
        """Lost frames, at most; None if the number of sent frames is unknown."""
        loss = self.data.get("loss")
        return None if loss is None else loss["lost_max"]

    @property
    def latency(self) -> Optional[Latency]:
        """The latencies; None if no frame has a time stamp."""
        data = self.data.get("latency")
        return None if data is None else Latency.of(data)


@dataclasses.dataclass(frozen=True)
class Measured:
    """A measurement: the reports of its sender and of its receiver."""

    sender: SendReport
    receiver: MeasureReport

    @property
    def exit_code(self) -> int:
        """0, or 1 if frames were lost, a check failed or the rate was missed."""
        return max(self.sender.exit_code, self.receiver.exit_code)

    @property
    def sent(self) -> int:
        return self.sender.sent

    @property
    def received(self) -> int:
        return self.receiver.received

    @property
    def lost(self) -> int:
        """Frames that were sent and did not arrive, at most."""
        lost = self.receiver.lost
        assert lost is not None, "measure knows the number of sent frames"
        return lost

    @property
    def latency(self) -> Optional[Latency]:
        return self.receiver.latency


@dataclasses.dataclass(frozen=True)
class CaptureReport(CommandReport):
    """The frames of a capture (``wirerate.capture``)."""

    received: int
    written: int
    lost: int
    lost_ring: int
    lost_disk: int
    filtered: Optional[int] = None
    lost_nic: Optional[int] = None
    file: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class ReplayReport(CommandReport):
    """The packets of a replay (``wirerate.replay``)."""

    end: str
    read: int
    sent: int
    errors: int
    rate_pps: float
    notes: List[str] = dataclasses.field(default_factory=list)
