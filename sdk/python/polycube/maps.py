# SPDX-License-Identifier: Apache-2.0
"""The maps of a cube. The daemon reads and writes them for the service, which cannot access others."""

from __future__ import annotations

from typing import Any, Generic, Iterable, Iterator, Mapping, TypeVar

from ._api import service_pb2 as pb
from .layout import Layout, LayoutLike, layout
from .session import Session

K = TypeVar("K")
V = TypeVar("V")


class Map(Generic[K, V]):
    """A map by its C name, with layouts of key and value. Maps exist from the first commit on."""

    def __init__(
        self, session: Session, cube: int, name: str, key: LayoutLike, value: LayoutLike, inner: bytes | None = None
    ) -> None:
        self._session, self._cube, self.name, self._inner = session, cube, name, inner
        self.key: Layout[K] = layout(key)
        self.value: Layout[V] = layout(value)

    def _ask(self, **operation: Any) -> Any:
        def wrap(number: int) -> Any:
            request = pb.MapRequest(id=number, cube=self._cube, map=self.name, **operation)
            if self._inner is not None:
                request.inner = self._inner
            return pb.ToDaemon(map=request)

        return self._session.request(wrap)

    def _batches(self, items: Iterable[Any]) -> Iterator[list[Any]]:
        most, batch = max(1, self._session.hello.entries), []
        for item in items:
            batch.append(item)
            if len(batch) == most:
                yield batch
                batch = []
        if batch:
            yield batch

    def info(self) -> Any:
        """The properties of the map: type, key_size, value_size, max_entries, per_cpu."""
        return self._ask(info=pb.MapInfoRequest()).info

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        return next((value for _, value in self._read("lookup", [key])), None)

    def get_all(self, keys: Iterable[K]) -> dict[K, V]:
        """The values of the existing keys."""
        return dict(self._read("lookup", keys))

    def take(self, keys: Iterable[K]) -> dict[K, V]:
        """The same, and removes them, each atomically with respect to programs."""
        return dict(self._read("take", keys))

    def _read(self, operation: str, keys: Iterable[K]) -> Iterator[tuple[K, V]]:
        for batch in self._batches(self.key.pack(k) for k in keys):
            for entry in self._ask(**{operation: pb.MapKeys(keys=batch)}).entries:
                yield self.key.unpack(entry.key), self.value.unpack(entry.value)

    def set(self, key: K, value: V) -> None:
        """Writes an entry, whether or not it exists."""
        self.update([(key, value)])

    def add(self, key: K, value: V) -> None:
        """Writes a new entry; Exists if there is one."""
        self.update([(key, value)], pb.MapUpdate.MODE_ADD)

    def update(self, entries: Mapping[K, V] | Iterable[tuple[K, V]], mode: Any = pb.MapUpdate.MODE_ANY) -> None:
        """Writes entries in batches; on an error, those before the failed one are written."""
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        for batch in self._batches(self._entry(k, v) for k, v in pairs):
            self._ask(update=pb.MapUpdate(mode=mode, entries=batch))

    def _entry(self, key: K, value: V) -> Any:
        return pb.Entry(key=self.key.pack(key), value=self.value.pack(value))

    def delete(self, key: K) -> bool:
        """Deletes an entry; False if there is none."""
        return self.delete_all([key]) > 0

    def delete_all(self, keys: Iterable[K]) -> int:
        """Deletes entries in batches, and returns how many there were."""
        batches = self._batches(self.key.pack(k) for k in keys)
        return sum(self._ask(delete=pb.MapKeys(keys=batch)).done for batch in batches)

    def clear(self) -> None:
        """Deletes all entries; those of an array become zero."""
        self._ask(clear=pb.MapClear())

    def replace(self, key: bytes, entries: Iterable[Any]) -> None:
        """Replaces the map at a key of a map of maps by a new one with these entries, in one step."""
        Map[Any, Any](self._session, self._cube, self.name, bytes, bytes, key)._ask(
            replace=pb.MapReplace(entries=list(entries))
        )

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries, page by page; entries that are added or removed meanwhile may be missing."""
        after: bytes | None = None
        while True:
            request = pb.MapIterate()
            if after is not None:
                request.after = after
            page = self._ask(iterate=request)
            for entry in page.entries:
                yield self.key.unpack(entry.key), self.value.unpack(entry.value)
            if page.last or not page.entries:
                return
            after = page.entries[-1].key

    def page(self, after: str = "", limit: int = 0) -> tuple[list[tuple[K, V]], str]:
        """Up to limit entries of a hash, starting after a position, "" for the beginning; the second result is the position
        after them, "" at the end.

        An entry that exists from beginning to end is returned exactly once, whatever is added and deleted meanwhile. After
        the map has got another size, a position is Stale.
        """
        reply = self._ask(page=pb.MapPage(after=after, limit=limit))
        return [(self.key.unpack(e.key), self.value.unpack(e.value)) for e in reply.entries], reply.next

    def keys(self) -> Iterator[K]:
        """All keys."""
        return (key for key, _ in self.items())

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None


def per_cpu(value: LayoutLike, cpus: int) -> Layout[Any]:
    """The layout of the values of a per-CPU map: a list with one per CPU. Writing a single value gives it to all."""
    one = layout(value)
    stride = (one.size + 7) // 8 * 8

    def unpack(data: bytes) -> list[Any]:
        return [one.unpack(data[i * stride : i * stride + one.size]) for i in range(cpus)]

    def pack(values: Any) -> bytes:
        if not isinstance(values, list):
            return one.pack(values)
        return b"".join(one.pack(v).ljust(stride, b"\0") for v in values)

    return Layout(stride * cpus, pack, unpack)
