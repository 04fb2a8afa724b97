# SPDX-License-Identifier: Apache-2.0
"""A map whose layout has changed: entries that an earlier version of the service left are converted one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, Sequence

from . import errors
from .layout import Layout, LayoutLike, layout

#: A key and a value.
Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Migration:
    """The conversion of a map from the layout of an earlier version to the present one.

    `entry` is called with the key and the value of each old entry and returns those of the new one, or None to leave the
    entry out. It depends on that entry alone, because the daemon repeats it for what packets write meanwhile. An exception
    refuses the new version, and nothing has changed. In a per-CPU map it is called for the value of each CPU, and must
    always return the same key.

    A service with several old layouts has several migrations of the map; the first whose old layouts have the sizes of
    the old map is used.
    """

    #: C name of the map.
    map: str
    #: Layouts of key and value, before and now.
    old: tuple[LayoutLike, LayoutLike]
    new: tuple[LayoutLike, LayoutLike]
    entry: Callable[[Any, Any], Optional[Pair]]

    def sizes(self) -> tuple[int, int]:
        """The sizes of old keys and values."""
        key, value = self.old
        return layout(key).size, layout(value).size


def find(migrations: Sequence[Migration], start: Any) -> Converter:
    """The conversion for a map that MigrateStart describes."""
    was = (start.old.key_size, start.old.value_size)
    for migration in migrations:
        if migration.map == start.map and migration.sizes() == was:
            return Converter(migration, start)
    raise errors.Unsupported(
        f"map {start.map}: the service has no migration from keys of {was[0]} and values of {was[1]} bytes: add one to "
        "Service.migrations, or declare the map with PCN_DISPOSABLE if its entries may be dropped"
    )


class Converter:
    """A migration of one map of a cube."""

    def __init__(self, migration: Migration, start: Any) -> None:
        self.migration, self.per_cpu = migration, start.old.per_cpu
        self.old: tuple[Layout[Any], Layout[Any]] = (layout(migration.old[0]), layout(migration.old[1]))
        self.new: tuple[Layout[Any], Layout[Any]] = (layout(migration.new[0]), layout(migration.new[1]))
        made, needed = (self.new[0].size, self.new[1].size), (start.new.key_size, start.new.value_size)
        if made != needed:
            raise errors.Invalid(
                f"map {start.map}: its migration makes entries of {made[0]} and {made[1]} bytes, the map has {needed[0]} and "
                f"{needed[1]}"
            )
        if start.old.per_cpu != start.new.per_cpu:
            raise errors.Unsupported(
                f"map {start.map}: entries of a per-CPU map and of another one cannot be converted"
            )

    def convert(self, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
        """The new entry for an old one, None to leave it out."""
        (old_key, old_value), (new_key, new_value) = self.old, self.new
        out_key, out = b"", b""
        for one in self._values(value):
            made = self.migration.entry(old_key.unpack(key), old_value.unpack(one))
            if made is None:
                return None
            packed = new_key.pack(made[0])
            if out and packed != out_key:
                raise errors.Invalid(
                    f"map {self.migration.map}: entry {key.hex()}: the values of two CPUs have different keys"
                )
            out_key, one = packed, new_value.pack(made[1])
            out += one.ljust(_padded(new_value.size), b"\0") if self.per_cpu else one
        return out_key, out

    def _values(self, value: bytes) -> Iterator[bytes]:
        size = self.old[1].size
        step = _padded(size) if self.per_cpu else size
        return (value[at : at + size] for at in range(0, len(value), step))


def _padded(size: int) -> int:
    return (size + 7) // 8 * 8
