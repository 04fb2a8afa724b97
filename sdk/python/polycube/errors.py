# SPDX-License-Identifier: Apache-2.0
"""The kinds of error that a caller can act on; anything else that is raised is a fault of the service."""

from __future__ import annotations

import grpc


class PolycubeError(Exception):
    """A sentence for the person who made the request."""

    code = grpc.StatusCode.INTERNAL


class Invalid(PolycubeError):
    """The request can never be right as it is."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(PolycubeError):
    """What is named does not exist."""

    code = grpc.StatusCode.NOT_FOUND


class Exists(PolycubeError):
    """A thing with that name is there already."""

    code = grpc.StatusCode.ALREADY_EXISTS


class InUse(PolycubeError):
    """Right in itself, but something else stands in the way."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Full(PolycubeError):
    """A table has no room left."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unsupported(PolycubeError):
    """Not possible here."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Lost(PolycubeError):
    """The daemon is gone: the cube is closed, and opened anew when the daemon comes back."""

    code = grpc.StatusCode.UNAVAILABLE


_BY_NUMBER = {kind.code.value[0]: kind for kind in (Invalid, NotFound, Exists, InUse, Full, Unsupported)}


def fault(code: int, message: str) -> PolycubeError:
    """The exception for a fault that the daemon tells of."""
    return _BY_NUMBER.get(code, PolycubeError)(message)
