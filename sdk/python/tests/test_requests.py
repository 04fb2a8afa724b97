# SPDX-License-Identifier: Apache-2.0
"""Pages, sets of ports, routes, peers, links, and entries that are written after a change."""

import struct
import unittest
from typing import Any, Sequence

import grpc

import polycube
from polycube import Floods, FloodSet
from polycube._api import service_pb2 as pb
from polycube.testing import Daemon


class Hub(polycube.Cube):
    """Floods to all of its ports, and lists numbers in pages."""

    made: list["Hub"] = []

    def __init__(self, env: polycube.Env) -> None:
        super().__init__(env)
        self.steps: list[Any] = []
        self.numbers = env.map("numbers", "I", "Q")
        Hub.made.append(self)

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        ports = tuple(self.env.ports[p] for p in after["ports"])
        return polycube.Plan(
            writes=[polycube.Write("ports", {b"\1": b"\1"})],
            after=[polycube.Write("ports", {b"\2": b"\2", b"\1": None})],
            floods=Floods({1: FloodSet(ports, (7,))}, replace=True) if ports else None,
        )

    def page(self, path: Sequence[str], after: str, limit: int) -> polycube.Page:
        if after == "old":
            raise polycube.Stale("it has another size")
        entries, following = self.numbers.page(after, limit)
        return polycube.Page([{"number": k, "square": str(v)} for k, v in entries], following)

    def peer_changed(self, port: str, peer: polycube.Peer) -> None:
        self.steps.append((port, peer))

    def link_changed(self, port: str, up: bool) -> None:
        self.steps.append((port, up))


class RequestsTest(unittest.TestCase):
    def setUp(self) -> None:
        Hub.made = []
        service = polycube.Service("s", "module s {}", {"tc": b"elf"}, Hub)
        self.daemon = self.enterContext(Daemon(service))
        self.cube = self.daemon.open("c", {"ports": ["p1", "p2"]}, ports={"p1": 1, "p2": 2})
        self.hub = Hub.made[-1]

    def test_the_description_announces_the_methods(self) -> None:
        d = self.daemon.description
        self.assertEqual((d.pages, d.peers, d.links, d.ports, d.state), (True, True, True, False, False))

    def test_sets_of_ports_are_part_of_a_plan_or_requests(self) -> None:
        self.assertEqual(self.daemon.floods["c"], {1: FloodSet((1, 2), (7,))})
        self.daemon.change(self.cube, {"ports": []})
        self.hub.env.floods(Floods({2: FloodSet((1,)), 1: FloodSet()}))
        self.assertEqual(self.daemon.floods["c"], {2: FloodSet((1,))})
        self.hub.env.floods(Floods({}, replace=True))
        self.assertEqual(self.daemon.floods["c"], {})

    def test_entries_are_written_after_the_change(self) -> None:
        plan = self.daemon.change(self.cube, {"ports": ["p1"]}, ports={"p1": 1})
        self.assertEqual([(w.map, len(w.entries)) for w in plan.after], [("ports", 2)])
        self.assertEqual(self.daemon.maps["c"]["ports"], {b"\2": b"\2"})

    def test_pages_have_each_entry_once(self) -> None:
        self.hub.numbers.update({n: n * n for n in range(20)})
        for limit in (1, 7, 20, 50):
            got, after = [], ""
            while True:
                entries, after = self.daemon.page(self.cube, "numbers", after=after, limit=limit)
                self.assertLessEqual(len(entries), limit)
                got += entries
                if not after:
                    break
            self.assertEqual(got, [{"number": n, "square": str(n * n)} for n in range(20)])
        for after, code in (("old", grpc.StatusCode.ABORTED), ("x", grpc.StatusCode.INVALID_ARGUMENT)):
            with self.assertRaises(grpc.RpcError) as caught:
                self.daemon.page(self.cube, "numbers", after=after)
            self.assertEqual(caught.exception.code(), code)

    def test_entries_are_deleted_at_once(self) -> None:
        self.hub.numbers.update({n: n for n in range(20)})
        self.assertEqual(self.hub.numbers.delete_all(range(15, 30)), 5)
        self.assertFalse(self.hub.numbers.delete(15))
        self.assertEqual(sorted(self.hub.numbers.keys()), list(range(15)))

    def test_routes(self) -> None:
        route = polycube.Route("eth0", 3, "10.0.0.254", "10.0.0.1", b"\2\0\0\0\0\7", 1500)
        self.daemon.routes["192.0.2.1"] = route
        self.assertEqual(self.hub.env.route("192.0.2.1"), route)
        self.assertRaisesRegex(polycube.NotFound, "no route to 192.0.2.2", self.hub.env.route, "192.0.2.2")

    def test_peers_and_links_come_in_order(self) -> None:
        mac = struct.pack("6B", 2, 0, 0, 0, 0, 1)
        peer: dict[str, Any] = {"cube": self.cube, "port": "p1", "name": "eth0", "netdev": "eth0", "index": 3, "mac": mac}
        self.daemon.tell(pb.ToService(link=pb.LinkChanged(cube=self.cube, port="p1", up=False)))
        self.daemon.tell(pb.ToService(peer=pb.PeerChanged(addresses=["10.0.0.1/24"], mtu=1500, speed=1000, **peer)))
        self.daemon.tell(pb.ToService(link=pb.LinkChanged(cube=self.cube, port="p1", up=True)))
        self.daemon.tell(pb.ToService(peer=pb.PeerChanged(cube=self.cube, port="p2")))
        self.daemon.wait(lambda: len(self.hub.steps) == 4)
        expected = polycube.Peer("eth0", "eth0", 3, mac, ("10.0.0.1/24",), 1500, 1000)
        self.assertEqual(self.hub.steps, [("p1", False), ("p1", expected), ("p1", True), ("p2", polycube.Peer())])


if __name__ == "__main__":
    unittest.main()
