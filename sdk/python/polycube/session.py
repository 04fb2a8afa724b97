# SPDX-License-Identifier: Apache-2.0
"""A session with a daemon: one stream for requests that the daemon answers, one for packets.

Each stream is read by the thread in which gRPC calls its handler, and written from a queue, so any thread may send.
"""

from __future__ import annotations

import itertools
import queue
import threading
from concurrent.futures import Future, TimeoutError as FutureTimeout
from typing import Any, Callable, Iterator

from . import errors
from ._api import service_pb2 as pb

#: How long a response may take. The daemon is local, but may be busy.
ANSWER_SECONDS = 10.0

#: The maximum number of queued messages; further packets are lost, as on any wire.
QUEUE = 4096

#: The maximum number of the daemon's events that wait: several for each port when cubes are opened.
EVENTS = 16384


class Outbox:
    """Queued messages of a stream."""

    def __init__(self, size: int = QUEUE) -> None:
        self._queue: queue.Queue[Any] = queue.Queue(size)
        self._closed = threading.Event()

    def put(self, message: Any) -> bool:
        """Queues a message, unless there is no room or no reader."""
        if self._closed.is_set():
            return False
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """Ends the stream after the queued messages."""
        self._closed.set()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            pass  # the reader checks for the end after each message

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                message = self._queue.get(timeout=1.0)
            except queue.Empty:
                if self._closed.is_set():
                    return
                continue
            if message is None:
                return
            yield message

    def batches(self, most: int) -> Iterator[list[Any]]:
        """Queued messages, up to a number at a time."""
        for message in self:
            batch = [message]
            while len(batch) < most and not self._queue.empty():
                following = self._queue.get_nowait()
                if following is None:
                    yield batch
                    return
                batch.append(following)
            yield batch


class Session:
    """The connection of a cube to the daemon."""

    def __init__(self) -> None:
        self.id = ""
        self.hello: Any = pb.Hello(cpus=1, requests=16, entries=1024, packets=64)
        self.out = Outbox()
        self.packets = Outbox()
        self.events = Outbox(EVENTS)
        self.lost = 0
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._room = threading.BoundedSemaphore(16)
        self._lock = threading.Lock()
        self._ended = False

    def begin(self, hello: Any) -> None:
        """Stores the daemon's limits."""
        self.id, self.hello = hello.session, hello
        self._room = threading.BoundedSemaphore(max(1, hello.requests))

    def request(self, wrap: Callable[[int], Any], seconds: float = ANSWER_SECONDS) -> Any:
        """Sends a request and returns the response; raises the error that the daemon reports."""
        number, future = next(self._numbers), Future[Any]()
        if not self._room.acquire(timeout=seconds):
            raise errors.Lost("the daemon does not answer")
        try:
            with self._lock:
                if self._ended:
                    raise errors.Lost("the session has ended")
                self._waiting[number] = future
            if not self.out.put(wrap(number)):
                raise errors.Lost("the session has ended")
            try:
                reply = future.result(seconds)
            except FutureTimeout:
                raise errors.Lost("the daemon does not answer") from None
        finally:
            self._room.release()
            with self._lock:
                self._waiting.pop(number, None)
        if reply.HasField("fault"):
            raise errors.fault(reply.fault.code, reply.fault.message)
        return reply

    def answer(self, reply: Any) -> None:
        """Passes a response to its caller."""
        with self._lock:
            future = self._waiting.pop(reply.id, None)
        if future is not None:
            future.set_result(reply)

    def end(self) -> None:
        """Releases all waiting callers."""
        with self._lock:
            self._ended = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            future.set_exception(errors.Lost("the session has ended"))
        self.out.close()
        self.packets.close()
        self.events.close()

    def send_packet(self, packet: Any) -> None:
        """Sends a packet, or counts it as lost."""
        if not self.packets.put(packet):
            self.lost += 1
