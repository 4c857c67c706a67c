"""What a viewer keeps of each request beyond what the engine's own state of it tells. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct, field

from dspark_tui.batch.lanes import Span


class Track(Struct):
    """number: 1, 2, … in order of submission. ours: it was sent from here."""

    number: int
    ours: bool
    stalls: list[Span] = field(default_factory=list)


class Tracks:
    """The tracks of all requests that are known, by the engine's ids."""

    def __init__(self) -> None:
        self._tracks: dict[str, Track] = {}
        self._submitted = 0
        self._claimed = set[str]()  # and not begun yet

    def __contains__(self, request: str) -> bool:
        return request in self._tracks

    def __getitem__(self, request: str) -> Track:
        return self._tracks[request]

    def begin(self, request: str) -> None:
        self._submitted += 1
        self._tracks[request] = Track(self._submitted, request in self._claimed)
        self._claimed.discard(request)

    def claim(self, requests: Iterable[str]) -> None:
        """They were sent from here. The engine may tell that before its events do."""
        for request in requests:
            if request in self._tracks:
                self._tracks[request].ours = True
            else:
                self._claimed.add(request)

    def strangers(self) -> Iterator[str]:
        """Those that nobody has claimed."""
        return (request for request, track in self._tracks.items() if not track.ours)

    def keep(self, requests: Collection[str]) -> None:
        """Forget all others that have begun, and whose they were."""
        self._tracks = {id: track for id, track in self._tracks.items() if id in requests}

    def clear(self) -> None:
        """Another engine: it knows none of them. Numbers go on."""
        self._tracks.clear()
        self._claimed.clear()
