# SPDX-License-Identifier: Apache-2.0
"""The kinds of error that a caller can distinguish; any other exception is an internal error of the service."""

from __future__ import annotations

import grpc


class PolycubeError(Exception):
    """A sentence for the user who made the request."""

    code = grpc.StatusCode.INTERNAL


class Invalid(PolycubeError):
    """The request can never succeed in this form."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(PolycubeError):
    """The named object does not exist."""

    code = grpc.StatusCode.NOT_FOUND


class Exists(PolycubeError):
    """An object with that name exists already."""

    code = grpc.StatusCode.ALREADY_EXISTS


class InUse(PolycubeError):
    """Valid, but refused because something else uses the resource."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Full(PolycubeError):
    """A table is full."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unsupported(PolycubeError):
    """Not possible here."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Stale(PolycubeError):
    """What the request refers to has changed meanwhile."""

    code = grpc.StatusCode.ABORTED


class Lost(PolycubeError):
    """The daemon is gone: the cube is closed, and reopened when the daemon is back."""

    code = grpc.StatusCode.UNAVAILABLE


_BY_NUMBER = {kind.code.value[0]: kind for kind in (Invalid, NotFound, Exists, InUse, Full, Unsupported, Stale)}


def fault(code: int, message: str) -> PolycubeError:
    """The exception for a fault reported by the daemon."""
    return _BY_NUMBER.get(code, PolycubeError)(message)
