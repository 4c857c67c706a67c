"""`POST /tokenize` and `/detokenize`: text to token ids and back, without the engine's doing.

Both known dialects are understood at once: llama.cpp's `content` and vLLM's `prompt` or `messages`.
An answer has the fields of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from engine.engine import Engine
from engine.server.answer import loaded
from engine.server.errors import ApiError
from engine.server.translate import chat_prompt, refuse_unknown
from engine.server.wire import ChatRequest, Message

if TYPE_CHECKING:
    from engine.models.tokenizer import Tokenizer

router = APIRouter(tags=["tokens"])


class TokenizeRequest(ChatRequest):
    """A text, or the messages of a chat with all that shapes their prompt.

    content: with add_special, what the model wants before any text comes first; with_pieces tells
    each token's text too. prompt: the same as add_special_tokens and return_token_strs.
    """

    messages: list[Message] = Field([])
    content: str | None = None
    add_special: bool = False
    with_pieces: bool = False
    prompt: str | None = None
    add_special_tokens: bool = True
    return_token_strs: bool | None = None


class Piece(BaseModel):
    """piece: the token's text, or its bytes where they are not whole characters."""

    id: int
    piece: str | list[int]


class TokenizeAnswer(BaseModel):
    """max_model_len: the longest row the engine can run, in tokens."""

    count: int
    max_model_len: int
    tokens: list[int] | list[Piece]
    token_strs: list[str] | None = None


class DetokenizeRequest(BaseModel, strict=True):
    tokens: list[Annotated[int, Field(ge=0)]]


@router.post("/tokenize", response_model=TokenizeAnswer)
async def tokenize(body: TokenizeRequest, http: Request) -> Response:
    engine: Engine = http.app.state.engine
    model = loaded(engine)

    def answered() -> str:
        return _tokenized(body, model.tokenizer, engine.longest_row).model_dump_json()

    # a long text takes a while, its list of ids too: neither may hold up the streams
    return Response(await run_in_threadpool(answered), media_type="application/json")


@router.post("/detokenize")
async def detokenize(body: DetokenizeRequest, http: Request) -> dict[str, str]:
    tokenizer = loaded(http.app.state.engine).tokenizer
    refuse_unknown(body.tokens, tokenizer.vocab_size, "tokens")
    text = await run_in_threadpool(tokenizer.decode, body.tokens, special=True)
    return {"content": text, "prompt": text}


def _tokenized(body: TokenizeRequest, tokenizer: Tokenizer, longest: int) -> TokenizeAnswer:
    """Raises ApiError where there is nothing to tokenize or the template refuses it."""
    if body.content is not None:
        ids = tokenizer.encode(body.content, special=body.add_special)
    elif body.prompt is not None:
        ids = tokenizer.encode(body.prompt, special=body.add_special_tokens)
    elif body.messages:
        ids = chat_prompt(body, tokenizer)
    else:
        raise ApiError(400, "Send content, prompt or messages.", code="missing_value")
    pieces = [_piece(id, tokenizer) for id in ids] if body.with_pieces else None
    texts = [tokenizer.spell(id)[0] for id in ids] if body.return_token_strs else None
    return TokenizeAnswer(
        count=len(ids), max_model_len=longest, tokens=pieces or ids, token_strs=texts
    )


def _piece(id: int, tokenizer: Tokenizer) -> Piece:
    text, raw = tokenizer.spell(id)
    return Piece(id=id, piece=text if raw is None or raw == text.encode() else list(raw))
