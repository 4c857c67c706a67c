"""From what a client sent to what the engine runs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from engine.models.errors import TemplateError
from engine.server.errors import ApiError
from engine.server.forms import FormTokenizer, demands_call, form_of
from engine.server.parts import Manner
from engine.server.turns import turns_of
from engine.server.wire import ChatRequest
from engine.server.wire_sampling import SamplingRequest
from engine.types import ContextLengthError, GenerationRequest, SamplingParams

SMALLEST_TOP_P = 1e-9
"""top_p 0 is legal on the wire and means the likeliest token only."""

PROMPT_TAIL = 32
"""Tokens at a prompt's end in which a template may have begun the model's thoughts."""

NO_VARIABLES = frozenset(
    {
        *("conversation", "conversations", "messages", "tools", "documents", "chat_template"),
        *("add_generation_prompt", "continue_final_message", "tokenize", "padding", "truncation"),
        *("max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask"),
        *("tokenizer_kwargs", "sanitize_control_tokens"),
    }
)
"""What would steer the library that runs the template, or replace the template itself."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "grammar": (),
    "json_schema": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "use_beam_search": (False,),
    "length_penalty": (1,),
    "typical_p": (1,),
    "mirostat": (0,),
    "prompt_logprobs": (),
    "suffix": ("",),
}
"""Options that would change the answer and can't be honoured, with the values that ask for
nothing. Any other value is refused: an option must never be dropped in silence."""


class ChatTokenizer(FormTokenizer, Protocol):
    """What turning a request into tokens needs of the model's tokenizer."""

    @property
    def vocab_size(self) -> int: ...

    def chat(
        self,
        messages: list[dict[str, Any]],
        *,
        unfinished: bool = False,
        tools: Sequence[dict[str, Any]] = (),
        options: Mapping[str, Any] = {},
    ) -> list[int]: ...

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """A chat ready to be answered: the engine's request, and how to read what comes back."""

    request: GenerationRequest
    manner: Manner


def prepared(body: ChatRequest, tokenizer: ChatTokenizer, context: int, source: str) -> Prepared:
    """What the client sent, for the engine. Tokenizes: keep it off the event loop.

    context: the model's limit in tokens; the answer's length is clamped to what the prompt leaves.
    Raises ApiError for what the model or this server can't do, ContextLengthError.
    """
    prompt = chat_prompt(body, tokenizer)
    thinking = _thinking(body, prompt, tokenizer)
    request = generation_request(
        body,
        prompt,
        tokenizer.vocab_size,
        context,
        source,
        id=f"chatcmpl-{secrets.token_hex(12)}",
        max_tokens=body.max_completion_tokens or body.max_tokens,
        logprobs=_alternatives(body),
    )
    form = form_of(body, tokenizer, thinking)
    manner = Manner(tokenizer.markup, thinking, _tools(body), only_call=demands_call(body))
    return Prepared(replace(request, form=form), manner)


def as_chat(**fields: Any) -> ChatRequest:
    """A chat that another protocol's request stands for. Raises RequestValidationError, as for one
    that was sent."""
    try:
        return ChatRequest.model_validate(fields)
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error


def generation_request(
    body: SamplingRequest,
    prompt: Sequence[int],
    vocab_size: int,
    context: int,
    source: str,
    *,
    id: str,
    max_tokens: int | None,
    logprobs: int | None,
) -> GenerationRequest:
    """A prompt with the sampling a client asked for. max_tokens None: what the context allows.

    Raises ApiError for unknown token ids, ContextLengthError.
    """
    room = context - len(prompt)
    if room < (0 if max_tokens == 0 else 1):
        raise ContextLengthError(
            f"This model's maximum context length is {context} tokens, and the prompt takes "
            f"{len(prompt)}. Shorten it."
        )
    wanted = room if max_tokens is None else max_tokens
    return GenerationRequest(
        id=id,
        prompt=tuple(prompt),
        max_tokens=min(wanted, room),
        sampling=_sampling(body, vocab_size),
        stop=tuple(body.stop),
        min_tokens=wanted if body.ignore_eos else body.min_tokens or 0,
        logprobs=logprobs,
        source=source,
    )


def chat_prompt(body: ChatRequest, tokenizer: ChatTokenizer) -> list[int]:
    """Token ids of the messages, ready to be answered. Raises ApiError for what can't be done."""
    refuse_unsupported(body)
    tools = _tools(body)
    turns = turns_of(body.messages, tokenizer.markup, tools)
    if not any(message.content or message.tool_calls for message in body.messages):
        # A template's own words would be answered.
        text = "The messages are all empty."
        raise ApiError(400, text, param="messages", code="missing_value")
    try:
        prompt = tokenizer.chat(
            turns,
            unfinished=_unfinished(body),
            tools=tools if tokenizer.markup.knows_tools else (),
            options=_template_options(body),
        )
    except TemplateError as error:
        raise ApiError(400, str(error), param="messages", code="chat_template") from error
    if not prompt:
        raise ApiError(400, "The messages come to an empty prompt.", param="messages")
    return prompt


def choices(request: GenerationRequest, count: int) -> list[GenerationRequest]:
    """`count` requests for different answers to the same prompt, the given one first."""
    seed = request.sampling.seed
    others = (
        replace(
            request,
            id=f"{request.id}-{index}",
            sampling=replace(request.sampling, seed=(seed + index) % 2**64),
        )
        for index in range(1, count)
    )
    return [request, *others]


def refuse_unsupported(body: SamplingRequest) -> None:
    """Raises ApiError for an option that nothing here honours."""
    for name, value in (body.model_extra or {}).items():
        if name in NEUTRAL and value is not None and value not in NEUTRAL[name]:
            raise ApiError(
                400,
                f"{name} is not supported here; leave it out.",
                param=name,
                code="unsupported_parameter",
            )


def refuse_unknown(ids: Sequence[int], vocab_size: int, param: str) -> None:
    """Raises ApiError for an id beyond the vocabulary."""
    largest = max(ids, default=0)
    if largest >= vocab_size:
        text = f"{param}: {largest} is no token; ids run from 0 to {vocab_size - 1}."
        raise ApiError(400, text, param=param, code="invalid_value")


def _tools(body: ChatRequest) -> list[dict[str, Any]]:
    """The tools the model is told of, in OpenAI's form."""
    if body.tool_choice == "none":
        return []
    return [tool.model_dump(exclude_none=True) for tool in body.tools or ()]


def _template_options(body: ChatRequest) -> dict[str, Any]:
    options = body.chat_template_kwargs or {}
    if taken := sorted(NO_VARIABLES & options.keys()):
        message = f"chat_template_kwargs: {taken[0]} is no variable for a template."
        raise ApiError(400, message, param="chat_template_kwargs", code="invalid_value")
    return options


def _thinking(body: ChatRequest, prompt: Sequence[int], tokenizer: ChatTokenizer) -> bool:
    """Does the prompt end within thoughts, by its template or by an answer to be continued?"""
    markup = tokenizer.markup
    if body.continue_final_message:
        begun = body.messages[-1].content or ""
        return begun.rfind(markup.think_start) > begun.rfind(markup.think_end)
    tail = tokenizer.decode(prompt[-PROMPT_TAIL:], special=True)
    return tail.rstrip().endswith(markup.think_start)


def _unfinished(body: ChatRequest) -> bool:
    """Is the last message the beginning of the answer? Says so as vLLM's clients do."""
    unfinished = bool(body.continue_final_message)
    if unfinished and body.messages[-1].role != "assistant":
        raise ApiError(
            400,
            "continue_final_message needs an assistant message at the end.",
            param="continue_final_message",
            code="invalid_value",
        )
    if body.add_generation_prompt not in (None, not unfinished):
        raise ApiError(
            400,
            "add_generation_prompt is false if and only if continue_final_message is true.",
            param="add_generation_prompt",
            code="invalid_value",
        )
    return unfinished


def _alternatives(body: ChatRequest) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise ApiError(
            400,
            "top_logprobs needs logprobs to be true.",
            param="top_logprobs",
            code="invalid_value",
        )
    return None


def _sampling(body: SamplingRequest, vocab_size: int) -> SamplingParams:
    plain = SamplingParams()
    return SamplingParams(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else max(body.top_p, SMALLEST_TOP_P),
        top_k=max(body.top_k or 0, 0),
        min_p=body.min_p or 0.0,
        xtc_probability=body.xtc_probability or 0.0,
        xtc_threshold=body.xtc_threshold or plain.xtc_threshold,
        repetition_penalty=body.repetition_penalty or plain.repetition_penalty,
        repetition_context=body.repetition_context_size or plain.repetition_context,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        seed=secrets.randbits(64) if body.seed is None else body.seed % 2**64,
        logit_bias=tuple(
            (_token_id(token, vocab_size), bias) for token, bias in (body.logit_bias or {}).items()
        ),
    )


def _token_id(text: str, vocab_size: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) < vocab_size:
        return int(text)
    raise ApiError(
        400,
        f"logit_bias: {text[:40]!r} is no token of this model; ids run from 0 to {vocab_size - 1}.",
        param="logit_bias",
        code="invalid_value",
    )
