"""A llama-family GGUF file becomes an mlx-lm folder that computes the same; others are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.events import Progress
from engine.models import gguf
from engine.models.errors import ModelError
from engine.models.gguf_tokenizer import Vocabulary, build_tokenizer
from engine.models.load import LoadedModel, load
from tests.tiny import EOS_ID, tiny_gguf


def converted(source: Path, heard: list[Progress] | None = None) -> Path:
    folder = source.parent / "converted"
    folder.mkdir()
    gguf.convert(source, folder, [].append if heard is None else heard.append)
    return folder


def logits(loaded: LoadedModel, ids: list[int]) -> mx.array:
    return loaded.model(mx.array([ids]))


def test_converted_model_computes_what_the_original_does(tmp_path: Path) -> None:
    source = tiny_gguf(tmp_path / "tiny.gguf")
    ours = load(converted(source), "converted")
    original = load(source.with_suffix(""), "original")
    ids = original.tokenizer.encode("How are you, 42 👩‍👩‍👧?")
    assert ours.tokenizer.encode("How are you, 42 👩‍👩‍👧?") == ids
    assert mx.allclose(logits(ours, ids), logits(original, ids), atol=1e-4)
    assert ours.info.context == original.info.context


def test_converted_tokenizer_keeps_template_and_end_of_turn(tmp_path: Path) -> None:
    loaded = load(converted(tiny_gguf(tmp_path / "tiny.gguf")), "tiny")
    assert loaded.tokenizer.eos == {EOS_ID}
    ids = loaded.tokenizer.chat([{"role": "user", "content": "hi"}])
    assert loaded.tokenizer.backend.decode(ids, skip_special_tokens=False) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_both_ends_of_turn_are_kept(tmp_path: Path) -> None:
    source = tiny_gguf(tmp_path / "tiny.gguf", tokenizer__ggml__eot_token_id=mx.array(0, mx.uint32))
    assert load(converted(source), "tiny").tokenizer.eos == {0, EOS_ID}


def test_conversion_says_what_it_does(tmp_path: Path) -> None:
    heard: list[Progress] = []
    converted(tiny_gguf(tmp_path / "tiny.gguf"), heard)
    assert {progress.stage for progress in heard} == {"convert"}
    assert "tiny.gguf" in heard[0].detail


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general__architecture": "qwen2"}, "qwen2"),
        ({"llama__expert_count": mx.array(8, mx.uint32)}, "mixture-of-experts"),
        ({"llama__rope__scaling__type": "yarn"}, "yarn"),
        ({"llama__rope__dimension_count": mx.array(4, mx.uint32)}, "part of each head"),
        ({"tokenizer__ggml__pre": "klingon"}, "klingon"),
        ({"tokenizer__ggml__model": "bert"}, "bert"),
        ({"tokenizer__ggml__tokens": []}, "incomplete"),
    ],
)
def test_what_cannot_be_converted_is_refused_by_name(
    tmp_path: Path, metadata: dict[str, Any], message: str
) -> None:
    source = tiny_gguf(tmp_path / "tiny.gguf", **metadata)
    with pytest.raises(ModelError, match=message) as caught:
        converted(source)
    assert "\n" not in str(caught.value)


def test_a_tensor_no_llama_has_is_named(tmp_path: Path) -> None:
    source = tmp_path / "odd.gguf"
    mx.save_gguf(
        str(source),
        {"blk.0.ssm_in.weight": mx.zeros((4, 4))},
        {"general.architecture": "llama"},
    )
    with pytest.raises(ModelError, match="ssm_in"):
        converted(source)


def test_missing_keys_are_named(tmp_path: Path) -> None:
    source = tmp_path / "bare.gguf"
    mx.save_gguf(
        str(source), {"token_embd.weight": mx.zeros((4, 4))}, {"general.architecture": "llama"}
    )
    with pytest.raises(ModelError, match=r"llama\.attention\.head_count"):
        converted(source)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 50])
def test_a_damaged_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "damaged.gguf"
    source.write_bytes(content)
    with pytest.raises(ModelError, match=r"damaged\.gguf") as caught:
        converted(source)
    assert "\n" not in str(caught.value)


def test_a_half_downloaded_file_is_one_line(tmp_path: Path) -> None:
    source = tiny_gguf(tmp_path / "tiny.gguf")
    source.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    with pytest.raises(ModelError, match="incomplete download"):
        converted(source)


def test_llama3_position_scaling_is_rebuilt_from_its_divisors(tmp_path: Path) -> None:
    source = tiny_gguf(tmp_path / "tiny.gguf")
    tensors, values = mx.load(str(source), return_metadata=True)
    tensors["rope_freqs.weight"] = mx.array([1.0, 1.0, 4.0, 8.0])
    mx.save_gguf(str(source), tensors, values)
    config = json.loads((converted(source) / "config.json").read_text())
    assert config["rope_scaling"]["rope_type"] == "llama3"
    assert config["rope_scaling"]["factor"] == 8.0


def sentencepiece(**changes: Any) -> Vocabulary:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces = ["▁", "a", "b", "▁a", "ab", "▁ab"]
    values: dict[str, Any] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*tokens, *pieces],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(pieces)],
        "tokenizer.ggml.scores": [0.0] * 259 + [-9.0, -9.0, -9.0, -2.0, -1.0, -3.0],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    return Vocabulary.read((values | changes).get)


def test_sentencepiece_merges_best_scores_first() -> None:
    tokenizer = build_tokenizer(sentencepiece())
    assert tokenizer.encode("ab ab").tokens == ["<s>", "▁ab", "▁ab"]
    assert tokenizer.encode("aab").tokens == ["<s>", "▁a", "ab"]


@pytest.mark.parametrize("text", ["ab", " ab", "ďábel 漢字 👩‍👩‍👧\n"])
def test_sentencepiece_round_trips_any_text(text: str) -> None:
    tokenizer = build_tokenizer(sentencepiece())
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_beginning_of_text_only_where_the_file_wants_it() -> None:
    silent = build_tokenizer(sentencepiece(**{"tokenizer.ggml.add_bos_token": False}))
    assert silent.encode("ab").tokens == ["▁ab"]
