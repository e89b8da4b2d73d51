"""The package against the program itself."""
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent


@pytest.fixture
def pair(wirerate_lab):
    """Two devices at the ends of a link."""
    left, right = wirerate_lab.netns("left"), wirerate_lab.netns("right")
    wirerate_lab.link(left, "eth0", right, "eth0", "198.18.0.1/24", "198.18.0.2/24")
    return left.device("eth0"), right.device("eth0")


def test_what_is_sent_is_captured_and_replayed(wirerate, pair, tmp_path):
    left, right = pair
    file = tmp_path / "sent.pcapng"
    with wirerate.beside(wirerate.capture, right, "udp", write=file) as capture:
        sent = wirerate.send(left, dst="198.18.0.2", count=100, pps=1000, size=128)
        capture.stop()
        captured = capture.report()
    assert (sent.sent, sent.errors, sent.end, sent.exit_code) == (100, 0, "count", 0)
    assert left == f"{sent.device}@{sent.netns}" and sent.duration_ns > 0
    assert (captured.written, captured.lost, captured.file) == (100, 0, str(file))
    replayed = wirerate.replay(left, file)
    assert (replayed.read, replayed.sent, replayed.end) == (100, 100, "done")


def test_a_receiver_beside_a_sender(wirerate, pair):
    left, right = pair
    with wirerate.beside(wirerate.receive, right) as receiver:
        wirerate.send(left, dst="198.18.0.2", count=50, pps=1000, size=128, signature="full")
    report = receiver.report()
    assert (report.unique, report.duplicate, report.missing) == (50, 0, 0)
    assert report.latency.stamped == 50 and report.latency.min_ns <= report.latency.p99_ns
    assert report.data["schema"].startswith("wirerate.measure/")


def test_a_failed_check_is_a_report(wirerate, pair):
    result = wirerate.measure(*pair, dst="198.18.0.2", count=10, pps=1000, expect=["lost=0", "p99<1ns"])
    assert (result.exit_code, result.lost) == (1, 0)
    assert len(result.receiver.failed_checks) == 1 and "p99" in result.receiver.failed_checks[0]


def test_errors_have_the_message_of_the_program(wirerate, pair):
    with pytest.raises(wirerate.WirerateError, match="no-such-device") as error:
        wirerate.send("no-such-device", dst="198.18.0.2", count=1)
    assert error.value.exit_code == 3
    with pytest.raises(wirerate.WirerateError, match="nonsense") as error:
        wirerate.send(pair[0], nonsense=True)
    assert error.value.exit_code == 2
    with pytest.raises(wirerate.WirerateError, match="no-such-device"):
        with wirerate.beside(wirerate.capture, "no-such-device"):
            raise AssertionError("the block is not entered")


def test_a_program_that_cannot_be_run_is_named(wirerate, monkeypatch):
    monkeypatch.setenv("WIRERATE", "/no/such/program")
    with pytest.raises(wirerate.WirerateError, match="cannot run /no/such/program: No such file") as error:
        wirerate.send("lo", count=1)
    assert error.value.exit_code == 3


def test_all_namespaces_are_removed_if_one_is_gone(wirerate):
    lab = wirerate.Lab()
    left, right = lab.netns("left"), lab.netns("right")
    subprocess.run(["ip", "netns", "delete", right.name], check=True)
    with pytest.raises(wirerate.WirerateError, match=right.name):
        lab.close()
    there = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert left.name not in there


def test_nothing_is_left(wirerate):
    with pytest.raises(ZeroDivisionError):
        with wirerate.Lab() as lab:
            left = lab.netns("left")
            right = lab.netns("right")
            lab.link(left, "eth0", right, "eth0", "198.18.0.1/24", "198.18.0.2/24")
            with wirerate.beside(wirerate.capture, right.device("eth0")) as capture:
                raise ZeroDivisionError
    assert capture.has_ended()
    there = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert left.name not in there and right.name not in there


def test_the_wheel_has_the_package_and_the_same_bytes_each_time(tmp_path):
    wheels = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        command = [sys.executable, HERE / "wheel_backend.py", tmp_path / name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        wheels.append(tmp_path / name / said)
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = set(wheel.namelist())
        assert wheel.testzip() is None
    modules = {f"wirerate/{path.name}" for path in (HERE / "wirerate").glob("*.py")}
    assert modules | {"wirerate/py.typed"} <= names
    assert "wirerate-0.1.0.dist-info/entry_points.txt" in names
