"""Prompts that went to several panes at once, and what each of them made of it. Pure.

Every figure is worked out from the requests' records; nothing is counted on the side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from dspark_tui.batch.judged import verdict
from dspark_tui.batch.lanes import Lane
from dspark_tui.batch.live import Aggregate
from dspark_tui.comparison.compare import words
from dspark_tui.conversation.reasoning import answer_of
from dspark_tui.conversation.request_record import RequestRecord
from dspark_tui.conversation.session import Conversation, Turn, TurnStatus
from dspark_tui.conversation.votes import Vote
from engine.events import Phase, RequestState
from engine.proof.shape import Solo
from engine.proof.verdict import Verdict
from engine.types import FinishReason

KEPT = 100
"""Broadcasts that can still be looked at."""

ENDINGS = {
    TurnStatus.STOPPED: FinishReason.CANCELLED,
    TurnStatus.INTERRUPTED: FinishReason.ERROR,
    TurnStatus.FAILED: FinishReason.ERROR,
}


class Asked(Protocol):
    """A run, as far as its figures go."""

    pane: Conversation
    turn: Turn

    def record(self) -> RequestRecord: ...


class Reply(Struct):
    """One pane's answer. candidate: the pane's label and what set it apart when it was asked, as
    votes are kept; title: the same as the pane's title said it.

    engine: which one was asked. run: None while the prompt waits behind the pane's earlier one.
    dropped: it was taken back while it waited.
    """

    pane: Conversation
    candidate: str
    title: str
    engine: str
    run: Asked | None = None
    dropped: bool = False

    @classmethod
    def of(cls, pane: Conversation, base: Conversation, run: Asked | None = None) -> Reply:
        """That of a pane which is told by what sets it off `base`."""
        params, label = pane.params, pane.label
        candidate = f"{label}  {params.differences(base.params)}".rstrip()
        title = f"{label}  {params.differences_in_title(base.params)}".rstrip()
        return cls(pane, candidate, title, params.engine, run)

    @property
    def waits(self) -> bool:
        return self.run is None and not self.dropped

    @property
    def answer(self) -> str:
        return "" if self.run is None else self.run.turn.answer

    @property
    def words(self) -> int:
        """Without what was only thought."""
        return words(answer_of(self.answer))

    @property
    def record(self) -> RequestRecord:
        """Empty while nothing was sent."""
        return RequestRecord(0) if self.run is None else self.run.record()

    @property
    def ending(self) -> str:
        """In one word: how it ended, or where it is."""
        if self.run is None:
            return "taken back" if self.dropped else "queued"
        return self.run.turn.state


class Broadcast(Struct):
    """replies: in the panes' order. vote: None before the first one."""

    prompt: str
    replies: list[Reply]
    vote: Vote | None = None

    @property
    def aggregate(self) -> Aggregate | None:
        return aggregate([reply.record for reply in self.replies])

    @property
    def engines(self) -> set[str]:
        """The names of those that were asked."""
        return {reply.engine for reply in self.replies}

    @property
    def over(self) -> bool:
        """Is no answer still to come?"""
        return all(
            reply.dropped or (reply.run is not None and reply.run.turn.status.over)
            for reply in self.replies
        )

    def verdict(self, solo: Solo | None, slots: int) -> Verdict | None:
        """What the times show of the one engine, by the judge of the live panel."""
        return verdict(self._lanes(), solo, slots)

    def reply_of(self, pane: Conversation) -> Reply | None:
        return next((reply for reply in self.replies if reply.pane is pane), None)

    def _lanes(self) -> Iterator[Lane]:
        for number, reply in enumerate(self.replies, 1):
            if reply.run is not None and reply.record.sent:
                yield Lane(number, _request(reply.record, reply.run.turn.status))


class Broadcasts:
    """All broadcasts, oldest first."""

    def __init__(self, earlier: Iterable[Broadcast] = ()) -> None:
        self._all = list(earlier)[-KEPT:]

    def __getitem__(self, index: int) -> Broadcast:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    @property
    def latest(self) -> Broadcast | None:
        return self._all[-1] if self._all else None

    def sent(self, prompt: str, panes: Sequence[Conversation], base: Conversation) -> None:
        """Note that a prompt goes to these panes, which are told by what sets them off `base`."""
        self._all.append(Broadcast(prompt, [Reply.of(pane, base) for pane in panes]))
        del self._all[:-KEPT]

    def begun(self, run: Asked) -> None:
        """Find the broadcast that a new run belongs to, if it does to any."""
        if waiting := self._waiting(run.pane, run.turn.prompt):
            waiting[0].run = run

    def dropped(self, pane: Conversation, prompt: str) -> None:
        """Note that the newest such prompt that waits in the pane was taken back."""
        if waiting := self._waiting(pane, prompt):
            waiting[-1].dropped = True

    def _waiting(self, pane: Conversation, prompt: str) -> list[Reply]:
        """The pane's replies to that prompt which are still to come, oldest first."""
        replies = (found.reply_of(pane) for found in self._all if found.prompt == prompt)
        return [reply for reply in replies if reply is not None and reply.waits]


def aggregate(records: Sequence[RequestRecord]) -> Aggregate | None:
    """All tokens over the time from the first sending to the last token; None before one."""
    ends = [record.sent + record.last for record in records if record.last is not None]
    if not ends:
        return None
    start = min(record.sent for record in records if record.sent)
    return Aggregate(sum(record.tokens for record in records), max(ends) - start)


def _request(record: RequestRecord, status: TurnStatus) -> RequestState:
    """The record as the engine would have told it, on the clock of the workbench."""

    def at(seconds: float | None) -> float | None:
        return None if seconds is None else record.sent + seconds

    return RequestState(
        request=record.request,
        source="",
        phase=Phase.FINISHED if status.over else Phase.DECODE,
        prompt_tokens=record.prompt_tokens or 0,
        max_tokens=0,
        queued=record.sent,
        first_token=at(record.first),
        last_token=at(record.last),
        tokens=record.tokens,
        finished=at(record.ended) if status.over else None,
        reason=ENDINGS.get(status),
    )
