"""litellm, whole and streamed; the URL is the argument, what it read goes to standard output."""

import json
import sys

import litellm

asked = {
    "model": "openai/any",
    "api_base": f"{sys.argv[1]}/v1",
    "api_key": "none",
    "messages": [{"role": "user", "content": "Name one colour."}],
    "temperature": 0,
    "max_tokens": 12,
}
whole = litellm.completion(**asked)
pieces = list(litellm.completion(**asked, stream=True, stream_options={"include_usage": True}))
streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
used = [piece.usage for piece in pieces if getattr(piece, "usage", None)]
print(
    json.dumps(
        {
            "text": whole.choices[0].message.content,
            "streamed": streamed,
            "tokens": whole.usage.completion_tokens,
            "streamed_tokens": used[-1].completion_tokens,
        }
    )
)
