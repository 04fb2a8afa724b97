# SPDX-License-Identifier: Apache-2.0
"""A hub for tests of services: sets of ports, peers, links, routes, and entries that are written after a change."""

from pathlib import Path
from typing import Any, Sequence

import polycube


class Hub(polycube.Cube):
    """A cube."""

    def __init__(self, env: polycube.Env) -> None:
        super().__init__(env)
        self.versions = env.map("versions", "I", "I")
        self.peers: dict[str, polycube.Peer] = {}
        self.links: dict[str, bool] = {}

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        """All ports but the isolated ones are the set."""
        isolated = after.get("isolated", [])
        version = polycube.u32(after["version"])
        ports = [p["name"] for p in after.get("ports", [])]
        members = [self.env.ports[name] for name in ports if name not in isolated]
        return polycube.Plan(
            floods=polycube.Floods({1: polycube.FloodSet(members)}, replace=True),
            writes=[polycube.Write("versions", {polycube.u32(0): version})],
            after=[polycube.Write("versions", {polycube.u32(1): version})],
            commit=lambda: self.forget_others(ports),
        )

    def forget_others(self, ports: Sequence[str]) -> None:
        """Peers of deleted ports are not reported."""
        self.peers = {port: peer for port, peer in self.peers.items() if port in ports}

    def peer_changed(self, port: str, peer: polycube.Peer) -> None:
        """Notes the peer."""
        self.peers[port] = peer

    def link_changed(self, port: str, up: bool) -> None:
        """Notes the link."""
        self.links[port] = up

    def state(self, path: Sequence[str]) -> polycube.Config | None:
        """What the service was told, and what is in the map."""
        versions = dict(self.versions.items())
        peers = [
            {"port": port, "netdev": p.netdev, "mac": p.mac.hex(":"), "mtu": p.mtu, "up": self.links.get(port, False)}
            for port, p in self.peers.items()
            if p.name
        ]
        return {"before": versions[0], "after": versions[1], "neighbour": peers}

    def action(self, path: Sequence[str], input: polycube.Config) -> dict[str, Any]:
        """Looks up a route."""
        route = self.env.route(input["destination"])
        return {"netdev": route.netdev, "gateway": route.gateway, "source": route.source, "mac": route.mac.hex(":")}


if __name__ == "__main__":
    polycube.serve(polycube.Service.from_files("hub", Path(__file__).parent, Hub))
