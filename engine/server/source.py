"""Who asked: the label the live panel shows."""

from __future__ import annotations

import re

from starlette.datastructures import Headers

LENGTH = 64
"""Characters kept of a label."""

PRODUCT = re.compile(r"([^\s/()]+)(?:/([^\s()]+))?")
"""How a User-Agent begins: a product, and usually its version."""


def source_of(headers: Headers) -> str:
    """The name the client gave itself, else its program's; "" where neither is told."""
    # Header bytes arrive as Latin-1, people write UTF-8.
    label = headers.get("x-dspark-source", "").encode("latin-1").decode("utf-8", "replace")
    label = "".join(c for c in label if c.isprintable()).strip()
    return (label or _program(headers.get("user-agent", "")))[:LENGTH]


def _program(agent: str) -> str:
    """`curl/8.5.0` is curl, `OpenAI/Python 2.1` openai-python."""
    found = PRODUCT.match(agent)
    if found is None:
        return ""
    name, version = found.groups()
    if version and not version[0].isdigit():
        name = f"{name}-{version}"
    return "".join(c for c in name.lower() if c.isprintable())
