# SPDX-License-Identifier: Apache-2.0
"""Write Polycube services in Python: a model, a program in C, and a class with the methods that the function needs."""

from .cube import Answer, Config, Cube, Direction, Edit, Env, Metric, Packet, Parent, Plan, Program, Write
from .errors import Exists, Full, Invalid, InUse, Lost, NotFound, PolycubeError, Unsupported
from .layout import Layout, be16, be32, layout, u8, u16, u32, u64
from .maps import Map, per_cpu
from .migrate import Migration
from .ring import Ring, RingPacket
from .service import Service, serve, server

__all__ = [
    "Answer", "Config", "Cube", "Direction", "Edit", "Env", "Exists", "Full", "InUse", "Invalid", "Layout", "Lost", "Map",
    "Metric", "Migration", "NotFound", "Packet", "Parent", "Plan", "PolycubeError", "Program", "Ring", "RingPacket", "Service",
    "Unsupported", "Write",
    "be16", "be32", "layout", "per_cpu", "serve", "server", "u16", "u32", "u64", "u8",
]
