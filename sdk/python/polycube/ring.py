# SPDX-License-Identifier: Apache-2.0
"""Maps in memory that a service shares with its programs: the ring of a cube (PCN_RING), and arrays with the flag
BPF_F_MMAPABLE. The daemon passes their descriptors over a socket that the process inherited.

The ring has the kernel's layout (Documentation/bpf/ringbuf.rst): the reader's position in a separate page, followed by
the writers' position and the records, which are mapped twice in a row so that a record never wraps.
"""

from __future__ import annotations

import mmap
import os
import secrets
import select
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Iterator, NamedTuple

from . import errors

#: The environment variable with the descriptor of the socket over which the daemon passes descriptors.
DESCRIPTORS = "POLYCUBE_SERVICE_DESCRIPTORS"

PAGE = mmap.PAGESIZE
BUSY, DISCARDED = 1 << 31, 1 << 30
#: The kernel's head of a record, and struct pcn_ring_record: it ends where the frame begins.
RECORD = struct.Struct("<II QIIHHHHHHHHII4I")
HEAD, INFO = 8, 56
VLAN, XDP = 1, 2
#: How long a reader waits for more before it sleeps. Programs wake it at most twice as often.
AWAKE_SECONDS = 0.0001
#: The longest sleep: Python has no memory barrier between going to sleep and the last look at the ring.
SLEEP_SECONDS = 0.1
#: How long a record may be in the making. Programs take a microsecond: the reader has lost its position.
UNFINISHED_SECONDS = 1.0


class RingPacket(NamedTuple):
    """A packet that a program copied to the ring with pcn_ring_packet."""

    #: When it was written, by time.monotonic_ns().
    time: int
    #: The number that the program gave it.
    kind: int
    #: Of the frame, in bytes; data may be shorter.
    length: int
    data: bytes
    in_port: int
    out_port: int
    #: The interface index of the netdev where it entered.
    netdev: int
    flow_hash: int
    #: The cube's own words.
    metadata: tuple[int, ...]
    #: Payload of each segment and number of segments of a superframe, at TC.
    gso_size: int
    gso_segs: int
    #: Written by a program at XDP.
    xdp: bool


class Ring:
    """Reads a ring. One reader reads at a time: a new one takes over, and the iteration of the other one ends."""

    def __init__(self, name: str, ring: int, reader: int, size: int) -> None:
        """Takes over the descriptors of the ring buffer, of size bytes, and of the map that the reader writes."""
        self.name, self.size = name, size
        #: Packets read, and how often the reader lost its position because somebody else wrote there.
        self.packets, self.damaged = 0, 0
        self._ring = ring
        try:
            self._positions = mmap.mmap(ring, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            self._pages = mmap.mmap(ring, PAGE + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=PAGE)
            self._page = mmap.mmap(reader, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(reader)
        self._consumer = memoryview(self._positions).cast("Q")
        self._producer = memoryview(self._pages)[:8].cast("Q")
        self._data = memoryview(self._pages)[PAGE:]
        self._sleeping = memoryview(self._page)[:4].cast("I")
        self._owner = memoryview(self._page)[8:16].cast("Q")
        self._token = secrets.randbits(64) | 1
        self._owner[0] = self._token
        self._next = self._consumer[0]
        self._woken = self._progress = time.monotonic()
        self._closed = threading.Event()
        self._reading = threading.Lock()
        self._poll = select.epoll()
        self._poll.register(ring, select.EPOLLIN)

    def __iter__(self) -> Iterator[list[RingPacket]]:
        """Packets in batches, until the ring is closed or another reader takes over."""
        while not self._closed.is_set() and not self.taken:
            batch = self.read(SLEEP_SECONDS)
            if batch:
                yield batch

    @property
    def taken(self) -> bool:
        """Whether another reader has taken over."""
        with self._reading:
            return not self._closed.is_set() and bool(self._owner[0] != self._token)

    def read(self, seconds: float = 0.0) -> list[RingPacket]:
        """The packets in the ring, at most 4,096; waits up to so many seconds for the first one."""
        with self._reading:
            if self._closed.is_set() or self._owner[0] != self._token:
                return []
            batch = self._drain(4096)
            if batch or seconds <= 0:
                return batch
            self._wait(min(seconds, SLEEP_SECONDS))
            return self._drain(4096)

    def skip(self) -> None:
        """Drops the packets in the ring: for a reader to which old packets are of no use."""
        with self._reading:
            end = self._producer[0]
            while self._next < end and self._drain(4096):
                pass

    def _drain(self, most: int) -> list[RingPacket]:
        batch: list[RingPacket] = []
        data, mask, end, unpack = self._data, self.size - 1, self._producer[0], RECORD.unpack_from
        position = self._next
        if end - position > self.size or position > end:
            return self._damage(end)
        while position != end and len(batch) < most:
            at = position & mask
            (head, _, when, length, captured, kind, flags, in_port, out_port, vlan_proto, vlan_tci, gso_size, gso_segs,
             netdev, flow_hash, *words) = unpack(data, at)
            if head & BUSY:
                break
            size = head & ~(BUSY | DISCARDED)
            step = (HEAD + size + 7) & ~7
            if step > end - position:
                return self._damage(end)
            position += step
            if head & DISCARDED or size < INFO or captured > size - INFO or captured > length:
                continue
            begin = at + HEAD + INFO
            frame = bytes(data[begin : begin + captured])
            if flags & VLAN and captured >= 12:
                frame = frame[:12] + struct.pack("<H", vlan_proto) + struct.pack(">H", vlan_tci) + frame[12:]
                length += 4
            batch.append(RingPacket(when, kind, length, frame, in_port, out_port, netdev, flow_hash, tuple(words),
                                    gso_size, gso_segs, bool(flags & XDP)))
        now = time.monotonic()
        if position != self._next or position == end:
            self._progress = now
        elif now - self._progress > UNFINISHED_SECONDS:
            return self._damage(end)
        self._next = position
        if self._owner[0] == self._token:
            self._consumer[0] = position
        self.packets += len(batch)
        return batch

    def _damage(self, end: int) -> list[RingPacket]:
        """Continues with the next record that will be written: positions are always at the start of a record."""
        self._next = self._consumer[0] = end
        self._progress = time.monotonic()
        self.damaged += 1
        return []

    def _wait(self, seconds: float) -> None:
        """Waits for a record."""
        awake = self._woken + AWAKE_SECONDS - time.monotonic()
        if awake > 0:
            time.sleep(awake)
        self._sleeping[0] = 1
        try:
            if self._producer[0] == self._next:
                self._poll.poll(seconds)
                self._woken = time.monotonic()
        finally:
            self._sleeping[0] = 0

    def close(self) -> None:
        """Ends the iteration and unmaps the ring, which stays."""
        with self._reading:
            if self._closed.is_set():
                return
            self._closed.set()
            for view in (self._consumer, self._producer, self._data, self._sleeping, self._owner):
                view.release()
            for memory in (self._positions, self._pages, self._page):
                memory.close()
            self._poll.close()
            os.close(self._ring)

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Descriptors:
    """The socket over which the daemon passes descriptors. Requests come one at a time, so that each finds its own."""

    def __init__(self, number: str | None) -> None:
        self.lock = threading.Lock()
        self._socket: socket.socket | None = None
        if number:
            self._socket = socket.socket(fileno=int(number))
            self._socket.set_inheritable(False)

    def receive(self, number: int) -> int:
        """The descriptor for a request that the daemon has answered."""
        if self._socket is None:
            raise errors.Unsupported("only a service that the daemon starts (type lib) can map memory")
        while True:
            try:
                message, files, _, _ = socket.recv_fds(self._socket, 8, 1, socket.MSG_DONTWAIT)
            except BlockingIOError:
                raise errors.Lost("the daemon did not pass the descriptor") from None
            if len(message) == 8 and len(files) == 1 and struct.unpack("<Q", message)[0] == number:
                return files[0]
            for file in files:
                os.close(file)


#: The socket of this process.
descriptors = Descriptors(os.environ.get(DESCRIPTORS))
