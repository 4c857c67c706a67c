"""The socket, taken before anything slow begins."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.server.guard import LOOPBACK_NAMES, AccessPolicy
from engine.server.options import ServeOptions

SOCKET_PATH_BYTES = 100
"""Longest socket path: the systems' own limits are 104 and 108, with an unhelpful error."""

BACKLOG = 512


class ListenError(Exception):
    """The address can't be used. `str()` is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound, listening socket. url: what clients use. policy: who may come in by it."""

    socket: socket.socket
    url: str
    policy: AccessPolicy


@contextlib.contextmanager
def listen(options: ServeOptions) -> Iterator[Listener]:
    """Claim the address; give it back at the end. Raises ListenError."""
    bound = _unix(options.socket) if options.socket else _tcp(options.host, options.port)
    try:
        yield Listener(bound, *_address(bound, options))
    finally:
        bound.close()
        if options.socket:
            options.socket.unlink(missing_ok=True)


def _address(bound: socket.socket, options: ServeOptions) -> tuple[str, AccessPolicy]:
    if options.socket:
        return f"unix://{options.socket}", _policy(None, options)
    ip, port = bound.getsockname()[:2]
    address = ipaddress.ip_address(ip.partition("%")[0])
    if not address.is_loopback and not options.api_key:
        bound.close()
        raise ListenError(
            f"{options.host} can be reached from other machines: give an --api-key, "
            "or leave --host out"
        )
    shown = f"[{options.host}]" if ":" in options.host else options.host
    # The names of a wildcard address are unknown; the key, which it must have, guards it.
    hosts = None if address.is_unspecified else LOOPBACK_NAMES | {options.host.lower()}
    return f"http://{shown}:{port}", _policy(hosts, options)


def _policy(hosts: frozenset[str] | None, options: ServeOptions) -> AccessPolicy:
    return AccessPolicy(hosts, options.api_key, frozenset(options.cors))


def _tcp(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise ListenError(_no_address(host)) from error
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise ListenError(_refusal(error, host, port)) from error
    return bound


def _refusal(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} on {host} is taken; stop what uses it or choose another --port"
        case errno.EADDRNOTAVAIL:
            return _no_address(host)
        case _:
            return f"port {port} on {host}: {error.strerror}; choose another --port"


def _no_address(host: str) -> str:
    return f"{host} is no address of this machine; choose another --host or leave it out"


def _unix(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise ListenError(
            f"the socket path is longer than {SOCKET_PATH_BYTES} bytes; choose a shorter --socket"
        )
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear_stale(path)
        bound.bind(os.fspath(path))
        path.chmod(0o600)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise ListenError(f"the socket {path} can't be made: {error.strerror}") from error
    except ListenError:
        bound.close()
        raise
    return bound


def _clear_stale(path: Path) -> None:
    """Remove the socket file of a process that is gone; anything else is not ours to remove."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"{path} exists and is no socket; choose another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except TimeoutError:
            pass  # a full backlog: somebody is there
    raise ListenError(f"another engine is listening on {path}; choose another --socket")
