# SPDX-License-Identifier: Apache-2.0
"""The control plane before a daemon in memory. What the program does is tested with packets, in test/e2e."""

import struct
import unittest
from ipaddress import ip_address
from typing import Any

from polycube._api import service_pb2 as pb
from polycube.testing import Daemon
from polycube_quota import quota

CONFIG: dict[str, Any] = {"bytes": "5000", "period": 60}
ALICE, BOB = "10.0.0.1", "2001:db8::2"


def key(address: str) -> bytes:
    return quota.key_of(ip_address(address))


class QuotaTest(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(Daemon(quota.service()))
        self.cube = self.daemon.open("q", CONFIG)
        self.daemon.maps["q"] = {
            "sources": {key(ALICE): struct.pack("<4Q", 1, 4900, 49, 3), key(BOB): struct.pack("<4Q", 2, 60, 1, 0)}
        }

    def addresses(self) -> list[str]:
        return sorted(s["address"] for s in self.daemon.state(self.cube)["sources"]["source"])

    def test_the_configuration_is_two_constants(self) -> None:
        self.assertEqual(
            self.daemon.constants["q"], {"quota": struct.pack("<Q", 5000), "period": struct.pack("<Q", 60 * 10**9)}
        )

    def test_the_state_lists_the_sources(self) -> None:
        state = self.daemon.state(self.cube, "sources")["sources"]["source"]
        self.assertIn({"address": ALICE, "bytes": "4900", "packets": "49", "dropped": "3"}, state)
        self.assertIn({"address": BOB, "bytes": "60", "packets": "1", "dropped": "0"}, state)
        self.assertEqual(
            self.daemon.state(self.cube, "sources", "source", BOB)["sources"]["source"],
            [{"address": BOB, "bytes": "60", "packets": "1", "dropped": "0"}],
        )
        self.assertIsNone(self.daemon.state(self.cube, "sources", "source", "10.0.0.9"))
        self.assertIsNone(self.daemon.state(self.cube, "period"))

    def test_the_list_is_read_in_pages(self) -> None:
        first, after = self.daemon.page(self.cube, "sources", "source", limit=1)
        second, end = self.daemon.page(self.cube, "sources", "source", after=after, limit=1)
        self.assertEqual(sorted(e["address"] for e in first + second), [ALICE, BOB])
        self.assertEqual(end, "")

    def test_reset(self) -> None:
        def reset(**given: str) -> bytes:
            output: bytes = self.daemon.action(self.cube, ["sources", "reset"], given).output
            return output

        self.assertEqual(reset(address=BOB), b'{"reset":1}')
        self.assertEqual(self.addresses(), [ALICE])
        self.assertEqual(reset(address=BOB), b'{"reset":0}')
        self.assertEqual(reset(), b'{"reset":1}')
        self.assertEqual(self.addresses(), [])

    def test_a_source_without_quota_is_logged(self) -> None:
        self.daemon.notice(self.cube, 7, b"another kind")
        self.daemon.notice(self.cube, quota.EXCEEDED, key(BOB) + bytes(8))
        self.daemon.wait(lambda: f"{BOB} has used up its quota" in self.daemon.sentences())
        self.assertEqual(len(self.daemon.logs), 1)

    def test_version_1_goes_on(self) -> None:
        old, new = pb.MapInfo(key_size=16, value_size=16), pb.MapInfo(key_size=16, value_size=32)
        self.assertEqual(
            self.daemon.migrate("sources", old, new, {key(ALICE): struct.pack("<QQ", 4900, 77)}),
            {key(ALICE): struct.pack("<4Q", 77, 4900, 0, 0)},
        )


if __name__ == "__main__":
    unittest.main()
