# SPDX-License-Identifier: Apache-2.0
"""The base class for service authors, with the methods of a network function."""

from __future__ import annotations

import json
import logging
import mmap
import os
import threading
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Callable, Mapping, Sequence

from ._api import service_pb2 as pb
from .layout import LayoutLike
from .maps import Map
from .ring import Ring, descriptors
from .session import Session

#: A cube's configuration according to the model, as returned by json.loads.
Config = dict[str, Any]


class Direction(IntEnum):
    """The direction of a packet: ingress is from the wire towards the cube."""

    INGRESS = pb.DIRECTION_INGRESS
    EGRESS = pb.DIRECTION_EGRESS

    @property
    def name_in_protocol(self) -> str:
        """The protocol's value."""
        return f"DIRECTION_{self.name}"


@dataclass(frozen=True)
class Program:
    """A function of the service's objects at an index of a direction; packets enter at 0. An empty name removes it."""

    direction: Direction
    index: int
    function: str


@dataclass
class Write:
    """Entries that the daemon writes with the change, and restores if it fails. A value of None deletes."""

    map: str
    entries: Mapping[bytes, bytes | None]
    #: First delete all entries of the map that are not in entries.
    replace: bool = False


@dataclass(frozen=True)
class FloodSet:
    """A set of ports, by their numbers; one without members is deleted."""

    #: Members that get the frame without the tag that the program specifies, and those that get it with the tag.
    ports: Sequence[int] = ()
    tagged: Sequence[int] = ()


@dataclass(frozen=True)
class Floods:
    """Sets of ports for pcn_pkt_flood_set, by index. Each of them is replaced in one step."""

    sets: Mapping[int, FloodSet]
    #: Delete all sets that are not in sets.
    replace: bool = False

    def message(self) -> Any:
        """The protocol message."""
        sets = [pb.FloodSet(index=i, ports=s.ports, tagged=s.tagged) for i, s in sorted(self.sets.items())]
        return pb.FloodWrite(sets=sets, replace=self.replace)


def nothing() -> None:
    """The action of an empty plan."""


@dataclass
class Plan:
    """A plan carries out a change of configuration. Nothing may change before."""

    #: Values of PCN_CONFIG variables by C name, in their C layout: u32(3).
    constants: dict[str, bytes] = field(default_factory=dict)
    #: Other max_entries of maps, by C name.
    map_sizes: dict[str, int] = field(default_factory=dict)
    programs: Sequence[Program] = ()
    writes: Sequence[Write] = ()
    #: Made by the daemon after the change: once it is durable and no packet runs the programs of before. They free what only
    #: these used, and cannot refuse the change.
    after: Sequence[Write] = ()
    #: Sets of ports; they are replaced and restored like writes.
    floods: Floods | None = None
    #: Called when the programs with the new constants are loaded and before packets see them; if it raises, it must have
    #: changed nothing.
    commit: Callable[[], None] = nothing
    #: Reverses commit, if a later step failed.
    undo: Callable[[], None] = nothing


@dataclass(frozen=True)
class Edit:
    """A change of configuration requested by an action: a value merged at a path, or the node deleted."""

    path: Sequence[str]
    value: Any = None
    delete: bool = False


@dataclass(frozen=True)
class Answer:
    """The output of an action, and its changes."""

    output: Any = None
    edits: Sequence[Edit] = ()


@dataclass(frozen=True)
class Packet:
    """A packet from the fast path."""

    port: int
    direction: Direction
    reason: int
    metadata: tuple[int, ...]
    traffic_class: int
    length: int
    data: bytes
    trip: Any


@dataclass(frozen=True)
class Parent:
    """The parent of a transparent cube; an empty name means that it is not attached."""

    name: str = ""
    peer: str = ""
    netdev: str = ""
    index: int = 0
    mac: bytes = b""
    addresses: tuple[str, ...] = ()
    mtu: int = 0
    leaves: Config | None = None


@dataclass(frozen=True)
class Peer:
    """The peer of a port of a standard cube; an empty name means that it has none. The rest describes a netdev."""

    name: str = ""
    netdev: str = ""
    index: int = 0
    mac: bytes = b""
    addresses: tuple[str, ...] = ()
    mtu: int = 0
    #: In Mbit/s, 0 while it is unknown.
    speed: int = 0


@dataclass(frozen=True)
class Route:
    """The way on which the host sends packets."""

    netdev: str
    index: int
    #: Next hop, empty if the destination is on the link.
    gateway: str
    source: str
    #: MAC address of the next hop or the destination, empty while the kernel does not know it.
    mac: bytes
    mtu: int


@dataclass(frozen=True)
class Page:
    """A part of a list of state."""

    entries: Sequence[Config]
    #: Position of the next page, empty if there is none.
    next: str = ""


@dataclass(frozen=True)
class Metric:
    """A metric of the cube on /metrics."""

    name: str
    value: float
    help: str = ""
    counter: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


KINDS = {False: pb.Metric.KIND_GAUGE, True: pb.Metric.KIND_COUNTER}


class _ToDaemon(logging.Handler):
    """Lines of a cube's logger go to the daemon's log."""

    LEVELS = ((50, "CRITICAL"), (40, "ERR"), (30, "WARN"), (20, "INFO"), (10, "DEBUG"), (0, "TRACE"))

    def __init__(self, session: Session, cube: int) -> None:
        super().__init__()
        self._session, self._cube = session, cube

    def emit(self, record: logging.LogRecord) -> None:
        level = next(name for least, name in self.LEVELS if record.levelno >= least)
        line = pb.Log(cube=self._cube, level=level, message=self.format(record)[:1024])
        self._session.out.put(pb.ToDaemon(log=line))


class Env:
    """The interface from a cube to the daemon."""

    def __init__(self, session: Session, request: Any) -> None:
        self._session, self.number = session, request.cube
        self.name: str = request.name
        self.uuid: str = request.uuid
        #: TC, XDP_SKB or XDP_DRV.
        self.type: str = request.type
        #: The cube existed before, and its maps may have entries.
        self.taken_over: bool = request.taken_over
        self.lock = threading.RLock()
        self.ports: dict[str, int] = {}
        self._ended = threading.Event()
        self._rings: list[Ring] = []
        self.log = logging.Logger(f"polycube.{self.name}", logging.DEBUG)
        self.log.addHandler(_ToDaemon(session, self.number))

    @property
    def cpus(self) -> int:
        """The number of possible CPUs: the number of values of an entry in a per-CPU map."""
        return max(1, int(self._session.hello.cpus))

    def map(self, name: str, key: LayoutLike, value: LayoutLike) -> Map[Any, Any]:
        """One of the cube's maps by its C name."""
        return Map(self._session, self.number, name, key, value)

    def inner(self, name: str, at: bytes, key: LayoutLike, value: LayoutLike) -> Map[Any, Any]:
        """The inner map of a map of maps at a key."""
        return Map(self._session, self.number, name, key, value, at)

    def ring(self, name: str) -> Ring:
        """The ring of the cube, by the name in PCN_RING, from the first commit on. It is closed with the cube."""
        buffer, info = self._descriptor(name)
        try:
            page, _ = self._descriptor(name + "_reader")
        except BaseException:
            os.close(buffer)
            raise
        ring = Ring(name, buffer, page, info.max_entries)
        self._rings.append(ring)
        return ring

    def memory(self, name: str) -> mmap.mmap:
        """An array with the flag BPF_F_MMAPABLE, from the first commit on: not a copy, but the memory that programs use.
        memoryview(m).cast("Q") has its 64-bit words. What is written there is not undone when a change fails."""
        array, info = self._descriptor(name)
        try:
            return mmap.mmap(array, info.max_entries * ((info.value_size + 7) // 8 * 8), mmap.MAP_SHARED)
        finally:
            os.close(array)

    def _descriptor(self, name: str) -> tuple[int, Any]:
        """The descriptor of a map, and its properties."""
        numbers: list[int] = []

        def wrap(number: int) -> Any:
            numbers.append(number)
            return pb.ToDaemon(map=pb.MapRequest(id=number, cube=self.number, map=name, share=pb.MapShare()))

        with descriptors.lock:
            reply = self._session.request(wrap)
            return descriptors.receive(numbers[0]), reply.info

    def send(
        self,
        data: bytes,
        port: int = 0,
        direction: Direction = Direction.EGRESS,
        *,
        after: Packet | None = None,
        recirculate: bool = False,
    ) -> None:
        """Sends a packet to the fast path. One that continues names the received packet."""
        out = pb.PacketOut(
            cube=self.number, port=port, direction=direction.name_in_protocol, recirculate=recirculate, data=data
        )
        if after is not None:
            out.trip.CopyFrom(after.trip)
            out.traffic_class = after.traffic_class
        self._session.send_packet(out)

    def port_name(self, index: int) -> str | None:
        """The port with a number in programs."""
        return next((name for name, i in self.ports.items() if i == index), None)

    def change_programs(self, changes: Sequence[Program]) -> None:
        """Changes programs in one step, not as part of a plan."""
        request = [program_change(p) for p in changes]
        self._session.request(
            lambda n: pb.ToDaemon(programs=pb.ProgramsRequest(id=n, cube=self.number, changes=request))
        )

    def floods(self, floods: Floods) -> None:
        """Replaces sets of ports, not as part of a plan."""
        write = floods.message()
        self._session.request(
            lambda n: pb.ToDaemon(floods=pb.FloodsRequest(id=n, cube=self.number, write=write))
        )

    def route(self, destination: str) -> Route:
        """The way to an address, according to the routes of the daemon's network namespace; NotFound if there is none."""
        r = self._session.request(lambda n: pb.ToDaemon(route=pb.RouteRequest(id=n, destination=destination)))
        return Route(r.netdev, r.index, r.gateway, r.source, r.mac, r.mtu)

    def metrics(self, metrics: Sequence[Metric]) -> None:
        """Replaces the cube's own metrics on /metrics."""
        series = [
            pb.Metric(name=m.name, help=m.help, kind=KINDS[m.counter], labels=dict(m.labels), value=m.value)
            for m in metrics
        ]
        self._session.out.put(pb.ToDaemon(metrics=pb.Metrics(cube=self.number, metrics=series)))

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Calls a function periodically, in turn with the cube's methods, until the cube is closed or the returned function
        is called."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(seconds) and not self._ended.is_set():
                with self.lock:
                    if stop.is_set() or self._ended.is_set():
                        return
                    try:
                        call()
                    except Exception:  # an error of one call does not stop the others
                        self.log.exception("a timer of the cube failed")

        threading.Thread(target=run, name=f"timer of {self.name}", daemon=True).start()
        return stop.set

    def end(self) -> None:
        """Stops the timers and closes the rings."""
        self._ended.set()
        for ring in self._rings:
            ring.close()


def program_change(p: Program) -> Any:
    """The protocol message of a program."""
    return pb.ProgramChange(direction=p.direction.name_in_protocol, index=p.index, function=p.function)


class Cube:
    """The control plane of one cube. Its methods are called one at a time. Methods that a class does not define are not
    called; only prepare is required. An exception ends the request with its message: those of polycube.errors set the
    kind of error."""

    def __init__(self, env: Env) -> None:
        self.env = env

    def prepare(self, old: Config | None, after: Config) -> Plan:
        """Checks the step from one configuration to another and plans it; nothing may change yet. Old is None for a new
        cube."""
        raise NotImplementedError

    def abort(self) -> None:
        """The plan of the last prepare will not be carried out."""

    def close(self) -> None:
        """The cube was deleted, or the daemon is gone; maps stay."""

    def state(self, path: Sequence[str]) -> Config | None:
        """State (config false), shaped like the cube's tree. path is the requested node; empty is everything."""
        raise NotImplementedError

    def page(self, path: Sequence[str], after: str, limit: int) -> Page:
        """A part of a list of state that the model marks `paged`: up to limit entries after a position, "" for the beginning.

        Such a list is only read through page; state is called for single entries, and may omit the list otherwise.
        Map.page reads a map in this way.
        """
        raise NotImplementedError

    def delete_state(self, path: Sequence[str]) -> None:
        """Deletes a list entry that is state; NotFound if there is none.

        An entry refused with Invalid, InUse or Unsupported stays when its whole list is deleted. For a list of state that
        the model marks deletable, path may be that of the list: delete every entry, or raise NotFound to be called for
        each.
        """
        raise NotImplementedError

    def action(self, path: Sequence[str], input: Config) -> Answer | Config | None:
        """Runs an action of the model."""
        raise NotImplementedError

    def packet_in(self, packet: Packet) -> None:
        """Receives a packet that a program sent with pcn_pkt_controller or pcn_pkt_copy."""
        raise NotImplementedError

    def notify(self, kind: int, data: bytes) -> None:
        """Receives a message of pcn_notify."""
        raise NotImplementedError

    def port_changed(self, port: str, up: bool) -> None:
        """A port got or lost its peer."""
        raise NotImplementedError

    def peer_changed(self, port: str, peer: Peer) -> None:
        """A port of a standard cube has another peer, or the peer's netdev has changed.

        It is also called for each port that has a peer when the cube is opened. Several changes may be reported in one
        call.
        """
        raise NotImplementedError

    def link_changed(self, port: str, up: bool) -> None:
        """The link of a port went up or down: it is up while the port has its peer and a netdev there has carrier."""
        raise NotImplementedError

    def parent_changed(self, parent: Parent) -> None:
        """A transparent cube was attached or detached, or its inherited properties changed."""
        raise NotImplementedError


def defines(cube: type[Cube], method: str) -> bool:
    """Whether a class overrides a method."""
    return getattr(cube, method) is not getattr(Cube, method)


def document(value: Any) -> bytes:
    """JSON for the daemon; None is nothing."""
    return b"" if value is None else json.dumps(value, separators=(",", ":")).encode()
