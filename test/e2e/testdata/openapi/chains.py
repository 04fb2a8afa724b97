# SPDX-License-Identifier: Apache-2.0
"""Hooks for chains of requests, in which each request uses what an earlier one has made.

Names and bodies at random hardly ever make anything: an address of a bridge needs a port of this bridge. Those that the
description gives as examples do, and fit each other. So most values are the examples, and links bring the rest.
"""

import os
import sys

import schemathesis
from hypothesis import strategies as st

sys.path.insert(0, os.path.dirname(__file__))
import hooks  # noqa: E402, F401 (the hooks of every run)


def examples(parameters):
    return {p.name: p.definition["example"] for p in parameters if "example" in p.definition}


@schemathesis.hook
def flatmap_path_parameters(context, path_parameters):
    likely = {k: v for k, v in examples(context.operation.path_parameters).items() if k in (path_parameters or {})}
    return st.sampled_from([{**path_parameters, **likely}] * 7 + [path_parameters]) if likely else st.just(path_parameters)


@schemathesis.hook
def flatmap_body(context, body):
    example = next((b.definition["example"] for b in context.operation.body if "example" in b.definition), {})
    if not isinstance(example, dict):
        return st.sampled_from([example, body])
    example.pop("peer", None)  # of a port: there is no such netdev
    if not context.operation.path_parameters and "name" in example:
        name = example["name"]
        return st.sampled_from([{**example, "name": name[:-1] + n} for n in "112345"] + [{"name": name}])
    return st.sampled_from([example, example, {}, body])


@schemathesis.hook
def map_headers(context, headers):
    return {k: v for k, v in (headers or {}).items() if k not in ("If-Match", "If-None-Match")}
