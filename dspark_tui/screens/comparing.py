"""Actions that set panes against each other: differences, votes, figures, repeats."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from dspark_tui.actions import Context
from dspark_tui.comparison.blind import hidden, hide, reveal
from dspark_tui.conversation.params import PaneParams
from dspark_tui.conversation.reasoning import answer_of
from dspark_tui.conversation.session import Conversation
from dspark_tui.conversation.votes import Vote, tally
from dspark_tui.screens.paning import Paning

if TYPE_CHECKING:
    from dspark_tui.comparison.broadcasts import Broadcast, Broadcasts, Reply

BLIND_SEED_BITS = 32


class Comparing(Paning):
    """Keeps the broadcasts, those of a stored session included; votes are the session's."""

    @cached_property
    def broadcasts(self) -> Broadcasts:
        from dspark_tui.comparison.broadcast_memory import remembered
        from dspark_tui.comparison.broadcasts import Broadcasts

        return Broadcasts(remembered(self.session))

    def on_mount(self) -> None:
        """The votes of a stored session's latest broadcast are shown again."""
        latest = self.broadcasts.latest if self.session.votes else None
        if latest is not None and latest.vote is not None:
            for reply in latest.replies:
                reply.pane.voted = reply.candidate in latest.vote.winners
            self.describe()

    def note_broadcast(self, prompt: str, panes: Sequence[Conversation]) -> None:
        """Call it before a prompt is sent to the panes."""
        if len(panes) < 2:  # one alone has nothing to be compared with
            return
        first = min(self.session.panes, key=lambda pane: pane.number)
        self.broadcasts.sent(prompt, panes, first)
        for pane in self.session.panes:
            pane.voted = False
        self.describe()

    # ---- differences

    def action_mark(self) -> None:
        pane = self.session.active
        others = [other for other in self.session.panes if other.marked and other is not pane]
        if len(others) > 1:
            mark = self.key("mark", Context.PANES)
            self.say(f"two panes are marked; {mark} there takes a mark away")
            return
        pane.marked = not pane.marked
        self.describe()

    def action_diff(self) -> None:
        from dspark_tui.screens.compare import Compare

        pair = self._pair()
        if pair is None:
            mark = self.key("mark", Context.PANES)
            self.say(f"{mark} marks the pane to compare this one with")
            return
        left, right = pair
        texts = [_latest_answer(pane) for pane in pair]
        for pane, text in zip(pair, texts, strict=True):
            if not text:
                self.say(f"pane {pane.title} has no answer yet")
                return
        names = (left.title, right.title)
        self.app.push_screen(Compare(texts[0], texts[1], names, self.glyphs))

    def _pair(self) -> tuple[Conversation, Conversation] | None:
        """Two marked panes, else a marked one and the active one, else the only two there are."""
        session = self.session
        panes = [pane for pane in session.panes if pane.marked]
        if len(panes) == 1 and panes[0] is not session.active:
            panes.append(session.active)
        if not panes and len(session.panes) == 2:
            panes = session.panes
        return (panes[0], panes[1]) if len(panes) == 2 else None

    # ---- votes

    def action_vote(self) -> None:
        broadcast = self.broadcasts.latest
        reply = broadcast.reply_of(self.session.active) if broadcast is not None else None
        if broadcast is None or reply is None:
            self.say("votes are for an answer to the latest prompt that several panes got")
        elif not reply.answer:
            self.say("no answer to vote for yet")
        else:
            self._vote(broadcast, reply)

    def _vote(self, broadcast: Broadcast, reply: Reply) -> None:
        votes = self.session.votes
        if broadcast.vote is None:
            candidates = tuple(reply.candidate for reply in broadcast.replies)
            broadcast.vote = Vote(broadcast.prompt, candidates, hidden(self.session))
            votes.append(broadcast.vote)
        reply.pane.voted = broadcast.vote.toggle(reply.candidate)
        if not broadcast.vote.winners:
            votes.remove(broadcast.vote)
            broadcast.vote = None
        self._reveal()
        self.describe()
        if not reply.pane.voted:
            self.say(f"took back the vote for {reply.candidate}")
            return
        (score,) = (score for score in tally(votes) if score.candidate == reply.candidate)
        self.say(f"voted; {score}")

    def action_blind(self) -> None:
        if hidden(self.session):
            self._reveal()
        elif len(self.session.panes) == 1:
            self.say("one pane alone can't be mistaken for another")
        else:
            hide(self.session, random.getrandbits(BLIND_SEED_BITS))
            self.grid.reorder()
            self.activate(self.session.panes[0])  # staying where one was would tell who that is
            self.say(f"blind: {self.key('vote', Context.PANES)} votes and shows who is who")

    def _reveal(self) -> None:
        if hidden(self.session):
            reveal(self.session)
            self.grid.reorder()
            self.describe()

    async def open_pane(self, params: PaneParams) -> Conversation | None:
        self._reveal()
        return await super().open_pane(params)

    def action_params(self) -> None:
        if not self.refused_while_blind():
            super().action_params()

    def action_rename_pane(self) -> None:
        if not self.refused_while_blind():
            super().action_rename_pane()

    # ---- figures and repeats

    def action_figures(self) -> None:
        from dspark_tui.screens.broadcast import BroadcastFigures

        if not len(self.broadcasts):
            self.say("no prompt went to several panes yet")
        else:
            screen = BroadcastFigures(self.broadcasts, self.session, self.engines, self.glyphs)
            self.app.push_screen(screen)

    def action_repeats(self) -> None:
        from dspark_tui.comparison.repeats import Repeats
        from dspark_tui.screens.repeat import Repeat

        pane, panes = self.session.active, self.session.recipients()
        prompt = self.composer.prompt.strip() or (pane.turns[-1].prompt if pane.turns else "")
        if not prompt:
            self.say("write a prompt first, or send one")
        elif any(pane.busy for pane in panes):
            self.say("panes are answering; repeat a prompt when their answers are there")
        elif not self.refused_while_blind():
            self.repeats = Repeats(prompt, panes, self.engines)
            screen = Repeat(self.repeats, self.engines, self.glyphs)
            places = {pane: _place(pane) for pane in panes}
            self.app.push_screen(screen, lambda _: self._place_anew(places))

    def _place_anew(self, places: Mapping[Conversation, tuple[int, int] | None]) -> None:
        """Redraw panes whose last turn is among more versions than before. places: as it was."""
        for conversation, place in places.items():
            if _place(conversation) != place:
                pane = self.grid.pane_of(conversation)
                back = pane.keep_scroll()
                pane.show()
                self.call_after_refresh(back)


def _place(pane: Conversation) -> tuple[int, int] | None:
    """Of the last turn among its versions."""
    return pane.place(pane.turns[-1]) if pane.turns else None


def _latest_answer(pane: Conversation) -> str:
    """Without what was only thought."""
    return next((answer_of(turn.answer) for turn in reversed(pane.turns) if turn.answer), "")
