"""Where a server listens. Apart from the client, whose HTTP library is slow to import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct, field

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Address(Struct, frozen=True):
    """Where a server listens: a URL, or the path of a Unix socket."""

    url: str
    socket: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """From http(s)://host:port[/v1], unix:///path or a socket's path. Raises ValueError."""
        parts = urlsplit(text)
        if parts.scheme == "unix" or (not parts.scheme and text.startswith("/")):
            return cls.of_socket(Path(parts.path))
        if parts.scheme not in ("http", "https") or not parts.netloc or not _valid_port(parts):
            meant = f", such as http://{text}" if _lacks_scheme(text) else ""
            raise ValueError(
                f"{text!r} is no address; give http://HOST:PORT{meant}, or unix:///PATH"
            )
        return cls(text.rstrip("/").removesuffix("/v1"))

    @classmethod
    def of_socket(cls, path: Path) -> Address:
        return cls("http://engine", path)

    @property
    def local(self) -> bool:
        return self.socket is not None or urlsplit(self.url).hostname in LOOPBACK

    @property
    def short(self) -> str:
        """As a title names it: host and port, without what logs in there; a socket's file."""
        if self.socket is not None:
            return self.socket.name
        parts = urlsplit(self.url)
        return f"{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __str__(self) -> str:
        """As messages name it; the path of a worker's socket would tell nobody anything."""
        return "the engine" if self.socket else self.url


class Server(Struct, frozen=True):
    """A running server, and how to ask it.

    model: what requests name, None for the first it lists. headers: sent along with each request.
    """

    address: Address
    api_key: str | None = None
    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def _lacks_scheme(text: str) -> bool:
    """Would http:// before it make an address of it?"""
    parts = urlsplit(f"http://{text}")
    return "//" not in text and bool(parts.hostname) and _valid_port(parts) and bool(parts.port)


def _valid_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False
