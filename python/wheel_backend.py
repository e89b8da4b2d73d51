"""Builds the wheel with the standard library alone, the same bytes each time (PEP 517, PEP 427)."""
import base64
import hashlib
import re
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
# The earliest time that a zip file can have.
TIME = (1980, 1, 1, 0, 0, 0)


def _setting(name):
    text = (HERE / "pyproject.toml").read_text()
    return re.search(rf'^{name} = "(.*)"$', text, re.MULTILINE).group(1)


def _files(dist_info):
    version = _setting("version")
    for path in sorted((HERE / "wirerate").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            yield f"wirerate/{path.name}", path.read_bytes()
    metadata = [
        "Metadata-Version: 2.4",
        "Name: wirerate",
        f"Version: {version}",
        f"Summary: {_setting('description')}",
        f"Requires-Python: {_setting('requires-python')}",
        f"License-Expression: {_setting('license')}",
        "Description-Content-Type: text/markdown",
        "",
        (HERE / "README.md").read_text(),
    ]
    wheel = "Wheel-Version: 1.0\nGenerator: wirerate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    yield f"{dist_info}/METADATA", "\n".join(metadata).encode()
    yield f"{dist_info}/WHEEL", wheel.encode()
    yield f"{dist_info}/entry_points.txt", b"[pytest11]\nwirerate = wirerate.pytest_plugin\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder, and returns its name."""
    version = _setting("version")
    dist_info = f"wirerate-{version}.dist-info"
    name = f"wirerate-{version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(path, data):
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)

        for path, data in _files(dist_info):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            record.append(f"{path},sha256={digest},{len(data)}\n")
            add(path, data)
        record.append(f"{dist_info}/RECORD,,\n")
        add(f"{dist_info}/RECORD", "".join(record).encode())
    return name


if __name__ == "__main__":
    import sys

    print(build_wheel(sys.argv[1]))
