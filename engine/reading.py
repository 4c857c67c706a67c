"""Tokens to be read for the sake of several rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.cache import CachedRow
from engine.prefix import SHORTEST, Tokens, common
from engine.row import Row


@dataclass(slots=True, eq=False)
class Reading:
    """Tokens to read, from the first one on, and the rows that need just these.

    A tree: what several prompts begin with is one reading, and what each goes on with is a branch,
    which is read after it. start: where reading starts, what is before being known or read already.
    read: how many of the tokens are. base: the row to start from, while it is held.
    """

    tokens: Tokens
    start: int
    rows: list[Row] = field(default_factory=list)
    branches: list[Reading] = field(default_factory=list)
    base: CachedRow | None = None
    read: int = field(init=False)

    def __post_init__(self) -> None:
        self.read = self.start

    @property
    def unread(self) -> int:
        return len(self.tokens) - self.read

    @property
    def waiting(self) -> Iterator[Row]:
        """All rows it is read for."""
        yield from self.rows
        for branch in self.branches:
            yield from branch.waiting

    @property
    def scored(self) -> bool:
        """Whether logits are wanted too, so that every token has to be run."""
        return any(row.prompt_scores is not None for row in self.waiting)

    def shares(self, tokens: Tokens) -> int:
        """How many of a newcomer's tokens it need not have read for itself; 0 where so few are
        not worth waiting for, or reading has gone past the last of them."""
        shared = common(tokens, self.tokens)
        if shared < len(self.tokens):
            worth = shared - self.start >= SHORTEST or shared == len(tokens)
            return shared if worth and shared >= self.read else 0
        return max([shared, *(branch.shares(tokens) for branch in self.branches)])

    def add(self, row: Row, tokens: Tokens) -> None:
        """Let a newcomer that shares some of the tokens wait too."""
        row.read = self.read
        shared = common(tokens, self.tokens)
        if shared < len(self.tokens):
            self._split(shared)
        if shared == len(tokens):
            self.rows.append(row)
            return
        branch = max(self.branches, key=lambda each: each.shares(tokens), default=None)
        if branch is not None and branch.shares(tokens) > shared:
            branch.add(row, tokens)
            row.read = self.read
        else:
            self.branches.append(Reading(tokens, shared, [row]))

    def remove(self, row: Row) -> bool:
        """Forget a row; whether it was here. What was read for its sake is read for another's from
        now on."""
        if row in self.rows:
            self.rows.remove(row)
        elif not any(branch.remove(row) for branch in self.branches):
            return False
        self.branches = [branch for branch in self.branches if any(branch.waiting)]
        heir = min(self.waiting, key=lambda each: each.cached, default=None)
        if heir is not None:
            heir.cached = min(heir.cached, row.cached)
        return True

    def begin(self, base: CachedRow | None) -> None:
        """Start from what is known of the tokens, be it more or less than was thought."""
        had, self.base = self.read, base
        self.start = self.read = base.length if base else 0
        for row in self.waiting:
            row.read = self.read
            if row.cached == had:
                row.cached = self.read

    def advance(self, tokens: int) -> None:
        self.read += tokens
        for row in self.waiting:
            row.read += tokens

    def _split(self, at: int) -> None:
        """Make it end after `at` tokens; what is left becomes a branch."""
        rest = Reading(self.tokens, at, self.rows, self.branches)
        self.tokens, self.rows, self.branches = self.tokens[:at], [], [rest]
