# SPDX-License-Identifier: Apache-2.0
"""What dynmon_injector.py and dynmon_extractor.py share: the connection to the daemon, and how they end.

It needs nothing but Python 3.9 or newer.
"""

import argparse
import http.client
import ipaddress
import json
import os
import socket
import ssl
import sys
import urllib.parse

PREFIX = "/polycube/v1/"
SOCKET = "/run/polycube/polycubed.sock"
READ_SOCKET = "/run/polycube/polycubed-read.sock"
PORT = 9000

# Exit statuses, as those of polycubectl.
NO_DAEMON, REFUSED, USAGE, NOT_WRITTEN = 1, 2, 64, 74


class Failure(Exception):
    """What ends a tool: a message, and the exit status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Refused(Failure):
    """An answer that is an error."""

    def __init__(self, message, code):
        super().__init__(message, REFUSED)
        self.code = code


class Parser(argparse.ArgumentParser):
    """A parser whose errors have the exit status of polycubectl."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def add_options(parser, version):
    """Adds the options that say where the daemon is."""
    group = parser.add_argument_group(
        "the daemon", f"Without -a and -p, it is asked over its Unix socket, {SOCKET}, or where POLYCUBECTL_URL says."
    )
    group.add_argument("-a", "--address", help="host, http:// or https:// URL, or unix:///PATH of a socket")
    group.add_argument("-p", "--port", type=port, help=f"TCP port (default {PORT} with -a)")
    group.add_argument("--cacert", metavar="FILE", help="authority of the daemon's certificate, for https")
    group.add_argument("--cert", metavar="FILE", help="certificate of this client, for https")
    group.add_argument("--key", metavar="FILE", help="its private key")
    group.add_argument("--tokenfile", metavar="FILE", help="file with a token, such as /run/polycube/token")
    group.add_argument("--timeout", type=seconds, default=60, metavar="SECONDS", help="limit of a request (default 60)")
    parser.add_argument("-v", "--version", action="version", version=f"%(prog)s {version}")


def port(text):
    """A TCP port."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)


def seconds(text):
    """A time that is not 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def is_loopback(host):
    """True if nobody else can read what is sent to a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Daemon:
    """A daemon, as the options name it."""

    def __init__(self, options, reading=False, debug=None):
        self.timeout, self.debug = options.timeout, debug
        setting = lambda name: getattr(options, name) or os.environ.get("POLYCUBECTL_" + name.upper())
        url = options.address
        if not url and not options.port:
            url = os.environ.get("POLYCUBECTL_URL")
            if not url:
                path = os.environ.get("POLYCUBECTL_SOCKET") or SOCKET
                if reading and path == SOCKET and not os.access(path, os.W_OK) and os.access(READ_SOCKET, os.W_OK):
                    path = READ_SOCKET
                url = "unix://" + path
        self._locate(url or "localhost", options.port)
        self.token = None
        if self.scheme == "https":
            self.context = self._context(setting("cacert"), setting("cert"), setting("key"))
        if self.scheme != "unix" and setting("tokenfile"):
            self._read_token(setting("tokenfile"))

    def _locate(self, url, tcp_port):
        if "://" not in url:
            host = f"[{url}]" if url.count(":") > 1 and not url.startswith("[") else url
            url = "http://" + host
        try:
            parts = urllib.parse.urlsplit(url)
            self.scheme, self.host = parts.scheme, parts.hostname
            self.port = tcp_port or parts.port or PORT
        except ValueError as e:
            raise Failure(f"address {url!r}: {e}", USAGE) from e
        if self.scheme == "unix":
            self.path = parts.path
            if parts.netloc or not self.path.startswith("/") or tcp_port:
                raise Failure(f"address {url!r}: write unix:///path/of/the.sock, without a port", USAGE)
            self.name = f"socket {self.path}"
        elif self.scheme in ("http", "https") and self.host and not parts.username and not parts.query:
            self.name = f"{self.scheme}://{parts.netloc if parts.port else f'{parts.netloc}:{self.port}'}"
        else:
            raise Failure(f"address {url!r}: write a host, http://HOST, https://HOST or unix:///PATH", USAGE)

    @staticmethod
    def _context(cacert, cert, key):
        try:
            context = ssl.create_default_context(cafile=cacert)
            if cert:
                context.load_cert_chain(cert, key)
            return context
        except (OSError, ssl.SSLError) as e:
            raise Failure(f"certificates ({cacert}, {cert}, {key}): {e}", NO_DAEMON) from e

    def _read_token(self, path):
        try:
            with open(path, encoding="ascii") as f:
                self.token = f.read(4096).strip()
        except (OSError, ValueError) as e:
            raise Failure(f"token: {e}", NO_DAEMON) from e
        if self.scheme == "http" and not is_loopback(self.host):
            raise Failure(f"the token would be sent to {self.name} in clear text: use https", NO_DAEMON)

    def _connection(self):
        if self.scheme == "unix":
            return UnixConnection(self.path, self.timeout)
        if self.scheme == "https":
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self.context)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def request(self, method, *words, body=None):
        """Sends a request for the resource of some words, and returns what the answer contains."""
        path = PREFIX + "/".join(urllib.parse.quote(w, safe="") for w in words)
        headers = {"Accept": "application/json"}
        if body is not None:
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as e:
            raise Failure(self._unreachable(e), NO_DAEMON) from e
        finally:
            connection.close()
        if self.debug:
            self.debug(f"{method} {path}: {answer.status}, {len(body or b'')} bytes out, {len(text)} in")
        if answer.status >= 300:
            raise Refused(message(text) or f"{method} {path}: {answer.status} {answer.reason}", answer.status)
        try:
            return json.loads(text) if text.strip() else None
        except ValueError as e:
            raise Failure(f"{self.name} answered no JSON: is polycubed behind it?", NO_DAEMON) from e

    def _unreachable(self, error):
        text = f"{self.name}: {error.strerror if getattr(error, 'strerror', None) else error}"
        if isinstance(error, PermissionError):
            return f"{text}: run it as root, or as a member of the group polycube"
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            hint = "" if self.scheme == "unix" else ", and with --port or --addr"
            return f"{text}: is polycubed running{hint}?"
        return text


def message(text):
    """The message of an error, with its place and details."""
    try:
        errors = json.loads(text)["ietf-restconf:errors"]["error"]
        lines = []
        for e in errors:
            sentence = e.get("error-message") or f"{e.get('error-tag')} {e.get('error-info', '')}"
            place = e.get("error-path")
            lines.append(f"{place}: {sentence}" if place and place not in sentence else sentence)
            detail = e.get("error-detail")
            lines += [detail] if isinstance(detail, str) else [str(d) for d in detail or []]
        return "\n".join(lines)
    except (ValueError, KeyError, TypeError, AttributeError):
        return text.strip()


def run(prog, main):
    """Runs a tool and exits with its status."""
    try:
        main()
        sys.stdout.flush()
    except Failure as e:
        print(f"{prog}: {e}", file=sys.stderr)
        sys.exit(e.status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(NOT_WRITTEN)
    except OSError as e:
        print(f"{prog}: write the result: {e}", file=sys.stderr)
        sys.exit(NOT_WRITTEN)
    except KeyboardInterrupt:
        sys.exit(130)
