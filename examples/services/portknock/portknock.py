# SPDX-License-Identifier: Apache-2.0
"""The control plane of port knocking: it follows the knocks of each source, and opens the port by an entry in a map.

The program passes segments from sources in the map `clients`, drops those of others, and hands up knocks with their
source. It also judges who is idle, so the port is shut in time even if this process is gone.
"""

from __future__ import annotations

import struct
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Sequence

import polycube

#: Maximum number of sources that are followed. Beyond it the oldest one is forgotten: addresses can be forged.
FOLLOWED = 4096

#: The interval of checks for idle sources, in seconds.
SWEEP = 1.0

NANOSECONDS = 1_000_000_000

IPAddress = IPv4Address | IPv6Address


def address_of(key: bytes) -> IPAddress:
    """The address of the program's 16 bytes."""
    whole = IPv6Address(key)
    return whole.ipv4_mapped or whole


def key_of(address: IPAddress) -> bytes:
    """The inverse."""
    return address.packed if address.version == 6 else IPv6Address(f"::ffff:{address}").packed


def knocked_port(frame: bytes) -> int | None:
    """The port of a knock. The program has checked the headers, so only tags must be handled."""
    at = 12
    while frame[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, at = frame[at : at + 2], at + 2
    if kind == b"\x08\x00":
        at += 4 * (frame[at] & 15)
    else:
        following, at = frame[at + 6], at + 40
        while following in (0, 43, 44, 60):
            length = 8 if following == 44 else 8 + 8 * frame[at + 1]
            following, at = frame[at], at + length
    ports = frame[at : at + 4]
    return struct.unpack(">2xH", ports)[0] if len(ports) == 4 else None


@dataclass
class Follower:
    """A source in the middle of the sequence."""

    heard: int
    deadline: float


@dataclass
class Client:
    """A source for which the port is open, as far as this process knows."""

    since: datetime
    packets: int
    seen: float


class PortKnock(polycube.Cube):
    """A cube."""

    def __init__(self, env: polycube.Env) -> None:
        super().__init__(env)
        self.config: polycube.Config = {}
        self.following: OrderedDict[bytes, Follower] = OrderedDict()
        self.known: dict[bytes, Client] = {}
        self.knocks = 0
        # struct client: last (0: not used yet), packets
        self.clients: polycube.Map[bytes, tuple[int, int]] = env.map("clients", "16s", "QQ")
        self.stop = env.every(SWEEP, self.sweep)

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        """Two constants and the set of ports; other state is kept here."""
        ports = {polycube.u16(port): b"\1" for port in after.get("knock", [])}
        return polycube.Plan(
            constants={
                "port": polycube.u16(after["port"]),
                "idle_timeout": polycube.u64(after["idle-timeout"] * NANOSECONDS),
            },
            writes=[polycube.Write("knocks", ports, replace=True)],
            commit=lambda: self.use(after),
            undo=lambda: self.use(old or {}),
        )

    def use(self, config: polycube.Config) -> None:
        """Applies a configuration. A source in the middle of another sequence starts again."""
        if config.get("knock") != self.config.get("knock"):
            self.following.clear()
        self.config = config

    def packet_in(self, packet: polycube.Packet) -> None:
        """Follows a knock. The packet ends here: to a scanner, the port looks like any other without a listener."""
        source = struct.pack("<4I", *packet.metadata)
        port, sequence = knocked_port(packet.data), self.config.get("knock", [])
        if port not in sequence:
            return  # it was in flight when the sequence changed
        self.knocks += 1
        now = time.monotonic()
        step = self.following.pop(source, None)
        if step is None or now > step.deadline or port != sequence[step.heard]:
            step = Follower(0, now + self.config["knock-timeout"])
        if port == sequence[step.heard]:
            step.heard += 1
        if step.heard == len(sequence):
            self.open(source)
        elif step.heard > 0:
            self.following[source] = step
            while len(self.following) > FOLLOWED:
                self.following.popitem(last=False)

    def open(self, source: bytes) -> None:
        """Opens the port for a source."""
        try:
            self.clients.set(source, (0, 0))
        except polycube.Full:
            self.env.log.warning("no room for %s: the port is open to as many sources as it can be", address_of(source))
            return
        self.known.pop(source, None)
        self.meet(source, 0)
        self.env.log.info("open to %s", address_of(source))

    def sweep(self) -> None:
        """Removes idle sources. The program no longer admits them, but keeps their entries."""
        if not self.config:
            return
        now, entries = time.monotonic(), dict(self.clients.items())
        for source, (_, packets) in entries.items():
            client = self.meet(source, packets)
            if client.packets != packets:
                client.packets, client.seen = packets, now
            elif now - client.seen > self.config["idle-timeout"]:
                self.shut(source)
        for source in set(self.known) - set(entries):
            del self.known[source]
        self.env.metrics(
            [
                polycube.Metric("clients", len(self.known), "Sources that may use the port."),
                polycube.Metric("knocks", self.knocks, "Knocks that were heard.", counter=True),
            ]
        )

    def meet(self, source: bytes, packets: int) -> Client:
        """A source in the map that is unknown here was admitted before this process."""
        return self.known.setdefault(source, Client(datetime.now(timezone.utc), packets, time.monotonic()))

    def shut(self, source: bytes) -> bool:
        """Closes the port for a source; False if it was not open."""
        self.known.pop(source, None)
        if not self.clients.delete(source):
            return False
        self.env.log.info("shut to %s", address_of(source))
        return True

    def state(self, path: Sequence[str]) -> polycube.Config | None:
        """Lists the admitted sources."""
        if path and path[0] != "clients":
            return None
        clients = []
        for source, (_, packets) in self.clients.items():
            since = self.meet(source, packets).since.isoformat(timespec="seconds")
            clients.append({"address": str(address_of(source)), "since": since, "packets": str(packets)})
        return {"clients": {"client": clients}}

    def action(self, path: Sequence[str], input: polycube.Config) -> polycube.Config:
        """Closes the port for one or all."""
        if "address" in input:
            sources = [key_of(ip_address(input["address"]))]
        else:
            sources = list(self.clients.keys())
        return {"closed": sum(self.shut(source) for source in sources)}

    def close(self) -> None:
        """The timer ends with the cube."""
        self.stop()


def service() -> polycube.Service:
    """The service."""
    return polycube.Service.from_files("portknock", Path(__file__).parent, PortKnock)


def main() -> None:
    """Runs the service."""
    polycube.serve(service())


if __name__ == "__main__":
    main()
