"""A chat's text, drawn line by line: fast to append to, and never markup.

Answers that are over are set in type as Markdown on a thread of their own; what is being written
is styled lightly, line by line, by the same renderer.
"""

from __future__ import annotations

import asyncio
from math import inf

from rich.segment import Segment
from textual.geometry import Offset, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.worker import Worker

from dspark_tui.appearance.glyphs import DEFAULT, Glyphs
from dspark_tui.conversation.bookmark import Bookmark
from dspark_tui.text.counted import counted
from dspark_tui.text.lightmark import Mark
from dspark_tui.text.wrap import cut
from dspark_tui.widgets.chat_text import ChatText
from dspark_tui.widgets.line_painter import LinePainter, highlighted
from dspark_tui.widgets.mark_styles import MarkStyles
from dspark_tui.widgets.typesetting import set_drafts

RECALLED_ROWS = 1_000
"""Brought back at a time when the reader reaches the first line that is laid out."""


class Transcript(ScrollView):
    """Follows the end while the reader is there, and stays put when they are not."""

    DEFAULT_CSS = """
    Transcript {
        padding: 0 0 0 1;
        overflow-x: hidden;
        overflow-y: scroll;  /* always scrollable, with a bar of our own */
        scrollbar-size-vertical: 0;
    }
    """

    def __init__(
        self,
        *,
        glyphs: Glyphs = DEFAULT,
        follow_key: str = "G",
        thought_key: str = "",
        id: str | None = None,
    ) -> None:
        """Keys are given by name: what goes to the end, what shows thoughts whole."""
        super().__init__(id=id)
        self._follow_key = follow_key
        self._glyphs = glyphs
        self._text = ChatText(glyphs, thought_key)
        self._painter: LinePainter | None = None
        self._typesetting: Worker[None] | None = None
        self._selection: Selection | None = None
        self._unselected = asyncio.Event()
        self._unselected.set()
        self._following = True
        self._fitted = Size(0, 0)  # what the rows were wrapped for

    @property
    def following(self) -> bool:
        """Does the view move with new text?"""
        return self._following

    @property
    def new_lines(self) -> int:
        """Rows that came below the view since the reader left the end."""
        return 0 if self._following else self._text.height - 1 - self._text.row(self._text.read)

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

    def end_answer(self, footer: str = "", marked: str = "") -> None:
        """Close the answer. marked: why it is not whole, e.g. "✗ stopped"."""
        self._text.end_answer(footer, marked)
        if self._following:
            self._text.forget()
        self._settle()
        self._set_in_type()

    def sign(self, footer: str, marked: str) -> None:
        """Say below the latest answer how it ended, in place of the notes there."""
        self._text.sign(footer, marked)
        self._settle()

    def note(self, text: str) -> None:
        """Add a dim status line, below the answer if one is being written."""
        self._text.note(text)
        self._settle()

    def clear(self) -> None:
        """Remove everything."""
        self._text.clear()
        self.follow()

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._following = True
        self._settle()
        self.refresh()

    @property
    def left_off(self) -> Bookmark | None:
        """Where the reader is; None while they follow the end."""
        return None if self._following else self._text.bookmark

    def resume(self, left_off: Bookmark) -> None:
        """Go to where the reader once left off, and stay there whatever is laid out anew."""
        self._following = False
        self._text.return_to(left_off)
        self._settle()
        self._set_in_type()

    def go_to_start(self) -> None:
        """Go to the first line of all that was said, also while the view is being resized."""
        self._text.recall(inf)
        self._settle()
        self._text.top = self._text.place(0)
        self._following = self.max_scroll_y == 0
        self.scroll_home(animate=False)
        self._set_in_type()

    def toggle_thoughts(self) -> None:
        """Show the models' reasoning whole, or as a line each."""
        self._text.toggle_thoughts()
        self._settle()

    def last_answer(self) -> str:
        """Source text of the latest answer without its reasoning, "" while it is only that."""
        return self._text.last_answer()

    def source_text(self) -> str:
        """Source text of the whole chat, prompts quoted."""
        return self._text.source_text()

    def _set_in_type(self) -> None:
        """Have finished answers set in type; if that is under way, it takes new ones in."""
        if self._fitted and (self._typesetting is None or self._typesetting.is_finished):
            self._typesetting = self.run_worker(self._set_drafts(), exit_on_error=False)

    async def _set_drafts(self) -> None:
        while drafts := self._text.drafts():
            width = self._text.width
            done = await set_drafts(drafts, width)
            await self._unselected.wait()  # what is selected must not move
            if width == self._text.width:
                self._text.set_in_type(done)
                self._settle()

    def _settle(self) -> None:
        """Take new text into account, once, and keep in view what was."""
        if self._following:
            self._text.read = self._text.end
        if not self._fitted:
            return  # the first layout does it for all there is by then
        changed = self._text.take_changes()
        if self._painter is not None:
            self._painter.forget_from(changed)
        grew = self._resize_text()
        self._hold()
        last = len(self._text.lines) - 1
        if grew or changed < last or not self._following:
            self.refresh()
        elif changed == last:
            rows = len(self._text.lines[last].rows)
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

    def _hold(self) -> None:
        """Bring the view to where the reader is."""
        if self._following:
            self._text.top = self._text.place(self.max_scroll_y)
        self._scroll_to_row(self._text.row(self._text.top))

    def _scroll_to_row(self, row: int) -> None:
        self.scroll_target_y = self.scroll_y = row

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.size != self._fitted:
            return  # Textual keeps the view in bounds during a resize; the reader did not scroll
        text, row = self._text, round(new_value)
        if row != min(text.row(text.top), self.max_scroll_y):  # else the text moved, not the reader
            self._following = row >= self.max_scroll_y
            text.top = text.place(row)
        text.see(row + self.size.height - 1)
        if row == 0 and text.earlier and not self._following:
            self.call_next(self._recall)

    def _recall(self) -> None:
        self._text.recall(RECALLED_ROWS)
        self._settle()
        self._set_in_type()

    def on_resize(self) -> None:
        width = self.size.width - 1  # the last column is the scrollbar's
        if width < 1:
            return
        if width != self._text.width:
            self._rewrap(width)
        self._resize_text()
        self._hold()
        self._fitted = self.size
        self.refresh()
        self._set_in_type()

    def _rewrap(self, width: int) -> None:
        self._text.rewrap(width)
        self._painter = None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter = None

    def selection_updated(self, selection: Selection | None) -> None:
        self._selection = selection
        if selection is None:
            self._unselected.set()
        else:
            self._unselected.clear()
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
        painter, text = self._painter_now(), self._text
        if y == self.size.height - 1 and self.new_lines:
            return self._below(painter)
        if row >= text.height:
            return Strip.blank(self.size.width, painter.style(Mark.TEXT))
        number, part = text.find(row)
        strip = painter.strip(number, text.lines[number], part, row, text.width)
        span = None if self._selection is None else self._selection.get_span(row)
        if span is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = highlighted(strip, *span, style)
        return strip if self._following else self._with_thumb(strip, y, painter)

    def _painter_now(self) -> LinePainter:
        if self._painter is None:
            ground = self.background_colors[1]
            styles = MarkStyles(self.app.theme_variables, self.rich_style, ground)
            self._painter = LinePainter(styles)
        return self._painter

    def _with_thumb(self, strip: Strip, y: int, painter: LinePainter) -> Strip:
        """The row with its part of the scrollbar, which only shows away from the end."""
        height, total = self.size.height, self._text.height
        length = max(1, height * height // total)
        top = round(self.scroll_y * (height - length) / max(1, self.max_scroll_y))
        if not top <= y < top + length:
            return strip
        thumb = Strip([Segment(self._glyphs.thumb, painter.chrome("dim"))], 1)
        return Strip.join([strip.crop(0, self._text.width), thumb])

    def _below(self, painter: LinePainter) -> Strip:
        lines = counted(self.new_lines, "new line")
        text = f" {self._glyphs.below} {lines} below   {self._follow_key} follows again"
        return Strip([Segment(cut(text, self.size.width), painter.chrome("below"))])
