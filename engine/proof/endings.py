"""Which tokens end an answer, asked of the server's own tokenizer."""

from __future__ import annotations

import httpx

END_TEXTS = (
    "<|im_end|>",
    "<|endoftext|>",
    "</s>",
    "<eos>",
    "<end_of_turn>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
)
"""How the families' vocabularies spell the end of a turn or of the text."""


async def end_tokens(http: httpx.AsyncClient, model: str) -> tuple[int, ...]:
    """Ids of the end texts this vocabulary has as one token; () where `/tokenize` does not tell.

    llama.cpp's and vLLM's ways of asking go out together; each reads its own.
    """
    found = set()
    for text in END_TEXTS:
        asked = {
            "model": model,
            "content": text,
            "prompt": text,
            "add_special": False,
            "add_special_tokens": False,
            "parse_special": True,
        }
        try:
            response = await http.post("/tokenize", json=asked, timeout=10.0)
            answer = response.raise_for_status().json()
        except (httpx.HTTPError, ValueError):  # many a server answers any path with a page
            return ()
        match answer:
            case {"tokens": [int(token)]}:
                found.add(token)
    return tuple(sorted(found))
