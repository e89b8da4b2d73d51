"""Commands of the program: run to their end, or beside other work."""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

from .reports import CaptureReport, Measured, MeasureReport, ReplayReport, SendReport, of_json

# An option of a command: a value, True for a flag, or a list that repeats it.
Option = Union[str, int, float, bool, os.PathLike, Sequence[Union[str, int, float]], None]
Rows = List[Dict[str, Any]]

# The text that a command prints once it counts frames.
_READY = {"capture": "capturing on", "receive": "measuring frames of"}
# Seconds within which such a command must have printed it.
_READY_TIME = 30.0
# Seconds between two looks at the printed text, which has no event.
_POLL = 0.01


class WirerateError(Exception):
    """A command could not run. The message is that of the program: the reason, and what to try."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def program() -> str:
    """The path of the program: the variable WIRERATE, or ``wirerate`` in PATH."""
    found = os.environ.get("WIRERATE") or shutil.which("wirerate")
    if not found:
        raise WirerateError("there is no program wirerate in PATH: install it, or set WIRERATE to its path", 3)
    return found


def _words(options: Dict[str, Option]) -> List[str]:
    words: List[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        for each in values:
            words += [option, os.fspath(each) if isinstance(each, os.PathLike) else str(each)]
    return words


class Background:
    """A running command, which prints its report at its end."""

    def __init__(self, words: List[str], report: Callable[[Rows, int], Any]) -> None:
        self._report_of = report
        self._stdout = tempfile.TemporaryFile("w+")
        self._stderr = tempfile.TemporaryFile("w+")
        self._words = [program(), *words, "--json"]
        try:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=self._stdout, stderr=self._stderr
            )
        except OSError as error:
            raise WirerateError(f"cannot run {self._words[0]}: {error.strerror}", 3) from error

    def stderr(self) -> str:
        """The text that the program has printed to standard error so far."""
        return _text_of(self._stderr)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_until_ready(self) -> None:
        """Waits until a capture or a receiver counts frames. Other commands are not waited for."""
        ready = _READY.get(self._words[1])
        deadline = time.monotonic() + _READY_TIME
        while ready and ready not in self.stderr() and not self.has_ended():
            if time.monotonic() > deadline:
                raise WirerateError(f"{self._words[1]} is not ready: {self.stderr()}", 3)
            time.sleep(_POLL)
        if self.has_ended():
            self.report()

    def stop(self) -> None:
        """Ends the command, as Ctrl-C does, if it runs. It prints its report."""
        if not self.has_ended():
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the command without a report, if it runs."""
        if not self.has_ended():
            self._process.kill()
            self._process.wait()

    def report(self, timeout: Optional[float] = None) -> Any:
        """Waits until the command has ended, and returns its report."""
        exit_code = self._process.wait(timeout)
        lines = _text_of(self._stdout).splitlines()
        rows = [json.loads(line) for line in lines if line.startswith("{")]
        errors = [row for row in rows if row.get("schema", "").startswith("wirerate.error/")]
        if errors or exit_code not in (0, 1):
            message = self.stderr().strip() or f"{' '.join(self._words)} ended with {exit_code}"
            raise WirerateError(message, exit_code)
        return self._report_of(rows, exit_code)


def _text_of(file: Any) -> str:
    # pread leaves the file offset alone, at which the program writes on.
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode("utf-8", "replace")


def _row(rows: Rows, kind: str) -> Dict[str, Any]:
    for row in reversed(rows):
        if row.get("schema", "").startswith(f"wirerate.{kind}/"):
            return row
    raise WirerateError(f"the program printed no wirerate.{kind} object", 3)


def _begin_send(device: str, *words: str, **options: Option) -> Background:
    return Background(
        ["send", device, *_words(options), *words],
        lambda rows, code: of_json(SendReport, _row(rows, "send"), exit_code=code),
    )


def _begin_measure(tx: str, rx: str, *words: str, **options: Option) -> Background:
    def measured(rows: Rows, code: int) -> Measured:
        sender = of_json(SendReport, _row(rows, "send"), exit_code=code)
        return Measured(sender, of_json(MeasureReport, _row(rows, "measure"), exit_code=code))

    return Background(["measure", "--tx", tx, "--rx", rx, *_words(options), *words], measured)


def _begin_receive(device: str, *words: str, **options: Option) -> Background:
    return Background(
        ["receive", device, *_words(options), *words],
        lambda rows, code: of_json(MeasureReport, _row(rows, "measure"), exit_code=code),
    )


def _begin_capture(device: str, *words: str, **options: Option) -> Background:
    return Background(
        ["capture", device, *_words(options), *words],
        lambda rows, code: of_json(CaptureReport, _row(rows, "capture"), exit_code=code),
    )


def _begin_replay(device: str, *files: Union[str, os.PathLike], **options: Option) -> Background:
    return Background(
        ["replay", device, *(os.fspath(file) for file in files), *_words(options)],
        lambda rows, code: of_json(ReplayReport, _row(rows, "replay"), exit_code=code),
    )


def _finish(background: Background) -> Any:
    try:
        return background.report()
    finally:
        background.kill()


def send(device: str, *words: str, **options: Option) -> SendReport:
    """Sends frames. Without ``count`` or ``duration`` it does not end: use :func:`beside`."""
    return _finish(_begin_send(device, *words, **options))


def measure(tx: str, rx: str, *words: str, **options: Option) -> Measured:
    """Sends frames on one device, and measures loss and latency on another."""
    return _finish(_begin_measure(tx, rx, *words, **options))


def receive(device: str, *words: str, **options: Option) -> MeasureReport:
    """Measures the frames of a sender elsewhere."""
    return _finish(_begin_receive(device, *words, **options))


def capture(device: str, *words: str, **options: Option) -> CaptureReport:
    """Captures frames. Without ``count`` or ``duration`` it does not end: use :func:`beside`."""
    return _finish(_begin_capture(device, *words, **options))


def replay(device: str, *files: Union[str, os.PathLike], **options: Option) -> ReplayReport:
    """Sends the packets of capture files."""
    return _finish(_begin_replay(device, *files, **options))


_BEGIN: Dict[Any, Callable[..., Background]] = {
    send: _begin_send,
    measure: _begin_measure,
    receive: _begin_receive,
    capture: _begin_capture,
    replay: _begin_replay,
}


@contextlib.contextmanager
def beside(command: Callable[..., Any], *words: Any, **options: Option) -> Iterator[Background]:
    """Runs a command beside the block: ``with beside(capture, "eth1", write="x.pcapng") as run:``.

    A capture or receiver is ready when the block begins. At the end of the block the command is
    stopped, and ``run.report()`` returns its report, also after the block.
    """
    background = _BEGIN[command](*words, **options)
    try:
        background.wait_until_ready()
        yield background
        background.stop()
        background.report(timeout=60)
    finally:
        background.kill()
