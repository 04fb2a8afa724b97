# SPDX-License-Identifier: Apache-2.0
"""The control plane of quotas. The program counts and drops; this lists, resets, and carries the counts to a new version.

The state of this service is in the map of the program alone, so nothing is lost when this process dies.
"""

from __future__ import annotations

import ctypes
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Sequence

import polycube

NANOSECONDS = 1_000_000_000

#: The kind of the message that a source has used up its quota.
EXCEEDED = 1

#: The number of sources that are shown with the rest of the cube.
FIRST = 1000

IPAddress = IPv4Address | IPv6Address


class Usage(ctypes.LittleEndianStructure):
    """struct usage."""

    _fields_ = [
        ("start", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("packets", ctypes.c_uint64),
        ("dropped", ctypes.c_uint64),
    ]


class UsageV1(ctypes.LittleEndianStructure):
    """struct usage of version 1.0."""

    _fields_ = [("bytes", ctypes.c_uint64), ("start", ctypes.c_uint64)]


def from_v1(address: bytes, v1: UsageV1) -> tuple[bytes, Usage]:
    """Version 1.0 did not count packets. The bytes and the period of a source go on."""
    return address, Usage(start=v1.start, bytes=v1.bytes)


MIGRATIONS = (polycube.Migration("sources", old=("16s", UsageV1), new=("16s", Usage), entry=from_v1),)


def address_of(key: bytes) -> IPAddress:
    """The address of the program's 16 bytes."""
    whole = IPv6Address(key)
    return whole.ipv4_mapped or whole


def key_of(address: IPAddress) -> bytes:
    """The inverse."""
    return address.packed if address.version == 6 else IPv6Address(f"::ffff:{address}").packed


def shown(key: bytes, usage: Usage) -> polycube.Config:
    """A source in the model's list."""
    counters = {name: str(getattr(usage, name)) for name in ("bytes", "packets", "dropped")}
    return {"address": str(address_of(key)), **counters}


class Quota(polycube.Cube):
    """A cube."""

    def __init__(self, env: polycube.Env) -> None:
        super().__init__(env)
        self.sources: polycube.Map[bytes, Usage] = env.map("sources", "16s", Usage)

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        """The configuration is two constants."""
        return polycube.Plan(
            constants={
                "quota": polycube.u64(int(after["bytes"])),
                "period": polycube.u64(after["period"] * NANOSECONDS),
            }
        )

    def page(self, path: Sequence[str], after: str, limit: int) -> polycube.Page:
        """Lists the sources, as many as fit a page."""
        entries, following = self.sources.page(after, limit)
        return polycube.Page([shown(key, usage) for key, usage in entries], following)

    def state(self, path: Sequence[str]) -> polycube.Config | None:
        """One source, or the first ones: the list is read in pages."""
        if path and path[0] != "sources":
            return None
        if len(path) < 3:
            return {"sources": {"source": [shown(key, usage) for key, usage in self.sources.page(limit=FIRST)[0]]}}
        key = key_of(ip_address(path[2]))
        usage = self.sources.get(key)
        return None if usage is None else {"sources": {"source": [shown(key, usage)]}}

    def action(self, path: Sequence[str], input: polycube.Config) -> polycube.Config:
        """Forgets one source or all, which then have their whole quota again."""
        if "address" in input:
            keys = [key_of(ip_address(input["address"]))]
        else:
            keys = list(self.sources.keys())
        return {"reset": len(self.sources.take(keys))}

    def notify(self, kind: int, data: bytes) -> None:
        """Logs a source that has used up its quota, once in a period."""
        if kind == EXCEEDED:
            self.env.log.warning("%s has used up its quota", address_of(data[:16]))


def service() -> polycube.Service:
    """The service."""
    return polycube.Service.from_files("quota", Path(__file__).parent, Quota, migrations=MIGRATIONS)


def main() -> None:
    """Runs the service."""
    polycube.serve(service())


if __name__ == "__main__":
    main()
