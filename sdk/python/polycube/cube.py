# SPDX-License-Identifier: Apache-2.0
"""What a service author writes: a class with the methods that the network function needs."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Callable, Mapping, Sequence

from ._api import service_pb2 as pb
from .layout import LayoutLike
from .maps import Map
from .session import Session

#: A cube's configuration, as the model says: what json.loads makes of it.
Config = dict[str, Any]


class Direction(IntEnum):
    """Which way a packet goes: ingress is from the wire towards the cube."""

    INGRESS = pb.DIRECTION_INGRESS
    EGRESS = pb.DIRECTION_EGRESS

    @property
    def name_in_protocol(self) -> str:
        """The protocol's word for it."""
        return f"DIRECTION_{self.name}"


@dataclass(frozen=True)
class Program:
    """A function of the service's objects at an index of a direction; packets enter at 0. An empty name takes it away."""

    direction: Direction
    index: int
    function: str


@dataclass
class Write:
    """Entries that the daemon writes with the change, and puts back if it comes to nothing. A value of None deletes."""

    map: str
    entries: Mapping[bytes, bytes | None]
    #: Delete first what is in the map and not in entries.
    replace: bool = False


def nothing() -> None:
    """What a plan does that has nothing to do."""


@dataclass
class Plan:
    """What carries a change of configuration out. Nothing may change before."""

    #: Values of PCN_CONFIG variables by C name, in their C layout: u32(3).
    constants: dict[str, bytes] = field(default_factory=dict)
    #: Other max_entries of maps, by C name.
    map_sizes: dict[str, int] = field(default_factory=dict)
    programs: Sequence[Program] = ()
    writes: Sequence[Write] = ()
    #: Called when the programs with the new constants are loaded and before packets see them; if it raises, it must have
    #: changed nothing.
    commit: Callable[[], None] = nothing
    #: Reverses commit, when something behind it failed.
    undo: Callable[[], None] = nothing


@dataclass(frozen=True)
class Edit:
    """A change of configuration that an action asks for: a value merged at a path, or what is there deleted."""

    path: Sequence[str]
    value: Any = None
    delete: bool = False


@dataclass(frozen=True)
class Answer:
    """What an action answers, and what it changes."""

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
    """Where a transparent cube is; an empty name is nowhere."""

    name: str = ""
    peer: str = ""
    netdev: str = ""
    index: int = 0
    mac: bytes = b""
    addresses: tuple[str, ...] = ()
    mtu: int = 0
    leaves: Config | None = None


@dataclass(frozen=True)
class Metric:
    """A number that /metrics shows of the cube."""

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
    """What a cube has of the daemon."""

    def __init__(self, session: Session, request: Any) -> None:
        self._session, self.number = session, request.cube
        self.name: str = request.name
        self.uuid: str = request.uuid
        #: TC, XDP_SKB or XDP_DRV.
        self.type: str = request.type
        #: The cube was there before, and its maps may have entries.
        self.taken_over: bool = request.taken_over
        self.lock = threading.RLock()
        self.ports: dict[str, int] = {}
        self._ended = threading.Event()
        self.log = logging.Logger(f"polycube.{self.name}", logging.DEBUG)
        self.log.addHandler(_ToDaemon(session, self.number))

    @property
    def cpus(self) -> int:
        """CPUs that the machine can have: the values of an entry in a per-CPU map."""
        return max(1, int(self._session.hello.cpus))

    def map(self, name: str, key: LayoutLike, value: LayoutLike) -> Map[Any, Any]:
        """One of the cube's maps by its C name."""
        return Map(self._session, self.number, name, key, value)

    def inner(self, name: str, at: bytes, key: LayoutLike, value: LayoutLike) -> Map[Any, Any]:
        """The map inside a map of maps at a key."""
        return Map(self._session, self.number, name, key, value, at)

    def send(
        self,
        data: bytes,
        port: int = 0,
        direction: Direction = Direction.EGRESS,
        *,
        after: Packet | None = None,
        recirculate: bool = False,
    ) -> None:
        """Puts a packet into the fast path. One that goes on names the packet it was."""
        out = pb.PacketOut(
            cube=self.number, port=port, direction=direction.name_in_protocol, recirculate=recirculate, data=data
        )
        if after is not None:
            out.trip.CopyFrom(after.trip)
            out.traffic_class = after.traffic_class
        self._session.send_packet(out)

    def port_name(self, index: int) -> str | None:
        """The port that programs know by a number."""
        return next((name for name, i in self.ports.items() if i == index), None)

    def change_programs(self, changes: Sequence[Program]) -> None:
        """Changes programs in one step, not as part of a plan."""
        request = [program_change(p) for p in changes]
        self._session.request(
            lambda n: pb.ToDaemon(programs=pb.ProgramsRequest(id=n, cube=self.number, changes=request))
        )

    def metrics(self, metrics: Sequence[Metric]) -> None:
        """Replaces what /metrics shows of the cube."""
        series = [
            pb.Metric(name=m.name, help=m.help, kind=KINDS[m.counter], labels=dict(m.labels), value=m.value)
            for m in metrics
        ]
        self._session.out.put(pb.ToDaemon(metrics=pb.Metrics(cube=self.number, metrics=series)))

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Calls a function each time that so many seconds have passed, in turn with the cube's methods, until the cube is
        closed or what is returned is called."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(seconds) and not self._ended.is_set():
                with self.lock:
                    if stop.is_set() or self._ended.is_set():
                        return
                    try:
                        call()
                    except Exception:  # a fault of one call is not the end of the others
                        self.log.exception("a timer of the cube failed")

        threading.Thread(target=run, name=f"timer of {self.name}", daemon=True).start()
        return stop.set

    def end(self) -> None:
        """Stops the timers."""
        self._ended.set()


def program_change(p: Program) -> Any:
    """The protocol's form of a program."""
    return pb.ProgramChange(direction=p.direction.name_in_protocol, index=p.index, function=p.function)


class Cube:
    """The control plane of one cube. Its methods are called one at a time. Those that a class does not define are not
    asked for; prepare is the only one that each must have. What a method raises ends the request with its sentence: one of
    polycube.errors says what kind it is."""

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
        """State (config false), shaped like the cube's tree. path is what is asked for; empty is everything."""
        raise NotImplementedError

    def delete_state(self, path: Sequence[str]) -> None:
        """Deletes a list entry that is state; NotFound if there is none.

        One that is refused with Invalid, InUse or Unsupported stays when its whole list is deleted. For a list of state that
        the model marks deletable, path may be that of the list: delete every entry, or raise NotFound to be asked for each.
        """
        raise NotImplementedError

    def action(self, path: Sequence[str], input: Config) -> Answer | Config | None:
        """Runs an action of the model."""
        raise NotImplementedError

    def packet_in(self, packet: Packet) -> None:
        """Takes a packet that a program gave to pcn_pkt_controller or pcn_pkt_copy."""
        raise NotImplementedError

    def notify(self, kind: int, data: bytes) -> None:
        """Takes a message of pcn_notify."""
        raise NotImplementedError

    def port_changed(self, port: str, up: bool) -> None:
        """A port got or lost its peer."""
        raise NotImplementedError

    def parent_changed(self, parent: Parent) -> None:
        """A transparent cube was attached or detached, or what it inherits changed."""
        raise NotImplementedError


def defines(cube: type[Cube], method: str) -> bool:
    """Whether a class brings a method of its own."""
    return getattr(cube, method) is not getattr(Cube, method)


def document(value: Any) -> bytes:
    """JSON for the daemon; None is nothing."""
    return b"" if value is None else json.dumps(value, separators=(",", ":")).encode()
