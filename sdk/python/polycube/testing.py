# SPDX-License-Identifier: Apache-2.0
"""A daemon for tests of services: it implements the protocol and keeps maps in memory; there are no programs, and the
test sends and receives packets.

    with Daemon(service) as daemon:
        cube = daemon.open("c1", {"port": 22})
        daemon.packet(cube, frame)
        assert daemon.maps["c1"]["clients"] == {...}
"""

from __future__ import annotations

import itertools
import json
import queue
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import grpc

from ._api import service_pb2 as pb
from ._api import service_pb2_grpc as rpc
from .cube import FloodSet, Route
from .service import Service, server

PATIENCE = 10.0


class Daemon:
    """Runs a service in the same process, behind a real socket."""

    def __init__(self, service: Service) -> None:
        self._directory = tempfile.TemporaryDirectory()
        address = f"unix:{Path(self._directory.name) / 's'}"
        self._server = server(service, address)
        self._channel = grpc.insecure_channel(address)
        self._stub = rpc.ServiceStub(self._channel)
        self._numbers = itertools.count(1)
        self._down: queue.Queue[Any] = queue.Queue()
        self._packets: queue.Queue[Any] = queue.Queue()
        self._changed = threading.Condition()
        self._names: dict[int, str] = {}
        self._configs: dict[int, Any] = {}
        #: Entries by cube, map and key.
        self.maps: dict[str, dict[str, dict[bytes, bytes]]] = {}
        #: Sets of ports by cube and index.
        self.floods: dict[str, dict[int, FloodSet]] = {}
        #: Routes by destination, for the test to fill.
        self.routes: dict[str, Route] = {}
        self.constants: dict[str, dict[str, bytes]] = {}
        self.logs: list[Any] = []
        self.metrics: dict[str, list[Any]] = {}
        self.sent: list[Any] = []
        self.pongs: list[int] = []
        #: Maximum number of entries of a map; more are refused.
        self.room = 1 << 20

    def __enter__(self) -> Daemon:
        self._server.start()
        self.description = self._stub.Describe(pb.DescribeRequest(protocol=1), timeout=PATIENCE)
        self._down.put(pb.ToService(hello=pb.Hello(session="test", cpus=2, requests=4, entries=8, packets=4)))
        self._ready = threading.Event()
        self._stream = self._stub.Session(iter(self._down.get, None))
        threading.Thread(target=self._hear, daemon=True).start()
        if not self._ready.wait(PATIENCE):
            raise TimeoutError("the service does not become ready")
        self._out = self._stub.Packets(iter(self._packets.get, None), metadata=(("polycube-session", "test"),))
        threading.Thread(target=self._take, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._down.put(None)
        self._packets.put(None)
        self._server.stop(0).wait()
        self._channel.close()
        self._directory.cleanup()

    def _hear(self) -> None:
        try:
            for message in self._stream:
                kind = message.WhichOneof("message")
                if kind == "ready":
                    self._ready.set()
                elif kind == "map":
                    self._down.put(pb.ToService(map=self._map(message.map)))
                elif kind == "floods":
                    self._floods(self._names[message.floods.cube], message.floods.write)
                    self._down.put(pb.ToService(floods=pb.FloodsReply(id=message.floods.id)))
                elif kind == "route":
                    self._down.put(pb.ToService(route=self._route(message.route)))
                with self._changed:
                    if kind == "log":
                        self.logs.append(message.log)
                    elif kind == "pong":
                        self.pongs.append(message.pong.number)
                    elif kind == "metrics":
                        self.metrics[self._names[message.metrics.cube]] = list(message.metrics.metrics)
                    self._changed.notify_all()
        except grpc.RpcError:
            pass  # the test is over

    def _take(self) -> None:
        try:
            for batch in self._out:
                with self._changed:
                    self.sent.extend(batch.packets)
                    self._changed.notify_all()
        except grpc.RpcError:
            pass  # the test is over

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition():  # without the lock: it may call the service, which may need this side meanwhile
            if time.monotonic() > deadline:
                raise TimeoutError("it did not come to that")
            with self._changed:
                self._changed.wait(0.01)

    def _route(self, request: Any) -> Any:
        route = self.routes.get(request.destination)
        if route is None:
            return pb.RouteReply(id=request.id, fault=pb.Fault(code=5, message=f"no route to {request.destination}"))
        return pb.RouteReply(
            id=request.id, netdev=route.netdev, index=route.index, gateway=route.gateway, source=route.source,
            mac=route.mac, mtu=route.mtu,
        )  # fmt: skip

    # Maps.

    def _map(self, request: Any) -> Any:
        entries = self.maps.setdefault(self._names[request.cube], {}).setdefault(request.map, {})
        reply = pb.MapReply(id=request.id)
        operation = request.WhichOneof("operation")
        if operation in ("lookup", "take"):
            for key in getattr(request, operation).keys:
                if key in entries:
                    value = entries[key] if operation == "lookup" else entries.pop(key)
                    reply.entries.append(pb.Entry(key=key, value=value))
        elif operation == "update":
            self._update(entries, request.update, reply)
        elif operation == "delete":
            for key in request.delete.keys:
                reply.done += entries.pop(key, None) is not None
        elif operation == "page":
            self._page(entries, request.page, reply)
        elif operation == "clear":
            entries.clear()
        elif operation == "info":
            reply.info.CopyFrom(pb.MapInfo(type="hash", max_entries=self.room))
        elif operation == "iterate":
            keys = sorted(entries)
            begin = keys.index(request.iterate.after) + 1 if request.iterate.HasField("after") else 0
            page = keys[begin : begin + 8]
            reply.entries.extend(pb.Entry(key=k, value=entries[k]) for k in page)
            reply.last = begin + 8 >= len(keys)
        return reply

    def _page(self, entries: dict[bytes, bytes], page: Any, reply: Any) -> None:
        """Positions are the keys of the next entries."""
        try:
            keys = [k for k in sorted(entries) if k >= bytes.fromhex(page.after)]
        except ValueError:
            reply.fault.CopyFrom(pb.Fault(code=3, message=f"after {page.after}: not a position"))
            return
        most = page.limit or 8
        reply.entries.extend(pb.Entry(key=k, value=entries[k]) for k in keys[:most])
        reply.next = keys[most].hex() if len(keys) > most else ""

    def _floods(self, name: str, write: Any) -> None:
        """Replaces sets of ports."""
        sets = self.floods.setdefault(name, {})
        if write.replace:
            sets.clear()
        for each in write.sets:
            sets[each.index] = FloodSet(tuple(each.ports), tuple(each.tagged))
            if not each.ports and not each.tagged:
                del sets[each.index]

    def _update(self, entries: dict[bytes, bytes], update: Any, reply: Any) -> None:
        for entry in update.entries:
            if update.mode == pb.MapUpdate.MODE_ADD and entry.key in entries:
                reply.fault.CopyFrom(pb.Fault(code=6, message="the entry is there already"))
                return
            if entry.key not in entries and len(entries) >= self.room:
                reply.fault.CopyFrom(pb.Fault(code=8, message="the map is full"))
                return
            entries[entry.key] = entry.value

    # Cubes.

    def open(self, name: str, config: Any, taken_over: bool = False, ports: dict[str, int] | None = None) -> int:
        """Creates a cube with a configuration, and returns its number."""
        number = next(self._numbers)
        self._names[number] = name
        request = pb.OpenRequest(session="test", cube=number, name=name, uuid="u", type="TC", taken_over=taken_over)
        self._stub.Open(request, timeout=PATIENCE)
        self.change(number, config, ports)
        return number

    def change(self, number: int, config: Any, ports: dict[str, int] | None = None, then: str = "commit") -> Any:
        """Changes a cube's configuration; then is commit, undo (after a commit) or abort."""
        plan_number = next(self._numbers)
        old = self._configs.get(number)
        request = pb.PrepareRequest(
            cube=number,
            plan=plan_number,
            old=b"" if old is None else json.dumps(old).encode(),
            after=json.dumps(config).encode(),
            ports=[pb.Port(name=n, index=i) for n, i in (ports or {}).items()],
        )
        plan = self._stub.Prepare(request, timeout=PATIENCE)
        step = pb.PlanRequest(cube=number, plan=plan_number)
        if then == "abort":
            self._stub.Abort(step, timeout=PATIENCE)
            return plan
        if then == "commit":
            self._carry_out(self._names[number], plan)
            self._configs[number] = config
        if plan.commit:
            self._stub.Commit(step, timeout=PATIENCE)
        if then == "undo":
            self._stub.Undo(step, timeout=PATIENCE)
        return plan

    def _carry_out(self, name: str, plan: Any) -> None:
        self.constants.setdefault(name, {}).update(plan.constants)
        self._floods(name, plan.floods)
        for write in (*plan.writes, *plan.after):
            entries = self.maps.setdefault(name, {}).setdefault(write.map, {})
            if write.replace:
                entries.clear()
            for entry in write.entries:
                if entry.value:
                    entries[entry.key] = entry.value
                else:
                    entries.pop(entry.key, None)

    def state(self, number: int, *path: str) -> Any:
        """Reads state."""
        answer = self._stub.State(pb.StateRequest(cube=number, path=path), timeout=PATIENCE).state
        return json.loads(answer) if answer else None

    def page(self, number: int, *path: str, after: str = "", limit: int = 100) -> tuple[list[Any], str]:
        """Reads a part of a list of state: the entries, and the position after them."""
        request = pb.PageRequest(cube=number, path=path, after=after, limit=limit)
        answer = self._stub.Page(request, timeout=PATIENCE)
        return [json.loads(e) for e in answer.entries], answer.next

    def delete_state(self, number: int, *path: str) -> None:
        """Deletes state."""
        self._stub.DeleteState(pb.StateRequest(cube=number, path=path), timeout=PATIENCE)

    def action(self, number: int, path: list[str], given: Any) -> Any:
        """Runs an action."""
        request = pb.ActionRequest(cube=number, path=path, input=json.dumps(given).encode())
        return self._stub.Action(request, timeout=PATIENCE)

    def packet(self, number: int, data: bytes, **more: Any) -> None:
        """Sends the service a packet of the fast path."""
        more.setdefault("direction", pb.DIRECTION_INGRESS)
        packet = pb.PacketIn(cube=number, data=data, length=len(data), **more)
        self._packets.put(pb.PacketsIn(packets=[packet]))

    def notice(self, number: int, kind: int, data: bytes) -> None:
        """Sends the service a message of pcn_notify."""
        self._packets.put(pb.PacketsIn(notices=[pb.Notice(cube=number, kind=kind, data=data)]))

    def tell(self, message: Any) -> None:
        """Sends a message of the session."""
        self._down.put(message)

    def migrate(self, name: str, old: Any, new: Any, entries: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Has the service convert the entries of a map, from and to a map that a MapInfo describes."""
        start = pb.MigrateStart(cube="c", map=name, old=old, new=new)
        pages = [pb.MigrateIn(entries=[pb.Entry(key=k, value=v)]) for k, v in entries.items()]
        made = self._stub.Migrate(iter([pb.MigrateIn(start=start), *pages]), timeout=PATIENCE)
        return {e.key: e.value for out in made for e in out.entries}

    def close(self, number: int) -> None:
        """Deletes a cube."""
        self._stub.Close(pb.CloseRequest(cube=number), timeout=PATIENCE)

    def sentences(self) -> Iterator[str]:
        """The log lines of the service."""
        return (line.message for line in self.logs)
