"""Text to token ids and back, from any thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_tokenizer

from engine.models.errors import ModelError, TemplateError, one_line
from engine.models.guide import Guide
from engine.models.markup import Markup
from engine.models.spelling import Speller

__all__ = ["TemplateError", "Tokenizer"]


class Tokenizer:
    """A model's tokenizer and chat template. Every method may be called from any thread.

    backend: the `tokenizers.Tokenizer`, for incremental decoding. eos: ids that end a turn.
    vocab_size: ids below it are known to the tokenizer and have a logit. spell: a token as text and
    bytes. markup: the tags its answers are written with. shown: special tokens that tags are made
    of, so that they belong to an answer's text. guide: for answers of a given form.
    """

    def __init__(self, wrapped: TokenizerWrapper, logits: int | None = None) -> None:
        """logits: width of the model's output, when known. Raises ModelError for a tokenizer
        that exists only in Python."""
        backend = getattr(wrapped, "backend_tokenizer", None)
        if not isinstance(backend, tokenizers.Tokenizer):
            raise ModelError("the model has no tokenizer.json; convert it with mlx_lm.convert")
        # Checkpoints may carry training-time settings that would cut or pad a prompt.
        backend.no_truncation()
        backend.no_padding()
        self.backend = backend
        self.eos = _ids(wrapped.eos_token_ids) | _ids({wrapped.eos_token_id})
        known = max(backend.get_vocab(with_added_tokens=True).values()) + 1
        self.vocab_size = min(known, logits or known)
        self.spell = Speller(backend).spell
        self.markup = Markup.of(wrapped)
        self.shown = _shown(backend, self.markup) - self.eos
        self.guide = Guide(backend, logits, self.eos)
        self._wrapped = wrapped
        self._prefix = _prefix(backend)

    @classmethod
    def load(cls, path: Path, config: dict[str, Any]) -> Tokenizer:
        """The tokenizer in a model folder. Raises ModelError."""
        # Code that comes with a checkpoint is never run, and a folder never asks the network.
        refusals = {"trust_remote_code": False, "local_files_only": True}
        try:
            wrapped = load_tokenizer(path, refusals, eos_token_ids=config.get("eos_token_id"))
        except Exception as error:
            reason = one_line(error)
            if "trust_remote_code" in str(error):
                reason = "it needs Python code from the checkpoint, which is never run"
            raise ModelError(f"can't use the tokenizer in {path}: {reason}") from error
        text_config = config.get("text_config") or {}
        return cls(wrapped, config.get("vocab_size") or text_config.get("vocab_size"))

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of a raw prompt. special: after whatever the model wants before any text."""
        return [*self._prefix, *self._encode(text)] if special else self._encode(text)

    def chat(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        unfinished: bool = False,
        tools: Sequence[dict[str, Any]] = (),
        options: Mapping[str, Any] = {},
    ) -> list[int]:
        """Token ids of the messages in the model's own format, ready for its answer.

        unfinished: the last message is that answer's beginning, to be continued. tools: in OpenAI's
        form, for a template that `markup` says knows them. options: the template's own variables.
        Raises TemplateError when the template refuses them or the model has none.
        """
        ending = "continue_final_message" if unfinished else "add_generation_prompt"
        given = {**options, "tools": list(tools)} if tools else options
        try:
            prompt = self._wrapped.apply_chat_template(
                list(messages), **{**given, "tokenize": False, ending: True}
            )
        except Exception as error:  # a template is a program: it may fail in any way
            if not self.has_template:
                raise TemplateError(
                    "this model has no chat template, so it can't chat; use an instruct model"
                ) from error
            raise TemplateError(one_line(error)) from error
        return self._encode(prompt)

    @property
    def has_template(self) -> bool:
        return bool(self._wrapped.has_chat_template)

    @property
    def template(self) -> str:
        """The chat template's source, "" where there is none or it is a program."""
        source = getattr(self._wrapped, "chat_template", None)
        return source if isinstance(source, str) else ""

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of the ids as a reader sees it. special: with the special tokens in it."""
        return self.backend.decode(list(ids), skip_special_tokens=not special)

    def _encode(self, text: str) -> list[int]:
        # JSON can carry half of a surrogate pair, which is no character.
        text = text.encode("utf-8", "replace").decode()
        return self.backend.encode(text, add_special_tokens=False).ids


def _ids(values: set[int | None]) -> frozenset[int]:
    return frozenset(value for value in values if value is not None)


def _prefix(backend: tokenizers.Tokenizer) -> list[int]:
    """What the model's post-processor puts before a text, such as a beginning-of-text token."""
    with_specials = backend.encode("a", add_special_tokens=True).ids
    plain = backend.encode("a", add_special_tokens=False).ids
    starts = range(len(with_specials) - len(plain) + 1)
    at = next((i for i in starts if with_specials[i : i + len(plain)] == plain), 0)
    return with_specials[:at]


def _shown(backend: tokenizers.Tokenizer, markup: Markup) -> frozenset[int]:
    """All special tokens where tags are made of such, for what stands in them is too; else none."""
    added = backend.get_added_tokens_decoder().items()
    special = {id: token.content for id, token in added if token.special}
    tags = " ".join(markup.tags)
    return frozenset(special) if any(text in tags for text in special.values()) else frozenset()
