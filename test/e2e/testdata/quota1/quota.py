# SPDX-License-Identifier: Apache-2.0
"""Version 1.0 of examples/services/quota, for the test that upgrades it."""

from ipaddress import IPv6Address
from pathlib import Path
from typing import Sequence

import polycube


class Quota(polycube.Cube):
    """A cube."""

    def __init__(self, env: polycube.Env) -> None:
        super().__init__(env)
        # struct usage: bytes, start
        self.sources: polycube.Map[bytes, tuple[int, int]] = env.map("sources", "16s", "QQ")

    def prepare(self, old: polycube.Config | None, after: polycube.Config) -> polycube.Plan:
        """The configuration is two constants."""
        constants = {"quota": polycube.u64(int(after["bytes"])), "period": polycube.u64(after["period"] * 10**9)}
        return polycube.Plan(constants=constants)

    def state(self, path: Sequence[str]) -> polycube.Config | None:
        """Lists the sources."""
        if path and path[0] != "sources":
            return None
        sources = [(IPv6Address(key), used) for key, (used, _) in self.sources.items()]
        return {"sources": {"source": [{"address": str(a.ipv4_mapped or a), "bytes": str(n)} for a, n in sources]}}


if __name__ == "__main__":
    polycube.serve(polycube.Service.from_files("quota", Path(__file__).parent, Quota))
