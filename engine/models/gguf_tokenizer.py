"""The tokenizer that a GGUF file describes in its metadata, rebuilt with the tokenizers package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from engine.models.errors import ModelError

UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6
"""Token types, as GGUF numbers them."""

_SPACE = "\u2581"  # what sentencepiece writes for a space

_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_WORDS = _LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A GGUF file's tokenizer metadata. merges is None where scores stand in for them."""

    model: str
    words: str
    tokens: list[str]
    types: list[int]
    merges: list[tuple[str, str]] | None
    scores: list[float]
    bos: int | None
    ends: tuple[int, ...]  # the end-of-text token first, then other ends of a turn
    unknown: int | None
    adds_bos: bool
    adds_space: bool
    chat_template: str | None

    @classmethod
    def read(cls, get: Callable[[str], Any]) -> Vocabulary:
        """get: the metadata's value of a key, None where absent. Raises ModelError."""

        def ggml(key: str, default: Any = None) -> Any:
            value = get(f"tokenizer.ggml.{key}")
            return default if value is None else value

        tokens, model = ggml("tokens", []), ggml("model", "none")
        merges, ends = ggml("merges"), (ggml("eos_token_id"), ggml("eot_token_id"))
        if not tokens or ends == (None, None):
            raise ModelError("the GGUF file is incomplete: it has no tokens or no end of turn")
        return cls(
            model=model,
            words=ggml("pre", "default"),
            tokens=tokens,
            types=ggml("token_type", []),
            merges=None if merges is None else [_pair(merge) for merge in merges],
            scores=ggml("scores", []),
            bos=ggml("bos_token_id"),
            ends=tuple(dict.fromkeys(end for end in ends if end is not None)),
            unknown=ggml("unknown_token_id"),
            adds_bos=ggml("add_bos_token", model == "llama"),
            adds_space=ggml("add_space_prefix", model == "llama"),
            chat_template=get("tokenizer.chat_template"),
        )

    def token(self, index: int | None) -> str | None:
        return None if index is None else self.tokens[index]


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Raises ModelError, by name, for kinds whose splitting into words is not known here."""
    builders = {"gpt2": _byte_level, "llama": _sentencepiece}
    if vocabulary.model not in builders:
        raise ModelError(f"GGUF tokenizers of kind {vocabulary.model} can't be converted")
    tokenizer = builders[vocabulary.model](vocabulary)
    kinds = list(zip(vocabulary.tokens, vocabulary.types, strict=False))
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, kind in kinds if kind == CONTROL]
    )
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in kinds if k == USER_DEFINED])
    bos = vocabulary.token(vocabulary.bos)
    if vocabulary.adds_bos and bos is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, vocabulary.bos)]
        )
    return tokenizer


def tokenizer_config(vocabulary: Vocabulary, context: int) -> dict[str, Any]:
    """tokenizer_config.json for transformers, chat template included. context: tokens."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "bos_token": vocabulary.token(vocabulary.bos),
        "eos_token": vocabulary.token(vocabulary.ends[0]),
        "unk_token": vocabulary.token(vocabulary.unknown),
        "chat_template": vocabulary.chat_template,
    }
    return {key: value for key, value in config.items() if value is not None}


def _byte_level(vocabulary: Vocabulary) -> Tokenizer:
    if vocabulary.merges is None:
        raise ModelError("the GGUF file is incomplete: its tokenizer has no merges")
    tokenizer = Tokenizer(models.BPE(_indices(vocabulary.tokens), vocabulary.merges))
    tokenizer.pre_tokenizer = _words(vocabulary.words)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _words(kind: str) -> pre_tokenizers.PreTokenizer:
    """How text is cut before merging. A wrong guess would spoil answers silently: make none."""
    splits: dict[str, list[pre_tokenizers.PreTokenizer]] = {
        "gpt-2": [],
        "smollm": [pre_tokenizers.Digits(individual_digits=True)],
        "llama-bpe": [pre_tokenizers.Split(Regex(_LLAMA3_WORDS), "isolated")],
        "qwen2": [pre_tokenizers.Split(Regex(_QWEN2_WORDS), "isolated")],
    }
    if kind not in splits:
        raise ModelError(f"GGUF tokenizers that split words as {kind} can't be converted")
    own_words = kind in ("gpt-2", "smollm")
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=own_words)
    return pre_tokenizers.Sequence([*splits[kind], last])


def _sentencepiece(vocabulary: Vocabulary) -> Tokenizer:
    merges = vocabulary.merges or _merges_by_score(vocabulary)
    unknown = vocabulary.token(vocabulary.unknown)
    model = models.BPE(
        _indices(vocabulary.tokens), merges, unk_token=unknown, fuse_unk=True, byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    spaces = normalizers.Replace(" ", _SPACE)
    back = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if vocabulary.adds_space:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), spaces])
        back.append(decoders.Strip(" ", 1, 0))
    else:
        tokenizer.normalizer = spaces
    tokenizer.decoder = decoders.Sequence(back)
    return tokenizer


def _merges_by_score(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Every way to make a token of two others, best tokens first."""
    indices = _indices(vocabulary.tokens)
    scores = dict(zip(vocabulary.tokens, vocabulary.scores, strict=False))
    pairs = [
        (token[:cut], token[cut:])
        for token in vocabulary.tokens
        for cut in range(1, len(token))
        if token[:cut] in indices and token[cut:] in indices
    ]
    return sorted(
        pairs,
        key=lambda pair: (-scores.get("".join(pair), 0.0), indices[pair[0]], indices[pair[1]]),
    )


def _indices(tokens: list[str]) -> dict[str, int]:
    return {token: index for index, token in enumerate(tokens)}


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right
