"""Whose answer was best, and the count of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field


class Vote(Struct):
    """On one broadcast. candidates: each pane's label and what set it apart, in the panes' order.

    winners: some of the candidates; several are a tie. blind: the first was given without knowing
    which pane it was.
    """

    prompt: str
    candidates: tuple[str, ...]
    blind: bool = False
    winners: list[str] = field(default_factory=list)

    def toggle(self, candidate: str) -> bool:
        """Vote for it, or take that back. True if it has the vote now."""
        if candidate in self.winners:
            self.winners.remove(candidate)
        else:
            self.winners.append(candidate)
        return candidate in self.winners


class Score(Struct):
    """How a candidate fared. stood: the votes it could have won."""

    candidate: str
    won: int = 0
    tied: int = 0
    stood: int = 0

    def __str__(self) -> str:
        tied = f", tied {self.tied}" if self.tied else ""
        return f"{self.candidate}: won {self.won}{tied} of {self.stood}"


def tally(votes: Iterable[Vote]) -> list[Score]:
    """A score for each candidate of votes that have a winner, the best first."""
    scores: dict[str, Score] = {}
    for vote in votes:
        for candidate in vote.candidates if vote.winners else ():
            score = scores.setdefault(candidate, Score(candidate))
            score.stood += 1
            score.won += vote.winners == [candidate]
            score.tied += candidate in vote.winners and len(vote.winners) > 1
    return sorted(scores.values(), key=lambda score: (-score.won, -score.tied, score.candidate))
