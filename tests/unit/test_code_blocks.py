"""Code blocks as they stand in a model's answer."""

from __future__ import annotations

import pytest

from dspark_tui.text.code_blocks import CodeBlock, code_blocks


@pytest.mark.parametrize(
    ("markdown", "blocks"),
    [
        ("no code, `inline` only", []),
        ("a\n```python\nx = 1\n\ny = 2\n```\nb", [CodeBlock("python", "x = 1\n\ny = 2")]),
        ("```\na\n```\n~~~ sh -x\nb\n~~~", [CodeBlock("", "a"), CodeBlock("sh", "b")]),
        ("````md\n```\ninner\n```\n````", [CodeBlock("md", "```\ninner\n```")]),
        ("   ```c\n   if (x)\n     y();\n z();\n   ```", [CodeBlock("c", "if (x)\n  y();\nz();")]),
        ("```py\ncut off in the mid", [CodeBlock("py", "cut off in the mid")]),
        ("```\n```\n```\n\n```", []),
        ("```a\tb\n\ttab kept\n```", [CodeBlock("a", "\ttab kept")]),
        ("", []),
    ],
)
def test_blocks(markdown: str, blocks: list[CodeBlock]) -> None:
    assert code_blocks(markdown) == blocks
