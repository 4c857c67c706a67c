"""The one table of actions: keys, key bar, palette, help and the README's keys come from it.

Keys have two contexts: the composer, where text is typed and only chords act, and the panes, where
single letters do. No key appears twice within a context. `Keymap` is this table with a person's own
keys.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from dspark_tui.key_names import key_name


class Context(StrEnum):
    COMPOSER = "composer"
    PANES = "panes"


class Action(Struct, frozen=True):
    """id: the screen's method `action_<id>`. per_key: the method takes the key that was pressed.

    vim: more keys for the panes, which a person can switch off. bar: its short name in the key
    bar, "" keeps it out. palette: False where a palette entry would make no sense, as for moving a
    caret.
    """

    id: str
    label: str
    help: str
    composer: tuple[str, ...] = ()
    panes: tuple[str, ...] = ()
    both: tuple[str, ...] = ()
    vim: tuple[str, ...] = ()
    bar: str = ""
    palette: bool = True
    per_key: bool = False

    def keys(self, context: Context) -> tuple[str, ...]:
        return self.both + (self.composer if context is Context.COMPOSER else self.vim + self.panes)


ACTIONS: tuple[Action, ...] = (
    Action(
        "send", "Send", "send the text to the panes the composer's border names",
        composer=("enter",), bar="send",
    ),
    Action(
        "newline", "New line", "start a new line in the text",
        composer=("ctrl+j", "shift+enter", "alt+enter"), bar="newline", palette=False,
    ),
    Action(
        "leave", "To the panes", "single letters act there; stops nothing",
        composer=("escape",), bar="panes", palette=False,
    ),
    Action("compose", "To the composer", "go back to typing", panes=("i", "enter"), bar="type"),
    Action(
        "expand_paste", "Show a paste", "its text takes the place of its label",
        composer=("ctrl+o",), panes=("full_stop",),
    ),
    Action(
        "search_prompts", "Earlier prompts", "find one by words in it", composer=("ctrl+r",),
    ),
    Action("edit", "External editor", "the text in $VISUAL or $EDITOR", composer=("ctrl+g",)),
    Action(
        "step_back", "Stop, one step", "copy the selection, else clear the text, else stop",
        both=("ctrl+c",), bar="stop", palette=False,
    ),
    Action(
        "stop", "Stop this pane", "take back its newest queued prompt, else stop its answer",
        panes=("s",), bar="stop",
    ),
    Action("stop_all", "Stop all panes", "stop every answer, drop queued prompts", panes=("S",)),
    Action(
        "regenerate", "Answer again", "with a new seed; the old answer stays beside it",
        panes=("r",), bar="again",
    ),
    Action(
        "repeat", "Answer again, same seed", "does the same come out?", panes=("equals_sign",),
    ),
    Action(
        "go_on", "Continue the answer", "one that was stopped, interrupted or cut off",
        panes=("c",),
    ),
    Action(
        "older_sibling", "Earlier version", "of the latest turn that has several",
        panes=("less_than_sign",),
    ),
    Action(
        "newer_sibling", "Later version", "of the latest turn that has several",
        panes=("greater_than_sign",),
    ),
    Action(
        "edit_prompt", "Edit the last prompt", "and send it again; the old turn stays beside it",
        panes=("e",), bar="edit",
    ),
    Action("fork", "Fork", "a new pane with the same history", panes=("f",), bar="fork"),
    Action(
        "target", "Switch target", "send to this pane only, or broadcast to all",
        both=("ctrl+t",), bar="target",
    ),
    Action(
        "zoom", "Zoom the pane", "fill the screen with it, and back", panes=("z",), bar="zoom",
    ),
    Action("add_pane", "New pane", "with the active pane's parameters", panes=("plus",), bar="new"),
    Action(
        "close_pane", "Close this pane", "asks first unless it is empty",
        panes=("x",), bar="close",
    ),
    Action("rename_pane", "Rename the pane", "its name is in titles and exports", panes=("R",)),
    Action(
        "sessions", "Sessions, search everything", "open, rename, delete; find what was ever said",
        panes=("O",),
    ),
    Action(
        "find", "Find in this pane", "words in what was said", vim=("slash",), panes=("ctrl+f",),
    ),
    Action("find_next", "Next place", "that has the words", vim=("n",), panes=("ctrl+n",)),
    Action("find_previous", "Previous place", "that has them", vim=("N",), panes=("ctrl+r",)),
    Action("export", "Export the pane", "as .md, .csv or .jsonl", panes=("w",)),
    Action("export_session", "Export all panes", "as .md, .csv or .jsonl", panes=("W",)),
    Action("export_requests", "Export the requests", "times and counts of each, as a table"),
    Action("new_session", "New session", "the one open now is kept"),
    Action("help", "Help", "all keys", both=("f1",), panes=("question_mark",), bar="help"),
    Action(
        "params", "Pane parameters", "name, system prompt, temperature and the rest",
        both=("f2",), panes=("p",), bar="params",
    ),
    Action(
        "choose", "Choose pane", "take the pane into the set Enter sends to, or out of it",
        panes=("space",),
    ),
    Action("choose_all", "Broadcast", "send to every pane", panes=("a",)),
    Action(
        "go", "Go to pane", "make that pane the active one",
        panes=tuple("12345678"), palette=False, per_key=True,
    ),
    Action(
        "next_pane", "Next pane", "go round the panes; Tab completes a /command or @file first",
        both=("tab",), vim=("l",), panes=("right",),
    ),
    Action(
        "previous_pane", "Previous pane", "go round the other way",
        both=("shift+tab",), vim=("h",), panes=("left",),
    ),
    Action("page_back", "Previous page", "if not all panes fit", panes=("left_square_bracket",)),
    Action("page_on", "Next page", "if not all panes fit", panes=("right_square_bracket",)),
    Action(
        "scroll_up", "Line up", "in the active pane", vim=("k",), panes=("up",), palette=False,
    ),
    Action(
        "scroll_down", "Line down", "in the active pane",
        vim=("j",), panes=("down",), palette=False,
    ),
    Action(
        "scroll_back", "Scroll back", "half a page towards the start",
        composer=("pageup",), vim=("ctrl+u",), panes=("pageup",), palette=False,
    ),
    Action(
        "scroll_on", "Scroll on", "half a page towards the end",
        composer=("pagedown",), vim=("ctrl+d",), panes=("pagedown",), palette=False,
    ),
    Action(
        "scroll_first", "To the first line", "of the conversation", vim=("g",), panes=("home",),
    ),
    Action(
        "follow", "Follow the answer", "to the last line, and stay there",
        vim=("G",), panes=("end",),
    ),
    Action(
        "mark", "Mark for a comparison", "this pane, or take its mark away", panes=("m",),
    ),
    Action(
        "diff", "Differences", "between the marked pane's answer and this one's, word by word",
        panes=("d",), bar="diff",
    ),
    Action(
        "vote", "Vote", "for this pane's answer to the latest broadcast; again takes it back",
        panes=("v",),
    ),
    Action("blind", "Blind", "hide names, parameters and order until you vote", panes=("b",)),
    Action("figures", "Broadcast in figures", "a line for each pane; w writes CSV", panes=("B",)),
    Action(
        "repeats", "Repeat", "ask several times at once: how often is the answer the same?",
        panes=("K",),
    ),
    Action("thoughts", "Show thoughts", "a model's reasoning whole, or as a line", panes=("T",)),
    Action("pager", "Pager", "the whole pane's text in $PAGER, or less", panes=("o",)),
    Action("copy_answer", "Copy the answer", "its source text", panes=("y",), bar="copy"),
    Action(
        "copy_code", "Copy a code block", "of the latest answer; a digit picks among several",
        panes=("Y",),
    ),
    Action("copy_pane", "Copy the whole pane", "its source text", panes=("ctrl+y",)),
    Action("panel", "Panel size", "off, 5, 11, 15 lines, full screen", both=("f3",), bar="batch"),
    Action("layout", "Layout", "grid, columns, rows, one pane", both=("f4",), bar="layout"),
    Action(
        "experiment", "Experiment", "prompts x inputs x parameter sets, as one batch",
        both=("f5",), panes=("t",),
    ),
    Action(
        "palette", "All actions", "find any action by name",
        both=("ctrl+p",), panes=("colon",), bar="actions", palette=False,
    ),
    Action("themes", "Theme", "choose the colours"),
    Action(
        "lanes", "Requests", "choose one in the batch panel, whoever asked: x cancels, w is CSV",
        panes=("L",), bar="requests",
    ),
    Action(
        "pause", "Pause the engine", "new requests wait, running ones go on; and back",
        panes=("P",),
    ),
    Action("restart", "Restart the engine", "after it failed, or to start it afresh", panes=("E",)),
    Action("redraw", "Redraw", "paint the whole screen again", both=("ctrl+l",)),
    Action(
        "quit", "Quit", "asks once while anything runs that would be lost",
        both=("ctrl+q",), panes=("q",), bar="quit",
    ),
    Action(
        "quit_if_empty", "Quit from an empty text", "deletes to the right where there is text",
        composer=("ctrl+d",), palette=False,
    ),
)  # fmt: skip


def keys_in_words(action: Action, context: Context) -> str:
    keys = action.keys(context)
    if action.per_key and keys:
        return f"{key_name(keys[0])}–{key_name(keys[-1])}"
    return " ".join(key_name(key) for key in keys)


def key_table() -> str:
    """The README's key table, in Markdown."""
    rows = ["| action | composer | panes | what it does |", "|---|---|---|---|"]
    for action in ACTIONS:
        composer, panes = (_code(keys_in_words(action, context)) for context in Context)
        rows.append(f"| {action.label} | {composer} | {panes} | {action.help} |")
    return "\n".join(rows) + "\n"


def _code(keys: str) -> str:
    return " ".join(f"`{key}`" for key in keys.split())
