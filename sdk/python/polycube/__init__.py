# SPDX-License-Identifier: Apache-2.0
"""Write Polycube services in Python: a model, a program in C, and a class with the methods that the function needs."""

from .cube import (
    Answer, Config, Cube, Direction, Edit, Env, Floods, FloodSet, Metric, Packet, Page, Parent, Peer, Plan, Program, Route, Write,
)  # fmt: skip
from .errors import Exists, Full, Invalid, InUse, Lost, NotFound, PolycubeError, Stale, Unsupported
from .layout import Layout, be16, be32, layout, u8, u16, u32, u64
from .maps import Map, per_cpu
from .migrate import Migration
from .ring import Ring, RingPacket
from .service import Service, serve, server

__all__ = [
    "Answer", "Config", "Cube", "Direction", "Edit", "Env", "Exists", "FloodSet", "Floods", "Full", "InUse", "Invalid",
    "Layout", "Lost", "Map", "Metric", "Migration", "NotFound", "Packet", "Page", "Parent", "Peer", "Plan", "PolycubeError",
    "Program", "Ring", "RingPacket", "Route", "Service", "Stale", "Unsupported", "Write", "be16", "be32", "layout", "per_cpu",
    "serve", "server", "u16", "u32", "u64", "u8",
]
