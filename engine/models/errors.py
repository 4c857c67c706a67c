"""What goes wrong with models, said to the person who asked for one."""

_LINE_LIMIT = 300  # characters


class ModelError(Exception):
    """A model can't be found, fetched, converted or loaded. `str()` is one line: what to do."""


class TemplateError(Exception):
    """A chat can't be put into the model's prompt format. `str()` is one line."""


def one_line(error: BaseException) -> str:
    """The error's message on one line of bearable length, or its type where it has none."""
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= _LINE_LIMIT else f"{line[:_LINE_LIMIT]}…"
