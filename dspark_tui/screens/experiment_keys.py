"""The keys of an experiment's grid: what they do, which are named below it, and their help."""

from __future__ import annotations

from dspark_tui.experiments.board import RATINGS

KEYS = {
    **dict.fromkeys(("up", "k"), "move(-1, 0)"),
    **dict.fromkeys(("down", "j"), "move(1, 0)"),
    **dict.fromkeys(("left", "h"), "move(0, -1)"),
    **dict.fromkeys(("right", "l"), "move(0, 1)"),
    **dict.fromkeys(("pageup", "ctrl+u"), "page(-1)"),
    **dict.fromkeys(("pagedown", "ctrl+d"), "page(1)"),
    **dict.fromkeys(("home", "g"), "end(-1)"),
    **dict.fromkeys(("end", "G"), "end(1)"),
    **{str(rating): f"rate({rating})" for rating in (0, *RATINGS)},
    **dict.fromkeys(("escape", "q", "f5"), "dismiss(None)"),
    "enter": "open()",
    "s": "sort()",
    "slash": "filter()",
    "f": "only_failed()",
    "u": "only_unrated()",
    "w": "export()",
    "n": "another()",
    "r": "run()",
    "ctrl+c": "stop()",
    "f3": "panel()",
}
BAR = (
    ("Enter", "open"),
    ("1-5", "rate"),
    ("s", "sort"),
    ("/", "find"),
    ("f", "failed"),
    ("u", "unrated"),
    ("w", "export"),
    ("Esc", "back"),
)
RUNNING_BAR = (*BAR, ("^C", "stop"))
STOPPED_BAR = (*BAR, ("r", "resume"), ("n", "new"))
COMPLETE_BAR = (*BAR, ("n", "new"))
HELP = (
    ("Enter", "open the cell: its whole answer"),
    ("1–5", "rate the answer, a column of the results; 0 takes that back"),
    ("Up Down Left Right", "to another cell, as k j h l"),
    ("PgUp PgDn ^U ^D", "a page up or down"),
    ("Home End g G", "to the first or the last row"),
    ("s", "sort the rows otherwise"),
    ("/", "only rows that have words in an answer or its inputs; Esc drops that"),
    ("f", "only rows with failures, or all again"),
    ("u", "only rows without ratings, or all again"),
    ("w", "export what is shown"),
    ("^C", "stop; what is done stays"),
    ("r", "ask for what is missing"),
    ("n", "set up another experiment"),
    ("F3", "the batch panel's size"),
    ("Esc q F5", "back to the panes; the experiment goes on"),
)
