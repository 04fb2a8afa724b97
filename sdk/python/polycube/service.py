# SPDX-License-Identifier: Apache-2.0
"""The server side of the protocol: it manages the cubes of all sessions and calls their methods one at a time."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import grpc

from . import cube as cubes
from . import errors
from ._api import service_pb2 as pb
from ._api import service_pb2_grpc as rpc
from .migrate import Migration, find
from .session import Session as Connection

#: The highest supported version of the protocol.
PROTOCOL = 1

SOCKET = "POLYCUBE_SERVICE_SOCKET"
MESSAGE = 32 << 20

#: Maximum number of concurrent calls and streams. A session uses two as long as it exists.
WORKERS = 64

log = logging.getLogger("polycube")


@dataclass
class Service:
    """A type of network function."""

    name: str
    #: Text of the YANG module.
    model: str
    #: The compiled programs (ELF), by "tc" and "xdp".
    objects: Mapping[str, bytes]
    #: The control plane of a cube.
    cube: type[cubes.Cube]
    max_ports: int = 0
    min_kernel: str = ""
    #: Time limits of calls in seconds, by "prepare", "commit", "state" and "action"; the daemon's defaults for the rest.
    deadlines: Mapping[str, float] = field(default_factory=dict)
    #: Conversions of the maps whose layout differs from that of an earlier version. Without the one for a map, cubes of that
    #: version refuse the new one, unless the map is declared with PCN_DISPOSABLE.
    migrations: Sequence[Migration] = ()

    @classmethod
    def from_files(cls, name: str, directory: Path, cube: type[cubes.Cube], **more: Any) -> Service:
        """A service whose files are NAME.yang, NAME.tc.o and, if it has one, NAME.xdp.o."""
        objects = {}
        for hook in ("tc", "xdp"):
            path = directory / f"{name}.{hook}.o"
            if path.exists():
                objects[hook] = path.read_bytes()
        if not objects:
            raise FileNotFoundError(f"{directory / name}.tc.o: there are no compiled programs (run make generate)")
        model = (directory / f"{name}.yang").read_text()
        return cls(name=name, model=model, objects=objects, cube=cube, **more)

    def describe(self) -> Any:
        """The description for the daemon."""
        hooks = {"tc": pb.HOOK_TC, "xdp": pb.HOOK_XDP}
        has = {
            name: cubes.defines(self.cube, method)
            for name, method in (
                ("state", "state"),
                ("delete_state", "delete_state"),
                ("actions", "action"),
                ("packets", "packet_in"),
                ("notifications", "notify"),
                ("ports", "port_changed"),
                ("parent", "parent_changed"),
                ("pages", "page"),
                ("peers", "peer_changed"),
                ("links", "link_changed"),
            )
        }
        return pb.Description(
            protocol=PROTOCOL,
            name=self.name,
            model=self.model,
            objects=[pb.Object(hook=hooks[h], elf=elf) for h, elf in self.objects.items()],
            max_ports=self.max_ports,
            min_kernel=self.min_kernel,
            migrate=bool(self.migrations),
            deadlines=pb.Deadlines(**{k: int(v * 1000) for k, v in self.deadlines.items()}),
            **has,
        )


#: What the methods of a cube are called with, for the daemon's events.
EVENTS: Mapping[str, Callable[[cubes.Cube, Any], None]] = {
    "port": lambda c, e: c.port_changed(e.port, e.up),
    "parent": lambda c, e: c.parent_changed(_parent(e)),
    "peer": lambda c, e: c.peer_changed(e.port, _peer(e)),
    "link": lambda c, e: c.link_changed(e.port, e.up),
}


@dataclass
class _Open:
    """An open cube, and its plans that may still be committed or undone."""

    cube: cubes.Cube
    env: cubes.Env
    session: Connection
    plans: dict[int, cubes.Plan] = field(default_factory=dict)


class Servicer(rpc.ServiceServicer):  # type: ignore[misc]
    """Implements the protocol for a Service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._lock = threading.Lock()
        self._cubes: dict[int, _Open] = {}
        self._sessions: dict[str, Connection] = {}
        self._unserved: list[Connection] = []  # sessions without a stream of packets

    # Description.

    def Describe(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Describes the service."""
        if request.protocol < PROTOCOL:
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED,
                f"the daemon uses version {request.protocol} of the protocol, the service version {PROTOCOL}",
            )
        return self.service.describe()

    # Streams.

    def Session(self, incoming: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """Runs a session until the daemon ends it."""
        first = next(incoming, None)
        if first is None or first.WhichOneof("message") != "hello":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a session must begin with Hello")
            return
        session = Connection()
        session.begin(first.hello)
        with self._lock:
            self._sessions[session.id] = session
            self._unserved.append(session)
        threading.Thread(target=self._listen, args=(session, incoming), name="session", daemon=True).start()
        threading.Thread(target=self._tell, args=(session,), name="events", daemon=True).start()
        try:
            yield pb.ToDaemon(ready=pb.Ready())
            yield from session.out
        finally:
            self._end(session)

    def _listen(self, session: Connection, incoming: Iterator[Any]) -> None:
        with contextlib.suppress(grpc.RpcError, Exception):  # it has ended, for whatever reason
            for message in incoming:
                self._hear(session, message)
        self._end(session)

    def _hear(self, session: Connection, message: Any) -> None:
        kind = message.WhichOneof("message")
        if kind == "ping":
            session.out.put(pb.ToDaemon(pong=pb.Pong(number=message.ping.number)))
        elif kind in ("map", "programs", "floods", "route"):
            session.answer(getattr(message, kind))
        elif kind in EVENTS:
            session.events.put(message)

    def _tell(self, session: Connection) -> None:
        """Calls methods without a response, one after the other.

        Not in the thread that reads the session, because the methods may access maps.
        """
        for message in session.events:
            kind = message.WhichOneof("message")
            event = getattr(message, kind)
            self._told(event.cube, lambda c, e=event, call=EVENTS[kind]: call(c, e))  # type: ignore[misc]

    def _told(self, number: int, call: Callable[[cubes.Cube], None]) -> None:
        with self._lock:
            found = self._cubes.get(number)
        if found is None:
            return
        with found.env.lock:
            try:
                call(found.cube)
            except Exception:  # nobody waits for a response
                log.exception("cube %s: a message of the daemon", found.env.name)
                found.env.log.exception("a message of the daemon was not handled")

    def _end(self, session: Connection) -> None:
        with self._lock:
            self._sessions.pop(session.id, None)
            if session in self._unserved:
                self._unserved.remove(session)
            gone = [n for n, c in self._cubes.items() if c.session is session]
        session.end()
        for number in gone:
            self._close(number)

    def Packets(self, incoming: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """Receives packets and notices, and sends packets."""
        session = self._session_of(context)
        if session is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no packet session")
            return
        threading.Thread(target=self._receive, args=(incoming,), name="packets", daemon=True).start()
        for batch in session.packets.batches(max(1, session.hello.packets)):
            yield pb.PacketsOut(packets=batch)

    def _session_of(self, context: grpc.ServicerContext) -> Connection | None:
        named = dict(context.invocation_metadata()).get("polycube-session")
        with self._lock:
            session = self._sessions.get(str(named)) if named else None
            if session is None and self._unserved:
                session = self._unserved[-1]
            if session in self._unserved:
                self._unserved.remove(session)
        return session

    def _receive(self, incoming: Iterator[Any]) -> None:
        with contextlib.suppress(grpc.RpcError):
            for batch in incoming:
                for packet in batch.packets:
                    p = _packet(packet)
                    self._told(packet.cube, lambda c, p=p: c.packet_in(p))  # type: ignore[misc]
                for notice in batch.notices:
                    n = notice
                    self._told(n.cube, lambda c, n=n: c.notify(n.kind, n.data))  # type: ignore[misc]

    # Cubes.

    def Open(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Creates the control plane of a cube."""
        with self._answering(context):
            with self._lock:
                session = self._sessions.get(request.session)
            if session is None:
                raise errors.InUse("the session has ended")
            env = cubes.Env(session, request)
            with env.lock:
                made = _Open(self.service.cube(env), env, session)
            with self._lock:
                self._cubes[request.cube] = made
        return pb.OpenResponse()

    def Prepare(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Plans a change."""
        with self._answering(context, request.cube) as found:
            old = json.loads(request.old) if request.old else None
            found.env.ports = {p.name: p.index for p in request.ports}
            plan = found.cube.prepare(old, json.loads(request.after))
            found.plans = {request.plan: plan}
            return pb.Plan(
                constants=plan.constants,
                map_sizes=plan.map_sizes,
                programs=[cubes.program_change(p) for p in plan.programs],
                writes=[_write(w) for w in plan.writes],
                after=[_write(w) for w in plan.after],
                floods=None if plan.floods is None else plan.floods.message(),
                commit=plan.commit is not cubes.nothing,
            )

    def Commit(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Carries out a plan."""
        with self._answering(context, request.cube) as found:
            _plan(found, request.plan).commit()
        return pb.PlanResponse()

    def Undo(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Reverses a commit."""
        with self._answering(context, request.cube) as found:
            _plan(found, request.plan).undo()
        return pb.PlanResponse()

    def Abort(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Discards a plan."""
        with self._answering(context, request.cube) as found:
            if found.plans.pop(request.plan, None) is not None:
                found.cube.abort()
        return pb.PlanResponse()

    def State(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Reads state."""
        with self._answering(context, request.cube) as found:
            return pb.StateResponse(state=cubes.document(found.cube.state(list(request.path))))

    def Page(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Reads a part of a list of state."""
        with self._answering(context, request.cube) as found:
            page = found.cube.page(list(request.path), request.after, request.limit)
            return pb.PageResponse(entries=[cubes.document(e) for e in page.entries], next=page.next)

    def DeleteState(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Deletes state."""
        with self._answering(context, request.cube) as found:
            found.cube.delete_state(list(request.path))
        return pb.DeleteStateResponse()

    def Action(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Runs an action."""
        with self._answering(context, request.cube) as found:
            answer = found.cube.action(list(request.path), json.loads(request.input or b"{}"))
            if not isinstance(answer, cubes.Answer):
                answer = cubes.Answer(output=answer)
            return pb.ActionResponse(
                output=cubes.document(answer.output),
                edits=[
                    pb.Edit(path=list(e.path), delete=e.delete, value=b"" if e.delete else cubes.document(e.value))
                    for e in answer.edits
                ],
            )

    def Migrate(self, incoming: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        """Converts the entries of a map."""
        first = next(incoming, None)
        with self._answering(context):
            if first is None or not first.HasField("start"):
                raise errors.Invalid("a migration must begin with MigrateStart")
            conversion = find(self.service.migrations, first.start)
        for page in itertools.chain([first], incoming):
            with self._answering(context):
                made = (conversion.convert(e.key, e.value) for e in page.entries)
                out = pb.MigrateOut(entries=[pb.Entry(key=e[0], value=e[1]) for e in made if e is not None])
            if out.entries:
                yield out

    def Close(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Closes the control plane of a cube."""
        self._close(request.cube)
        return pb.CloseResponse()

    def _close(self, number: int) -> None:
        with self._lock:
            found = self._cubes.pop(number, None)
        if found is None:
            return
        found.env.end()
        with found.env.lock:
            try:
                found.cube.close()
            except Exception:
                log.exception("cube %s: closing", found.env.name)

    @contextlib.contextmanager
    def _answering(self, context: grpc.ServicerContext, number: int | None = None) -> Iterator[Any]:
        """Takes the cube's turn, and converts an exception to a response."""
        found = None
        if number is not None:
            with self._lock:
                found = self._cubes.get(number)
            if found is None:
                context.abort(grpc.StatusCode.NOT_FOUND, f"cube {number} is not open")
        code, sentence = grpc.StatusCode.OK, ""
        try:
            if found is None:
                yield None
            else:
                with found.env.lock:
                    yield found
        except errors.PolycubeError as e:
            code, sentence = e.code, str(e)
        except Exception as e:
            log.exception("a call of the daemon")
            code, sentence = grpc.StatusCode.INTERNAL, f"the service failed: {type(e).__name__}: {e}"
        if code is not grpc.StatusCode.OK:
            context.abort(code, sentence[:1024])


def _plan(found: _Open, number: int) -> cubes.Plan:
    plan = found.plans.get(number)
    if plan is None:
        raise errors.NotFound(f"there is no plan {number}")
    return plan


def _write(w: cubes.Write) -> Any:
    entries = [pb.Entry(key=k) if v is None else pb.Entry(key=k, value=v) for k, v in w.entries.items()]
    return pb.MapWrite(map=w.map, entries=entries, replace=w.replace)


def _packet(p: Any) -> cubes.Packet:
    return cubes.Packet(
        port=p.port,
        direction=cubes.Direction(p.direction),
        reason=p.reason,
        metadata=tuple(p.metadata),
        traffic_class=p.traffic_class,
        length=p.length,
        data=p.data,
        trip=p.trip,
    )


def _parent(p: Any) -> cubes.Parent:
    leaves = json.loads(p.leaves) if p.leaves else None
    return cubes.Parent(p.name, p.peer, p.netdev, p.index, p.mac, tuple(p.addresses), p.mtu, leaves)


def _peer(p: Any) -> cubes.Peer:
    return cubes.Peer(p.name, p.netdev, p.index, p.mac, tuple(p.addresses), p.mtu, p.speed)


def server(service: Service, address: str, credentials: grpc.ServerCredentials | None = None) -> grpc.Server:
    """A server for a service at "unix:PATH" or "HOST:PORT", not yet started."""
    limits = [("grpc.max_receive_message_length", MESSAGE), ("grpc.max_send_message_length", MESSAGE)]
    made = grpc.server(ThreadPoolExecutor(WORKERS), options=[*limits, ("grpc.so_reuseport", 0)])
    rpc.add_ServiceServicer_to_server(Servicer(service), made)
    if credentials is None:
        made.add_insecure_port(address)
    else:
        made.add_secure_port(address, credentials)
    return made


def serve(service: Service, arguments: Sequence[str] | None = None) -> None:
    """Runs a service until it is told to stop: on the socket named by the daemon that started it, or at --listen."""
    options = argparse.ArgumentParser(description=f"The Polycube service {service.name}.")
    options.add_argument("--listen", metavar="HOST:PORT", help="address to listen on for remote daemons")
    options.add_argument("--cert", type=Path, help="certificate of the service (PEM)")
    options.add_argument("--key", type=Path, help="its key")
    options.add_argument("--ca", type=Path, help="authority that must have signed the daemons' certificates")
    given = options.parse_args(arguments)
    address, credentials = _where(options, given)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    running = server(service, address, credentials)
    running.start()
    ended.wait()
    running.stop(grace=1.0).wait()


def _where(options: argparse.ArgumentParser, given: argparse.Namespace) -> tuple[str, grpc.ServerCredentials | None]:
    socket = os.environ.get(SOCKET)
    if given.listen is None:
        if socket is None:
            options.error(f"start it with `polycubectl services add`, or give --listen ({SOCKET} is not set)")
        return f"unix:{socket}", None
    secrets = (given.cert, given.key, given.ca)
    if all(secrets):
        certificate, key, authority = (p.read_bytes() for p in secrets)
        return given.listen, grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
    host = given.listen.rpartition(":")[0]
    if any(secrets) or host not in ("localhost", "127.0.0.1", "[::1]"):
        options.error("on a non-loopback address, a service requires --cert, --key and --ca")
    return given.listen, None
