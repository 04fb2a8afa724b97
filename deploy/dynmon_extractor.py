#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the metrics of a dynmon cube, and prints, saves or serves them.

Reading empties the metrics that are configured so (empty-on-read, swap-on-read).
"""

import argparse
import http.server
import json
import os
import socket
import sys
import tempfile

from dynmon_client import NOT_WRITTEN, USAGE, Daemon, Failure, Parser, add_options, run

VERSION = "1.0"

EPILOG = """\
formats:
  json          {"ingress-metrics": [{"name", "value", "timestamp"}], "egress-metrics": [...]}
  open-metrics  OpenMetrics 1.0
  prometheus    the same in the text format of Prometheus, 0.0.4, for the textfile collector of node_exporter

exit status: 0 success, 1 no usable daemon, 2 refused by the daemon, 64 wrong command line, 74 result not written
"""

CONTENT_TYPES = {
    "open-metrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "prometheus": "text/plain; version=0.0.4; charset=utf-8",
}


def arguments():
    parser = Parser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", help="name of the cube")
    parser.add_argument("-t", "--type", choices=("ingress", "egress", "all"), default="all", help="path (default all)")
    parser.add_argument("-n", "--name", dest="metric", metavar="METRIC", help="only the metric of this name")
    parser.add_argument("-s", "--save", action="store_true", help="write to NAME.json (NAME.txt, NAME.prom), not to standard output")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE, which is replaced as a whole")
    parser.add_argument("--format", choices=("json", "open-metrics", "prometheus"), default="json", help="default json")
    parser.add_argument(
        "--serve", metavar="[HOST:]PORT", type=listener, help="serve /metrics for Prometheus (HOST is 127.0.0.1 by default)"
    )
    add_options(parser, VERSION)
    options = parser.parse_args()
    if options.format != "json" and (options.metric or options.type != "all"):
        parser.error("-n and -t are for the format json")
    if options.serve and (options.save or options.output or options.metric or options.type != "all"):
        parser.error("--serve excludes -s, -o, -n and -t")
    if options.save and options.output:
        parser.error("-s and -o exclude each other")
    return options


def listener(text):
    """HOST:PORT, or a port."""
    host, colon, number = text.rpartition(":")
    if not number.isdecimal() or int(number) > 65535 or (colon and not host):
        raise argparse.ArgumentTypeError(f"{text!r} is neither PORT nor HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(number)


def as_json(daemon, options):
    """The metrics of the chosen paths and name."""
    base = ("dynmon", options.name, "metrics")
    lists = [p + "-metrics" for p in (("ingress", "egress") if options.type == "all" else (options.type,))]
    if not options.metric and options.type == "all":
        answer = daemon.request("GET", *base) or {}
        return {name: answer.get(name, []) for name in lists}
    if not options.metric:
        return {lists[0]: daemon.request("GET", *base, lists[0]) or []}
    out, last = {}, None
    for name in lists:
        try:
            one = daemon.request("GET", *base, name, options.metric)
            out[name] = one if isinstance(one, list) else [one]
        except Failure as e:
            if getattr(e, "code", None) != 404:
                raise
            last = e
    if not out:
        raise last
    return out


def clean(value):
    """Without the links that the API adds."""
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items() if k != "_links"}
    return [clean(v) for v in value] if isinstance(value, list) else value


def prometheus(text):
    """OpenMetrics as the older text format: counters have the name of their samples, and what is unknown is untyped."""
    lines, kinds = [], {}
    for line in text.splitlines():
        words = line.split(" ", 3)
        if words[:2] == ["#", "TYPE"] and len(words) == 4:
            kinds[words[2]] = words[3]
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line == "# EOF" or words[:2] == ["#", "UNIT"]:
            continue
        if words[0] == "#" and len(words) >= 3 and words[1] in ("TYPE", "HELP"):
            kind = kinds.get(words[2])
            if kind == "counter":
                words[2] += "_total"
            if words[1] == "TYPE" and kind not in ("counter", "gauge", "histogram", "summary"):
                words[3] = "untyped"
            line = " ".join(words)
        lines.append(line)
    return "\n".join(lines) + "\n" if lines else ""


def collect(daemon, options):
    """The text in the chosen format."""
    if options.format == "json":
        return json.dumps(clean(as_json(daemon, options)), indent=2) + "\n"
    text = daemon.request("GET", "dynmon", options.name, "open-metrics") or ""
    return prometheus(text) if options.format == "prometheus" else text


def write(path, text):
    """Replaces a file, which is complete at any time."""
    folder = os.path.dirname(path) or "."
    new = None
    try:
        handle, new = tempfile.mkstemp(dir=folder, prefix=".dynmon-")
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
            os.fchmod(f.fileno(), 0o644)
        os.replace(new, path)
    except OSError as e:
        if new and os.path.exists(new):
            os.unlink(new)
        raise Failure(f"write {path}: {e.strerror}", NOT_WRITTEN) from e


def serve(daemon, options):
    """Answers GET /metrics until it is interrupted."""
    formats = {"json": "prometheus"}.get(options.format, options.format)
    options.format = formats

    class Handler(http.server.BaseHTTPRequestHandler):
        """One request; each reads the metrics."""

        timeout = 10

        def do_GET(self):
            """GET /metrics; anything else does not exist."""
            if self.path.split("?")[0] != "/metrics":
                return self.answer(404, "text/plain", "only /metrics\n")
            try:
                return self.answer(200, CONTENT_TYPES[formats], collect(daemon, options))
            except Failure as e:
                print(f"dynmon_extractor.py: {e}", file=sys.stderr)
                return self.answer(502, "text/plain", f"{e}\n")

        def answer(self, status, kind, text):
            """Sends an answer."""
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format, *args):
            """Requests are not logged."""

    class Server(http.server.ThreadingHTTPServer):
        """IPv4 or IPv6."""

        address_family = socket.AF_INET6 if ":" in options.serve[0] else socket.AF_INET
        daemon_threads = True

    try:
        server = Server(options.serve, Handler)
    except OSError as e:
        raise Failure(f"listen on {options.serve[0]} port {options.serve[1]}: {e.strerror}", USAGE) from e
    host = f"[{options.serve[0]}]" if ":" in options.serve[0] else options.serve[0]
    print(f"serving http://{host}:{server.server_address[1]}/metrics", flush=True)
    server.serve_forever()


def main():
    options = arguments()
    daemon = Daemon(options, reading=True)
    if options.serve:
        serve(daemon, options)
    text = collect(daemon, options)
    path = options.output
    if options.save:
        if "/" in options.name:
            raise Failure(f"{options.name!r} is no name of a cube", USAGE)
        path = options.name + {"json": ".json", "prometheus": ".prom"}.get(options.format, ".txt")
    if path:
        write(path, text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    run("dynmon_extractor.py", main)
