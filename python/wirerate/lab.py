"""Network namespaces with veth pairs between them, for tests on one machine (as root)."""
from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from typing import List, Optional

from .program import WirerateError

_NUMBERS = itertools.count()


def _run(words: List[str]) -> str:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WirerateError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}", done.returncode)
    return done.stdout


class Namespace:
    """A network namespace."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, *words: str) -> str:
        """Runs a program in the namespace, and returns what it prints. Raises if it fails."""
        return _run(["ip", "netns", "exec", self.name, *words])

    def device(self, name: str) -> str:
        """A device of the namespace in the form DEV@NETNS, as commands of wirerate take it."""
        return f"{name}@{self.name}"


class Lab:
    """Namespaces and the links between them. They are removed at the end of the ``with`` block."""

    def __init__(self) -> None:
        self._prefix = f"wrpy-{os.getpid()}-{next(_NUMBERS)}"
        self._namespaces: List[Namespace] = []

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def netns(self, name: str, forwards: bool = False) -> Namespace:
        """A new namespace; with ``forwards`` it is a router."""
        namespace = Namespace(f"{self._prefix}-{name}")
        _run(["ip", "netns", "add", namespace.name])
        self._namespaces.append(namespace)
        # Hosts send IPv6 frames of their own, which no test expects.
        namespace.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        namespace.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        if forwards:
            namespace.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        namespace.run("ip", "link", "set", "lo", "up")
        return namespace

    def link(
        self,
        left: Namespace,
        left_device: str,
        right: Namespace,
        right_device: str,
        left_address: Optional[str] = None,
        right_address: Optional[str] = None,
    ) -> None:
        """A link between two namespaces, which is up. Addresses are such as ``198.18.1.1/24``."""
        _run(
            ["ip", "link", "add", "name", left_device, "netns", left.name, "type", "veth"]
            + ["peer", "name", right_device, "netns", right.name]
        )
        ends = ((left, left_device, left_address), (right, right_device, right_address))
        for namespace, device, address in ends:
            if address:
                namespace.run("ip", "address", "add", address, "dev", device)
            if shutil.which("ethtool"):
                # A veth device takes frames that come by XDP if it has GRO.
                namespace.run("ethtool", "-K", device, "gro", "on")
            namespace.run("ip", "link", "set", device, "up")

    def close(self) -> None:
        """Removes the namespaces and their devices. Raises if one of them could not be removed."""
        errors = []
        while self._namespaces:
            try:
                _run(["ip", "netns", "delete", self._namespaces.pop().name])
            except WirerateError as error:
                errors.append(error)
        if errors:
            raise errors[0]
