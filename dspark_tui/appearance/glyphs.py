"""The signs the workbench draws with, as sets that differ in what they ask of a terminal's font.

No sign in DEFAULT has an emoji form, and only box lines may be drawn wide by a CJK terminal.
"""

from __future__ import annotations

from msgspec import Struct


class Glyphs(Struct, frozen=True):
    """One cell each. levels: rising columns for a small graph, a cell each; none: use digits."""

    queued: str
    prefill: str
    decode: str
    stall: str
    sent: str
    running: str
    done: str
    length: str
    stopped: str
    failed: str
    slot_free: str
    slot_busy: str
    bar_done: str
    bar_left: str
    prompt: str
    earlier: str
    later: str
    folded: str
    unfolded: str
    below: str
    warning: str
    dash: str
    divide: str
    rule: str
    thumb: str
    levels: str


DEFAULT = Glyphs(
    queued="┈",
    prefill="╌",
    decode="━",
    stall="╍",
    sent="┄",
    running=">",
    done="✓",
    length="┫",
    stopped="✗",
    failed="!",
    slot_free="▯",
    slot_busy="▮",
    bar_done="━",
    bar_left="─",
    prompt="›",
    earlier="‹",
    later="›",
    folded="▸",
    unfolded="▾",
    below="⌄",
    warning="!",
    dash="-",
    divide="/",
    rule="│",
    thumb="▐",
    levels="",
)
RICH = Glyphs(
    queued="·",
    prefill="▒",
    decode="█",
    stall="▓",
    sent="░",
    running="▶",
    done="✓",
    length="┫",
    stopped="✗",
    failed="⚠",
    slot_free="▢",
    slot_busy="▣",
    bar_done="█",
    bar_left="░",
    prompt="›",
    earlier="‹",
    later="›",
    folded="▸",
    unfolded="▾",
    below="↓",
    warning="⚠",
    dash="-",
    divide="÷",
    rule="│",
    thumb="▐",
    levels="▁▂▃▄▅▆▇█",
)
ASCII = Glyphs(
    queued=".",
    prefill="-",
    decode="=",
    stall="~",
    sent=":",
    running=">",
    done="v",
    length="|",
    stopped="x",
    failed="!",
    slot_free=".",
    slot_busy="#",
    bar_done="#",
    bar_left=".",
    prompt=">",
    earlier="<",
    later=">",
    folded="+",
    unfolded="-",
    below="v",
    warning="!",
    dash="-",
    divide="/",
    rule="|",
    thumb="#",
    levels="",
)
