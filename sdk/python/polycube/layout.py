# SPDX-License-Identifier: Apache-2.0
"""Keys, values and constants in C layout: little endian, on the machine of the daemon."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, Callable, Generic, TypeVar, Union

T = TypeVar("T")


@dataclass(frozen=True)
class Layout(Generic[T]):
    """The conversion between a Python value and bytes. size is that of the C type."""

    size: int
    pack: Callable[[T], bytes]
    unpack: Callable[[bytes], T]


#: A layout, the format of module struct ("IHH" with the padding written out, "4s"), a ctypes.Structure, or `bytes` for
#: uninterpreted data.
LayoutLike = Union[Layout[Any], str, type]


def layout(kind: LayoutLike, size: int = 0) -> Layout[Any]:
    """Converts a LayoutLike to a layout."""
    if isinstance(kind, Layout):
        return kind
    if isinstance(kind, str):
        return _of_format(kind)
    if kind is bytes:
        return Layout(size, bytes, bytes)
    if isinstance(kind, type) and issubclass(kind, (ctypes.Structure, ctypes.Union, ctypes.Array)):
        return Layout(ctypes.sizeof(kind), bytes, kind.from_buffer_copy)
    raise TypeError(f"{kind!r} is no layout: give a format of module struct, a ctypes.Structure or bytes")


def _of_format(text: str) -> Layout[Any]:
    form = struct.Struct(text if text[:1] in "<>=!@" else "<" + text)
    fields = len(form.unpack(bytes(form.size)))
    if fields == 1:
        return Layout(form.size, form.pack, lambda data: form.unpack(data)[0])
    return Layout(form.size, lambda value: form.pack(*value), form.unpack)


def u8(value: int) -> bytes:
    """An __u8, also for a bool."""
    return struct.pack("<B", value)


def u16(value: int) -> bytes:
    """An __u16."""
    return struct.pack("<H", value)


def u32(value: int) -> bytes:
    """An __u32."""
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    """An __u64."""
    return struct.pack("<Q", value)


def be16(value: int) -> bytes:
    """A __be16, as in packets."""
    return struct.pack(">H", value)


def be32(value: int) -> bytes:
    """A __be32, as in packets."""
    return struct.pack(">I", value)
