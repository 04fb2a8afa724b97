#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts a monitor on an interface: creates a dynmon cube, injects the monitor, and attaches the cube.

If the cube exists, the monitor replaces its present one. Either everything succeeds, or all is as before.
"""

import argparse
import base64
import json
import os
import sys
import time

from dynmon_client import USAGE, Daemon, Failure, Parser, Refused, add_options, run

VERSION = "1.0"
PATHS = ("ingress-path", "egress-path")
# A monitor's code or object may have this size, and FILE, too.
LIMIT = 6 << 20

FILE_HELP = """\
FILE is JSON, the node dataplane-config of the model:

  {"ingress-path": {"name": "count",
                    "code-file": "monitor.bpf.c",
                    "metric-configs": [{"name": "packets", "map-name": "packets"}]},
   "egress-path": {}}

"code-file" names a file with C, "object-file" one that polycube-cc has compiled for the cube's hook, and "object-tc-file"
one for TC, which a cube at XDP needs where a device sends. The names are relative to FILE. The contents become "code",
"object" and "object-tc", which FILE may have instead. A path that is missing passes all packets and counts nothing.

exit status: 0 success, 1 no usable daemon, 2 refused by the daemon, 64 wrong command line or FILE
"""


def arguments():
    parser = Parser(description=__doc__, epilog=FILE_HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", help="name of the cube")
    parser.add_argument("interface", metavar="IFACE", help="network device, or port of a cube: CUBE:PORT")
    parser.add_argument("file", metavar="FILE", help="the monitor, - for standard input")
    parser.add_argument(
        "-t", "--type", choices=("TC", "XDP_SKB", "XDP_DRV"), help="hook of a new cube (default TC)"
    )
    parser.add_argument("-m", "--measure", action="store_true", help="print how long each step takes")
    parser.add_argument("-d", "--debug", action="store_true", help="print each request to standard error")
    parser.add_argument("--print", action="store_true", help="print what would be injected, and change nothing")
    add_options(parser, VERSION)
    return parser.parse_args()


def read(path, what):
    """The content of a file, limited."""
    try:
        with open(path, "rb") if path != "-" else open(0, "rb", closefd=False) as f:
            data = f.read(LIMIT + 1)
    except OSError as e:
        raise Failure(f"{what}: {e.strerror}: {path}", USAGE) from e
    if len(data) > LIMIT:
        raise Failure(f"{what}: {path} has more than {LIMIT >> 20} MiB", USAGE)
    return data


def text(data, path):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Failure(f"{path} is not UTF-8: {e.reason} at byte {e.start}", USAGE) from e


def load(path):
    """The configuration in a file, with the files that it names."""
    try:
        conf = json.loads(text(read(path, "monitor"), path))
    except ValueError as e:
        raise Failure(f"{path} is not JSON: {e}", USAGE) from e
    if isinstance(conf, dict) and set(conf) == {"dataplane-config"}:
        conf = conf["dataplane-config"]
    if not isinstance(conf, dict):
        raise Failure(f"{path}: it must be an object with ingress-path and egress-path", USAGE)
    unknown = sorted(set(conf) - set(PATHS))
    if unknown:
        raise Failure(f"{path}: unknown member {unknown[0]!r}: only ingress-path and egress-path are allowed", USAGE)
    folder = os.path.dirname(path) if path != "-" else "."
    for which in PATHS:
        inline(conf.setdefault(which, {}), which, folder, path)
    return conf


def inline(conf, which, folder, path):
    """Replaces the names of files by their contents."""
    if not isinstance(conf, dict):
        raise Failure(f"{path}: {which} must be an object", USAGE)
    for group in (("code", "code-file", "object", "object-file"), ("object-tc", "object-tc-file")):
        given = [m for m in group if m in conf]
        if len(given) > 1:
            raise Failure(f"{path}: {which} has both {given[0]} and {given[1]}: one is enough", USAGE)
    for member in ("code", "object", "object-tc"):
        name = conf.pop(member + "-file", None)
        if name is None:
            continue
        if not isinstance(name, str) or not name:
            raise Failure(f"{path}: {which}: {member}-file must be the name of a file", USAGE)
        file = os.path.join(folder, name)
        data = read(file, f"{which}: {member}-file")
        conf[member] = text(data, file) if member == "code" else base64.b64encode(data).decode()


class Injection:
    """The steps, each of which can be measured."""

    def __init__(self, daemon, options):
        self.daemon, self.options = daemon, options

    def step(self, what, call):
        begin = time.monotonic()
        result = call()
        if self.options.measure:
            print(f"{what}: {(time.monotonic() - begin) * 1000:.1f} ms")
        return result

    def existing(self):
        """The cube of that name; None if there is none."""
        name = self.options.name
        try:
            cube = self.daemon.request("GET", "cubes", name)
        except Refused as e:
            if e.code == 404:
                return None
            raise
        if isinstance(cube, list) and cube:
            cube = cube[0]
        if cube.get("service-name") != "dynmon":
            raise Failure(f"cube {name} exists and is of service {cube.get('service-name')}, not dynmon", USAGE)
        if self.options.type and cube.get("type") != self.options.type:
            raise Failure(
                f"cube {name} exists and has type {cube.get('type')}: delete it, or leave out -t {self.options.type}", USAGE
            )
        parent = cube.get("parent")
        if parent and parent != self.options.interface:
            raise Failure(
                f"cube {name} is attached to {parent}: detach it first (polycubectl detach {name} {parent})", USAGE
            )
        return cube

    def attach(self):
        body = {"cube": self.options.name, "port": self.options.interface, "position": "last"}
        self.daemon.request("POST", "attach", body=body)

    def create(self, conf):
        name = self.options.name
        body = {"type": self.options.type or "TC", "dataplane-config": conf}
        self.step("create and inject", lambda: self.daemon.request("POST", "dynmon", name, body=body))
        try:
            self.step("attach", self.attach)
        except Failure:
            self.daemon.request("DELETE", "dynmon", name)
            raise

    def replace(self, cube, conf):
        name, attached = self.options.name, bool(cube.get("parent"))
        if not attached:
            self.step("attach", self.attach)
        try:
            path = ("dynmon", name, "dataplane-config")
            self.step("inject", lambda: self.daemon.request("PUT", *path, body=conf))
        except Failure:
            if not attached:
                self.daemon.request("POST", "detach", body={"cube": name, "port": self.options.interface})
            raise

    def run(self, conf):
        cube = self.existing()
        if cube is None:
            self.create(conf)
        else:
            self.replace(cube, conf)
        names = [conf[p].get("name") or "default" for p in PATHS]
        print(f"{self.options.name} monitors {self.options.interface}: ingress {names[0]}, egress {names[1]}")


def main():
    options = arguments()
    conf = load(options.file)
    if options.print:
        print(json.dumps(conf, indent=2))
        return
    debug = (lambda line: print(line, file=sys.stderr)) if options.debug else None
    Injection(Daemon(options, debug=debug), options).run(conf)


if __name__ == "__main__":
    run("dynmon_injector.py", main)
