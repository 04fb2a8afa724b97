# SPDX-License-Identifier: Apache-2.0
"""Knocks in all orders, before a daemon in memory. What the program does is tested with packets, in test/e2e."""

import struct
import unittest
from ipaddress import ip_address
from typing import Any

import grpc

from polycube.testing import Daemon
from polycube_portknock import portknock

CONFIG: dict[str, Any] = {"port": 22, "knock": [7001, 8002, 9003], "knock-timeout": 10, "idle-timeout": 60}
ALICE, BOB, CAROL = "10.0.0.1", "10.0.0.2", "2001:db8::3"


def frame(port: int, kind: bytes = b"\x08\x00", between: bytes = b"\x45" + bytes(19)) -> bytes:
    return bytes(12) + kind + between + struct.pack(">HHHH", 5555, port, 8, 0)


class PortKnockTest(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(Daemon(portknock.service()))
        self.cube = self.daemon.open("k", CONFIG)

    def knock(self, source: str, *ports: int) -> None:
        words = struct.unpack("<4I", portknock.key_of(ip_address(source)))
        for port in ports:
            self.daemon.packet(self.cube, frame(port), metadata=words)

    def clients(self) -> list[str]:
        return sorted(c["address"] for c in self.daemon.state(self.cube)["clients"]["client"])

    def comes_in(self, *sources: str) -> None:
        """The last of those who knocked is in, and so are just those before who should be."""
        self.knock("192.0.2.255", *self.sequence())
        self.daemon.wait(lambda: "192.0.2.255" in self.clients())
        self.daemon.action(self.cube, ["clients", "close"], {"address": "192.0.2.255"})
        self.assertEqual(self.clients(), sorted(sources))

    def sequence(self) -> list[int]:
        ports: list[int] = self.daemon._configs[self.cube]["knock"]
        return ports

    def test_constants_and_ports_are_the_configuration(self) -> None:
        self.assertEqual(self.daemon.constants["k"], {"port": b"\x16\0", "idle_timeout": struct.pack("<Q", 60 * 10**9)})
        self.assertEqual(set(self.daemon.maps["k"]["knocks"]), {struct.pack("<H", p) for p in CONFIG["knock"]})

    def test_only_the_right_order_opens(self) -> None:
        inside = []
        for n, (name, ports, opens) in enumerate((
            ("right", (7001, 8002, 9003), True),
            ("from the end", (9003, 8002, 7001), False),
            ("one is missing", (7001, 9003), False),
            ("one is twice", (7001, 7001, 8002, 9003), True),
            ("begins again", (7001, 8002, 7001, 8002, 9003), True),
            ("the last is missing", (7001, 8002), False),
            ("a wrong one between", (7001, 8002, 8002, 9003), False),
        )):  # fmt: skip
            with self.subTest(name):
                self.knock(f"10.0.1.{n}", *ports)
                inside += [f"10.0.1.{n}"] if opens else []
                self.comes_in(*inside)

    def test_sources_are_told_apart(self) -> None:
        for step in CONFIG["knock"][:2]:
            self.knock(ALICE, step)
            self.knock(CAROL, step)
        self.knock(BOB, 9003)
        self.knock(CAROL, 9003)
        self.comes_in(CAROL)

    def test_a_sequence_that_takes_too_long_opens_nothing(self) -> None:
        self.knock(ALICE, 7001, 8002)
        cube = self.the_cube()
        self.daemon.wait(lambda: any(f.heard == 2 for f in cube.following.values()))
        for step in cube.following.values():
            step.deadline -= 11
        self.knock(ALICE, 9003)
        self.comes_in()

    def test_another_sequence_begins_anew(self) -> None:
        self.knock(ALICE, 7001, 8002)
        self.daemon.wait(lambda: len(self.the_cube().following) == 1 and self.the_cube().knocks == 2)
        self.daemon.change(self.cube, {**CONFIG, "knock": [8002, 9003]})
        self.knock(ALICE, 9003)
        self.comes_in()
        self.knock(ALICE, 8002, 9003)
        self.comes_in(ALICE)

    def test_who_is_idle_is_shut_out_and_who_is_not_stays(self) -> None:
        self.knock(ALICE, *CONFIG["knock"])
        self.knock(BOB, *CONFIG["knock"])
        self.comes_in(ALICE, BOB)
        cube = self.the_cube()
        with cube.env.lock:
            for client in cube.known.values():
                client.seen -= 61
            self.daemon.maps["k"]["clients"][portknock.key_of(ip_address(BOB))] = struct.pack("<QQ", 1, 1)
            cube.sweep()
        self.assertEqual(self.clients(), [BOB])
        self.daemon.wait(lambda: "shut to 10.0.0.1" in self.daemon.sentences())

    def test_who_was_in_before_this_process_stays_in(self) -> None:
        self.daemon.maps["k"]["clients"] = {portknock.key_of(ip_address(CAROL)): struct.pack("<QQ", 5, 7)}
        self.the_cube().sweep()
        state = self.daemon.state(self.cube)["clients"]["client"]
        self.assertEqual([(c["address"], c["packets"]) for c in state], [(CAROL, "7")])
        self.assertIn("since", state[0])
        self.assertIsNone(self.daemon.state(self.cube, "port"))

    def test_close(self) -> None:
        for source in (ALICE, BOB, CAROL):
            self.knock(source, *CONFIG["knock"])
        self.comes_in(ALICE, BOB, CAROL)

        def close(**given: str) -> bytes:
            output: bytes = self.daemon.action(self.cube, ["clients", "close"], given).output
            return output

        self.assertEqual(close(address=ALICE), b'{"closed":1}')
        self.assertEqual(close(address=ALICE), b'{"closed":0}')
        self.assertEqual(close(), b'{"closed":2}')
        self.assertEqual(self.clients(), [])

    def test_a_full_map_is_told_of(self) -> None:
        self.daemon.room = 0
        self.knock(ALICE, *CONFIG["knock"])
        self.daemon.wait(lambda: any("no room for 10.0.0.1" in line for line in self.daemon.sentences()))

    def test_forged_sources_do_not_fill_memory(self) -> None:
        for n in range(portknock.FOLLOWED + 10):
            self.knock(str(ip_address(0x0B000000 + n)), 7001)
        self.daemon.wait(lambda: self.the_cube().knocks == portknock.FOLLOWED + 10)
        self.assertEqual(len(self.the_cube().following), portknock.FOLLOWED)

    def test_ports_are_found_behind_all_headers(self) -> None:
        v6 = b"\x60" + bytes(5)
        for name, data, port in (
            ("IPv4", frame(7), 7),
            ("IPv4 with options", frame(7, between=b"\x46" + bytes(23)), 7),
            ("a tag", frame(7, b"\x81\x00\0\1\x08\x00"), 7),
            ("two tags", frame(7, b"\x88\xa8\0\1\x81\x00\0\1\x08\x00"), 7),
            ("IPv6", frame(7, b"\x86\xdd", v6 + b"\x11" + bytes(33)), 7),
            ("IPv6 with options", frame(7, b"\x86\xdd", v6 + b"\x00" + bytes(33) + b"\x11\1" + bytes(14)), 7),
            ("IPv6, a first fragment", frame(7, b"\x86\xdd", v6 + b"\x2c" + bytes(33) + b"\x11\7" + bytes(6)), 7),
            ("nothing behind", frame(7)[:-6], None),
        ):
            with self.subTest(name):
                self.assertEqual(portknock.knocked_port(data), port)

    def test_a_service_without_the_daemon_is_of_no_use(self) -> None:
        with self.assertRaises(grpc.RpcError):
            self.daemon.action(99, ["clients", "close"], {})

    def the_cube(self) -> portknock.PortKnock:
        return PortKnockTest.made[-1]

    made: list[portknock.PortKnock] = []


class Remembered(portknock.PortKnock):
    """Lets the test look inside."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        PortKnockTest.made.append(self)


portknock.PortKnock = Remembered  # type: ignore[misc]

if __name__ == "__main__":
    unittest.main()
