# SPDX-License-Identifier: Apache-2.0
"""A service of every kind of method, and a daemon that uses them all."""

import ctypes
import struct
import unittest
from typing import Any, Sequence

import grpc

import polycube
from polycube._api import service_pb2 as pb
from polycube.testing import Daemon


class Entry(ctypes.LittleEndianStructure):
    """struct { __u32 a; __u8 b; } with its padding."""

    _fields_ = [("a", ctypes.c_uint32), ("b", ctypes.c_uint8)]


class Everything(polycube.Cube):
    """Does all that a cube can, and writes down what it was asked."""

    made: list["Everything"] = []

    def __init__(self, env: polycube.Env) -> None:
        super().__init__(env)
        self.steps: list[Any] = []
        self.numbers = env.map("numbers", "I", "Q")
        Everything.made.append(self)

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        if after.get("refuse"):
            raise polycube.Invalid("refuse: it says so")
        if after.get("break"):
            raise ValueError("broken")
        self.steps.append(("prepare", old, after))
        return polycube.Plan(
            constants={"limit": polycube.u32(after["limit"])},
            writes=[polycube.Write("ports", {polycube.u16(p): b"\1" for p in after.get("list", [])}, replace=True)],
            commit=lambda: self.steps.append(("commit", after["limit"])),
            undo=lambda: self.steps.append(("undo", after["limit"])),
        )

    def abort(self) -> None:
        self.steps.append(("abort",))

    def close(self) -> None:
        self.steps.append(("close",))

    def state(self, path: Sequence[str]) -> polycube.Config | None:
        return {"path": list(path)}

    def delete_state(self, path: Sequence[str]) -> None:
        raise polycube.NotFound(f"{path[-1]} is not there")

    def action(self, path: Sequence[str], input: polycube.Config) -> polycube.Answer | polycube.Config | None:
        if path == ["edit"]:
            return polycube.Answer({"done": True}, [polycube.Edit(["limit"], 7), polycube.Edit(["list", "1"], delete=True)])
        return {"twice": 2 * input["number"]}

    def packet_in(self, packet: polycube.Packet) -> None:
        self.env.send(packet.data[::-1], port=packet.port, after=packet)

    def notify(self, kind: int, data: bytes) -> None:
        self.steps.append(("notify", kind, data))
        self.env.log.warning("kind %d", kind)

    def port_changed(self, port: str, up: bool) -> None:
        self.numbers.set(1, 1)  # in the thread of the session this would wait for itself
        self.steps.append(("port", port, up))

    def parent_changed(self, parent: polycube.Parent) -> None:
        self.steps.append(("parent", parent.name, parent.leaves))


class Least(polycube.Cube):
    """Has what every cube must have."""

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        return polycube.Plan()


def service(cube: type[polycube.Cube] = Everything) -> polycube.Service:
    return polycube.Service("s", "module s {}", {"tc": b"elf", "xdp": b"other"}, cube, deadlines={"commit": 1.5})


class SDKTest(unittest.TestCase):
    def setUp(self) -> None:
        Everything.made = []
        self.daemon = self.enterContext(Daemon(service()))

    def the_cube(self) -> Everything:
        return Everything.made[-1]

    def refused(self, code: grpc.StatusCode, text: str, call: Any, *args: Any) -> None:
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args)
        self.assertEqual(caught.exception.code(), code)
        self.assertIn(text, caught.exception.details())

    def test_a_description_says_what_the_class_defines(self) -> None:
        d = self.daemon.description
        self.assertEqual((d.protocol, d.name, d.model, d.deadlines.commit), (1, "s", "module s {}", 1500))
        self.assertEqual([(o.hook, o.elf) for o in d.objects], [(pb.HOOK_TC, b"elf"), (pb.HOOK_XDP, b"other")])
        announced = ("state", "delete_state", "actions", "packets", "notifications", "ports", "parent")
        self.assertTrue(all(getattr(d, name) for name in announced))
        with Daemon(service(Least)) as other:
            self.assertFalse(any(getattr(other.description, name) for name in announced))
            self.assertFalse(other.change(other.open("c", {}), {}).commit)

    def test_a_change_is_planned_then_carried_out(self) -> None:
        c = self.daemon.open("c", {"limit": 3, "list": [1, 2]})
        self.assertEqual(self.daemon.constants["c"], {"limit": b"\3\0\0\0"})
        self.assertEqual(self.daemon.maps["c"]["ports"], {b"\1\0": b"\1", b"\2\0": b"\1"})
        self.daemon.change(c, {"limit": 4, "list": [2]})
        self.assertEqual(self.daemon.maps["c"]["ports"], {b"\2\0": b"\1"})
        self.daemon.change(c, {"limit": 5}, then="undo")
        self.daemon.change(c, {"limit": 6}, then="abort")
        self.daemon.close(c)
        first, second = {"limit": 3, "list": [1, 2]}, {"limit": 4, "list": [2]}
        self.assertEqual(
            self.the_cube().steps,
            [
                ("prepare", None, first), ("commit", 3), ("prepare", first, second), ("commit", 4),
                ("prepare", second, {"limit": 5}), ("commit", 5), ("undo", 5),
                ("prepare", second, {"limit": 6}), ("abort",), ("close",),
            ],
        )  # fmt: skip

    def test_what_is_raised_is_the_answer(self) -> None:
        c = self.daemon.open("c", {"limit": 1})
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "refuse: it says so", self.daemon.change, c, {"refuse": True})
        with self.assertLogs("polycube"):
            self.refused(grpc.StatusCode.INTERNAL, "ValueError: broken", self.daemon.change, c, {"break": True})
        self.refused(grpc.StatusCode.NOT_FOUND, "x is not there", self.daemon.delete_state, c, "list", "x")
        self.refused(grpc.StatusCode.NOT_FOUND, "cube 99 is not open", self.daemon.state, 99)

    def test_state_and_actions(self) -> None:
        c = self.daemon.open("c", {"limit": 1})
        self.assertEqual(self.daemon.state(c, "a", "b"), {"path": ["a", "b"]})
        self.assertEqual(self.daemon.action(c, ["double"], {"number": 4}).output, b'{"twice":8}')
        answer = self.daemon.action(c, ["edit"], {})
        self.assertEqual([(list(e.path), e.value, e.delete) for e in answer.edits],
                         [(["limit"], b"7", False), (["list", "1"], b"", True)])  # fmt: skip

    def test_packets_go_both_ways_with_their_trip(self) -> None:
        c = self.daemon.open("c", {"limit": 1}, ports={"p1": 3})
        for n in range(20):
            self.daemon.packet(c, bytes([n, 2, 3]), port=3, trip=pb.Trip(hops=n), traffic_class=9)
        self.daemon.wait(lambda: len(self.daemon.sent) == 20)
        self.assertEqual([(p.data, p.port, p.trip.hops, p.traffic_class) for p in self.daemon.sent],
                         [(bytes([3, 2, n]), 3, n, 9) for n in range(20)])  # fmt: skip
        self.assertEqual(self.the_cube().env.port_name(3), "p1")

    def test_what_the_daemon_tells_comes_in_order(self) -> None:
        c = self.daemon.open("c", {"limit": 1})
        del self.the_cube().steps[:]
        for n in range(5):
            self.daemon.tell(pb.ToService(port=pb.PortChanged(cube=c, port=f"p{n}", up=n % 2 == 0)))
        self.daemon.tell(pb.ToService(parent=pb.ParentChanged(cube=c, name="br:p", leaves=b'{"mac":"x"}')))
        self.daemon.tell(pb.ToService(ping=pb.Ping(number=8)))
        self.daemon.wait(lambda: len(self.the_cube().steps) == 6 and self.daemon.pongs == [8])
        expected: list[Any] = [("port", f"p{n}", n % 2 == 0) for n in range(5)]
        self.assertEqual(self.the_cube().steps, [*expected, ("parent", "br:p", {"mac": "x"})])
        self.daemon.notice(c, 4, b"xyz")
        self.daemon.wait(lambda: "kind 4" in self.daemon.sentences())
        self.assertEqual(self.the_cube().steps[-1], ("notify", 4, b"xyz"))
        self.assertEqual(self.daemon.logs[-1].level, "WARN")

    def test_maps_are_read_and_written_in_batches(self) -> None:
        self.daemon.open("c", {"limit": 1})
        numbers = self.the_cube().numbers
        numbers.update({n: n * n for n in range(50)})
        self.assertEqual(dict(numbers.items()), {n: n * n for n in range(50)})
        self.assertEqual(numbers.get(7), 49)
        self.assertIsNone(numbers.get(70))
        self.assertEqual(numbers.get_all(range(45, 55)), {n: n * n for n in range(45, 50)})
        self.assertTrue(numbers.delete(7))
        self.assertFalse(numbers.delete(7))
        self.assertEqual(numbers.take([8, 7]), {8: 64})
        self.assertNotIn(8, numbers)
        self.assertRaises(polycube.Exists, numbers.add, 9, 1)
        self.daemon.room = 48
        self.assertRaisesRegex(polycube.Full, "the map is full", numbers.set, 1000, 1)
        numbers.clear()
        self.assertEqual(list(numbers.keys()), [])

    def test_layouts_are_those_of_C(self) -> None:
        env = self.the_cube_of_new().env
        structs = env.map("structs", Entry, "4sH")
        structs.set(Entry(1, 2), (b"abcd", 5))
        self.assertEqual(self.daemon.maps["c"]["structs"], {b"\1\0\0\0\2\0\0\0": b"abcd\5\0"})
        counters = env.map("counters", "I", polycube.per_cpu("I", env.cpus))
        counters.set(0, [7, 8])
        self.assertEqual(self.daemon.maps["c"]["counters"][bytes(4)], struct.pack("<IxxxxIxxxx", 7, 8))
        self.assertEqual(counters.get(0), [7, 8])
        self.assertRaises(TypeError, env.map, "x", int, "I")
        self.assertEqual(polycube.be16(22) + polycube.u8(True) + polycube.be32(1) + polycube.u64(2),
                         b"\0\x16\1\0\0\0\1\2" + bytes(7))  # fmt: skip

    def the_cube_of_new(self) -> Everything:
        self.daemon.open("c", {"limit": 1})
        return self.the_cube()

    def test_timers_and_metrics_end_with_the_cube(self) -> None:
        c = self.daemon.open("c", {"limit": 1})
        cube, calls = self.the_cube(), []
        stop = cube.env.every(0.001, lambda: calls.append("stopped"))
        self.daemon.wait(lambda: len(calls) > 2)
        stop()
        del calls[:]

        def fail() -> None:
            calls.append("failed")
            raise ValueError("once")

        cube.env.every(0.001, fail)
        self.daemon.wait(lambda: calls.count("failed") > 2)
        self.daemon.close(c)
        count = calls.count("failed")
        self.daemon.wait(lambda: any("timer of the cube failed" in line for line in self.daemon.sentences()))
        self.assertLessEqual(calls.count("failed"), count + 1)
        cube.env.metrics([polycube.Metric("knocks", 3, "Knocks.", counter=True, labels={"from": "x"})])
        self.daemon.wait(lambda: bool(self.daemon.metrics))
        m = self.daemon.metrics["c"][0]
        self.assertEqual((m.name, m.value, m.kind, dict(m.labels)), ("knocks", 3, pb.Metric.KIND_COUNTER, {"from": "x"}))

    def test_cubes_end_with_their_session(self) -> None:
        cube = self.the_cube_of_new()
        self.daemon.tell(None)
        self.daemon.wait(lambda: cube.steps[-1] == ("close",))
        self.assertRaises(polycube.Lost, cube.numbers.set, 1, 1)


if __name__ == "__main__":
    unittest.main()
