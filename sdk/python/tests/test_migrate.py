# SPDX-License-Identifier: Apache-2.0
"""Entries of earlier layouts of a map."""

import ctypes
import struct
import unittest
from typing import Any

import grpc

import polycube
from polycube._api import service_pb2 as pb
from polycube.testing import Daemon


class Count(ctypes.LittleEndianStructure):
    """struct { __u64 bytes; __u8 kind; } with its padding."""

    _fields_ = [("bytes", ctypes.c_uint64), ("kind", ctypes.c_uint8)]


class Least(polycube.Cube):
    """Has what every cube must have."""

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        return polycube.Plan()


def first(key: int, value: tuple[int, int]) -> tuple[int, Count] | None:
    packets, octets = value
    if packets == 0:
        return None
    if packets == 666:
        raise polycube.Invalid("this one brings bad luck")
    return key, Count(octets // (packets - 1), 7)


MIGRATIONS = (
    polycube.Migration("counts", old=("H", "II"), new=("I", Count), entry=first),
    polycube.Migration("counts", old=("H", "I"), new=("I", Count), entry=lambda key, value: (key, Count(value, 1))),
    polycube.Migration("per_cpu", old=("H", "I"), new=("H", "II"), entry=lambda key, value: (key, (value, 1))),
    polycube.Migration("per_cpu", old=("H", "H"), new=("H", "II"), entry=lambda key, value: (value, (0, 0))),
)


def info(key: int, value: int, per_cpu: bool = False) -> Any:
    return pb.MapInfo(key_size=key, value_size=value, per_cpu=per_cpu)


class MigrateTest(unittest.TestCase):
    def setUp(self) -> None:
        service = polycube.Service("s", "module s {}", {"tc": b"elf"}, Least, migrations=MIGRATIONS)
        self.daemon = self.enterContext(Daemon(service))

    def refused(self, code: grpc.StatusCode, text: str, *args: Any) -> None:
        with self.assertRaises(grpc.RpcError) as caught:
            self.daemon.migrate(*args)
        self.assertEqual(caught.exception.code(), code)
        self.assertIn(text, caught.exception.details())

    def test_the_description_announces_it(self) -> None:
        self.assertTrue(self.daemon.description.migrate)
        with Daemon(polycube.Service("s", "module s {}", {"tc": b"elf"}, Least)) as other:
            self.assertFalse(other.description.migrate)

    def test_entries_are_converted_by_the_layout_that_fits(self) -> None:
        old = {struct.pack("<H", 1): struct.pack("<II", 2, 258), struct.pack("<H", 2): bytes(8)}
        self.assertEqual(
            self.daemon.migrate("counts", info(2, 8), info(4, 16), old),
            {struct.pack("<I", 1): struct.pack("<QBxxxxxxx", 258, 7)},
        )
        self.assertEqual(
            self.daemon.migrate("counts", info(2, 4), info(4, 16), {b"\1\0": b"\3\0\0\0"}),
            {struct.pack("<I", 1): struct.pack("<QBxxxxxxx", 3, 1)},
        )
        self.assertEqual(self.daemon.migrate("counts", info(2, 8), info(4, 16), {}), {})

    def test_the_values_of_all_cpus_are_converted(self) -> None:
        old = {b"\1\0": struct.pack("<IxxxxIxxxx", 5, 6)}
        self.assertEqual(
            self.daemon.migrate("per_cpu", info(2, 4, True), info(2, 8, True), old),
            {b"\1\0": struct.pack("<IIII", 5, 1, 6, 1)},
        )
        keys = {b"\1\0": struct.pack("<HxxxxxxHxxxxxx", 5, 6)}
        self.refused(
            grpc.StatusCode.INVALID_ARGUMENT, "two CPUs have different keys",
            "per_cpu", info(2, 2, True), info(2, 8, True), keys,
        )  # fmt: skip
        self.refused(
            grpc.StatusCode.UNIMPLEMENTED, "per-CPU map and of another one", "per_cpu", info(2, 4, True), info(2, 8), {}
        )

    def test_what_cannot_be_converted_is_refused(self) -> None:
        old, new = info(2, 8), info(4, 16)
        bad = {b"\1\0": struct.pack("<II", 666, 0)}
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "this one brings bad luck", "counts", old, new, bad)
        with self.assertLogs("polycube"):
            self.refused(
                grpc.StatusCode.INTERNAL, "ZeroDivisionError", "counts", old, new, {b"\1\0": struct.pack("<II", 1, 9)}
            )
        none = "no migration from keys of 2 and values of 9 bytes"
        self.refused(grpc.StatusCode.UNIMPLEMENTED, none, "counts", info(2, 9), new, {})
        self.refused(grpc.StatusCode.UNIMPLEMENTED, "PCN_DISPOSABLE", "others", old, new, {})
        self.refused(
            grpc.StatusCode.INVALID_ARGUMENT, "makes entries of 4 and 16 bytes, the map has 4 and 12",
            "counts", old, info(4, 12), {},
        )  # fmt: skip


if __name__ == "__main__":
    unittest.main()
