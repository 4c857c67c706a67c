"""A chat's text, drawn line by line: fast to append to, and never markup."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Offset, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from dspark_tui.glyphs import DEFAULT, Glyphs
from dspark_tui.widgets.chat_text import ChatText
from dspark_tui.widgets.lightmark import Mark
from dspark_tui.widgets.text_rows import Line, Place
from dspark_tui.wrap import cut

STRIPS_KEPT = 512


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt or answer of a stored chat. role: "user" or "assistant"."""

    role: str
    text: str
    footer: str = ""
    marked: str | None = None


class Transcript(ScrollView):
    """Follows the end while the reader is there, and stays put when they are not."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{mark}" for mark in Mark} | {
        "transcript--below",
        "transcript--thumb",
    }
    DEFAULT_CSS = """
    Transcript {
        padding: 0 0 0 1;
        overflow-x: hidden;
        overflow-y: scroll;  /* always scrollable, with a bar of our own */
        scrollbar-size-vertical: 0;
        & > .transcript--sign { color: $role-sign; }
        & > .transcript--heading {
            color: $role-heading;
            text-style: $role-heading-style;
        }
        & > .transcript--bullet { color: $role-bullet; }
        & > .transcript--bold { text-style: bold; }
        & > .transcript--emphasis { text-style: italic; }
        & > .transcript--code { color: $role-code; }
        & > .transcript--fence {
            color: $role-fence;
            background: $role-fence-background;
        }
        & > .transcript--user { color: $role-user; text-style: bold; }
        & > .transcript--note { color: $role-dim; }
        & > .transcript--footer { color: $role-dim; }
        & > .transcript--marked { color: $role-warning; }
        & > .transcript--thumb { color: $role-dim; }
        & > .transcript--below {
            color: $role-below;
            background: $role-below-background;
        }
    }
    """

    def __init__(
        self, *, glyphs: Glyphs = DEFAULT, follow_key: str = "G", id: str | None = None
    ) -> None:
        """follow_key: how the key is called that goes to the end."""
        super().__init__(id=id)
        self._follow_key = follow_key
        self._glyphs = glyphs
        self._text = ChatText(glyphs)
        self._strips: LRUCache[int, list[Strip]] = LRUCache(STRIPS_KEPT)
        self._styles: dict[str, Style] = {}
        self._selection: Selection | None = None
        self._following = True
        self._top = Place(0, 0)  # what the reader last scrolled to
        self._read = Place(0, 0)  # the last row they have seen
        self._fitted = Size(0, 0)  # what the rows were wrapped for

    @property
    def following(self) -> bool:
        """Does the view move with new text?"""
        return self._following

    @property
    def new_lines(self) -> int:
        """Rows that came below the view since the reader left the end."""
        return 0 if self._following else self._text.height - 1 - self._text.row(self._read)

    def add_user(self, text: str) -> None:
        """Show what the person sent."""
        self._text.add_user(text)
        self._settle()

    def begin_answer(self) -> None:
        """Start an answer; `append` grows it."""
        self._text.begin_answer()
        self._settle()

    def append(self, text: str) -> None:
        """Add text to the open answer. Merge pieces first: about ten calls a second."""
        self._text.append(text)
        self._settle()

    def end_answer(self, footer: str = "", marked: str | None = None) -> None:
        """Close the answer. marked: why it is not whole, e.g. "stopped" or "interrupted"."""
        self._text.end_answer(footer, marked)
        self._settle()

    def note(self, text: str) -> None:
        """Add a dim status line, below the answer if one is being written."""
        self._text.note(text)
        self._settle()

    def load(self, turns: Iterable[Turn]) -> None:
        """Replace everything with a stored chat, at its end."""
        self._text.clear()
        for turn in turns:
            if turn.role == "user":
                self._text.add_user(turn.text)
            else:
                self._text.append(turn.text)
                self._text.end_answer(turn.footer, turn.marked)
        self.follow()

    def clear(self) -> None:
        """Remove everything."""
        self._text.clear()
        self.follow()

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._following = True
        self._settle()
        self.refresh()

    def last_answer(self) -> str:
        """Source text of the latest answer, "" if there is none."""
        return self._text.last_answer()

    def source_text(self) -> str:
        """Source text of the whole chat, prompts quoted."""
        return self._text.source_text()

    def _settle(self) -> None:
        """Take new text into account, once, and keep the end in view if it is followed."""
        changed = self._text.take_changes()
        for line in [line for line in self._strips.keys() if line >= changed]:  # noqa: SIM118
            self._strips.discard(line)
        grew = self._resize_text()
        if self._following:
            self._scroll_to_row(self.max_scroll_y)
        if grew or not self._following:
            self.refresh()
        elif self._text.lines:
            rows = len(self._text.lines[-1].rows)
            self.refresh_lines(self._text.height - rows, rows)

    def _resize_text(self) -> bool:
        """Tell Textual how far one can scroll; true if that changed.

        Nothing else depends on it, so the layout of the whole screen that Textual would do at each
        change is left out: with eight panes it is most of the work.
        """
        size = Size(self._text.width, self._text.height)
        changed = size != self.virtual_size
        self.set_reactive(Transcript.virtual_size, size)
        return changed

    def _scroll_to_row(self, row: int) -> None:
        self.scroll_target_y = self.scroll_y = row

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.size != self._fitted:
            return  # Textual keeps the view in bounds during a resize; the reader did not scroll
        row = round(new_value)
        self._following = row >= self.max_scroll_y
        self._top = self._text.place(row)
        bottom = self._text.place(row + self.size.height - 1)
        self._read = bottom if self._following else max(self._read, bottom)

    def on_resize(self) -> None:
        width = self.size.width - 1  # the last column is the scrollbar's
        if width < 1:
            return
        if width != self._text.width:
            self._text.rewrap(width)
            self._strips.clear()
        self._resize_text()
        self._scroll_to_row(self.max_scroll_y if self._following else self._text.row(self._top))
        self._fitted = self.size
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()

    def selection_updated(self, selection: Selection | None) -> None:
        self._selection = selection
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected source text: no borders, no soft line breaks."""
        if not self._text.lines:
            return None
        start = selection.start or Offset(0, 0)
        end = selection.end or Offset(0, self._text.height)
        return self._text.between((start.y, start.x), (end.y, end.x)), "\n"

    def render_line(self, y: int) -> Strip:
        row = round(self.scroll_y) + y
        if y == self.size.height - 1 and self.new_lines:
            return self._below()
        if row >= self._text.height:
            return Strip.blank(self.size.width, self._style(Mark.TEXT))
        number, part = self._text.find(row)
        if number not in self._strips:
            self._strips[number] = self._draw(self._text.lines[number], row - part)
        strip = self._strips[number][part]
        span = None if self._selection is None else self._selection.get_span(row)
        if span is not None:
            strip = self._highlight(strip, *span)
        return strip if self._following else self._with_thumb(strip, y)

    def _with_thumb(self, strip: Strip, y: int) -> Strip:
        """The row with its part of the scrollbar, which only shows away from the end."""
        height, total = self.size.height, self._text.height
        length = max(1, height * height // total)
        top = round(self.scroll_y * (height - length) / max(1, self.max_scroll_y))
        if not top <= y < top + length:
            return strip
        thumb = Strip([Segment(self._glyphs.thumb, self._style("thumb"))], 1)
        return Strip.join([strip.crop(0, self._text.width), thumb])

    def _highlight(self, strip: Strip, start: int, end: int) -> Strip:
        style = self.screen.get_component_rich_style("screen--selection")
        position, segments = 0, []
        for text, own, _ in strip:
            first = max(0, start - position)
            last = len(text) if end == -1 else max(first, end - position)
            segments.append(Segment(text[:first], own))
            segments.append(Segment(text[first:last], (own or Style()) + style))
            segments.append(Segment(text[last:], own))
            position += len(text)
        return Strip([segment for segment in segments if segment.text])

    def _below(self) -> Strip:
        count = self.new_lines
        noun = "line" if count == 1 else "lines"
        text = f" {self._glyphs.below} {count} new {noun} below   {self._follow_key} follows again"
        return Strip([Segment(cut(text, self.size.width), self._style("below"))])

    def _draw(self, line: Line, first_row: int) -> list[Strip]:
        """The line's rows as they are painted, each knowing its place for the mouse's selection."""
        runs = line.runs
        fenced = bool(runs) and runs[0].mark is Mark.FENCE
        filler = self._style(Mark.FENCE if fenced else Mark.TEXT)
        strips = []
        for number, (start, end) in enumerate(line.rows):
            segments = [Segment(" " * line.hang, filler)] if number and line.hang else []
            for run in runs:
                text = line.drawn[max(run.start, start) : min(run.end, end)]
                if text:
                    segments.append(Segment(text, self._style(run.mark)))
            strip = Strip(segments).adjust_cell_length(self._text.width, filler)
            strip = strip.adjust_cell_length(self._text.width + 1, self._style(Mark.TEXT))
            strips.append(strip.apply_offsets(0, first_row + number))
        return strips

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self.get_component_rich_style(f"transcript--{name}")
        return self._styles[name]
