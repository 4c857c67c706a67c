"""A model folder in memory: precision by rule, one line for every kind of broken folder, and a
tokenizer any thread may use."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.generate import generate_step
from mlx_lm.models.llama import Model, ModelArgs
from mlx_lm.utils import load_model

from engine.events import Capability, Progress
from engine.hardware import memory
from engine.models.errors import ModelError, TemplateError
from engine.models.load import DEFAULT_CONTEXT, LoadedModel, load
from tests.tiny import CHATML, EOS_ID, tiny_llama

EMOJI = "👩‍👩‍👧 ďábel 漢字\n\t  end"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_llama(tmp_path / "tiny")


@pytest.fixture
def quantized(folder: Path) -> Path:
    """The tiny model in 4 bits with half-precision scales, as a published MLX model would be."""
    model = load_model(folder)[0]
    model.set_dtype(mx.float16)
    nn.quantize(model, group_size=32, bits=4)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    edit(folder, quantization={"group_size": 32, "bits": 4})
    return folder


@pytest.fixture
def with_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Pretend that so many bytes are available."""

    def pretend(size: int) -> None:
        monkeypatch.setattr(memory, "available", lambda: size)

    return pretend


def edit(folder: Path, **changes: Any) -> None:
    """Change config.json; None deletes a key."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def precision_of(loaded: LoadedModel) -> Capability:
    return next(c for c in loaded.capabilities if c.feature == "precision")


def dtypes(loaded: LoadedModel) -> set[mx.Dtype]:
    return {tensor.dtype for _, tensor in tree_flatten(loaded.model.parameters())}


def greedy(loaded: LoadedModel, prompt: list[int], count: int) -> list[int]:
    steps = generate_step(mx.array(prompt), loaded.model, max_tokens=count)
    return [token for token, _ in steps]


def refusal(folder: Path, precision: str = "auto") -> str:
    with pytest.raises(ModelError) as caught:
        load(folder, "tiny", precision)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What is loaded


def test_facts_about_the_model(folder: Path) -> None:
    info = load(folder, "my-name").info
    assert (info.id, info.family, info.context) == ("my-name", "llama", 512)
    assert info.precision == "fp32"
    assert info.weight_bytes == 4 * info.parameters
    # 2 layers, keys and values, 2 heads of 16 values in 4 bytes
    assert info.kv_bytes_per_token == 2 * 2 * 2 * 16 * 4


def test_facts_agree_with_the_architecture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    model = Model(ModelArgs.from_dict(config))
    count = sum(tensor.size for _, tensor in tree_flatten(model.parameters()))
    assert load(folder, "tiny").info.parameters == count


def test_a_model_that_states_no_context(folder: Path) -> None:
    edit(folder, max_position_embeddings=None)
    assert load(folder, "tiny").info.context == DEFAULT_CONTEXT


def test_progress_counts_every_tensor(folder: Path) -> None:
    heard: list[Progress] = []
    load(folder, "tiny", progress=heard.append)
    counted = [progress for progress in heard if progress.unit == "tensors"]
    assert [progress.done for progress in counted] == list(range(counted[-1].total + 1))


def test_loading_can_be_stopped(folder: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(folder, "tiny", progress=stop)


def test_weights_loaded_on_one_thread_run_on_another(folder: Path) -> None:
    with ThreadPoolExecutor(1) as loader, ThreadPoolExecutor(1) as runner:
        loaded = loader.submit(load, folder, "tiny").result()
        tokens = runner.submit(greedy, loaded, [5, 6, 7], 8).result()
    assert tokens == greedy(loaded, [5, 6, 7], 8)


# Precision


def test_auto_on_a_cpu_is_fp32_where_it_fits(quantized: Path) -> None:
    loaded = load(quantized, "tiny")
    assert dtypes(loaded) == {mx.float32}
    capability = precision_of(loaded)
    assert (capability.requested, capability.effective) == ("auto", "fp32")
    assert "CPU" in capability.why


def test_auto_keeps_what_would_not_fit_and_says_so(
    quantized: Path, with_memory: Callable[[int], None]
) -> None:
    with_memory(400_000)
    loaded = load(quantized, "tiny")
    capability = precision_of(loaded)
    assert (capability.requested, capability.effective) == ("auto", "4-bit")
    assert "60%" in capability.why
    assert loaded.info.weight_bytes < 400_000


def test_dequantized_weights_are_the_stored_ones(quantized: Path) -> None:
    stored = load(quantized, "tiny", "stored").model.model.embed_tokens
    scales, biases = stored.scales.astype(mx.float32), stored.biases.astype(mx.float32)
    expected = mx.dequantize(stored.weight, scales, biases, group_size=32, bits=4)
    assert mx.array_equal(load(quantized, "tiny").model.model.embed_tokens.weight, expected)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp16", mx.float16), ("bf16", mx.bfloat16), ("fp32", mx.float32)]
)
def test_a_precision_asked_for(quantized: Path, precision: str, dtype: mx.Dtype) -> None:
    loaded = load(quantized, "tiny", precision)
    assert dtypes(loaded) == {dtype}
    assert loaded.info.precision == precision
    assert precision_of(loaded).why == "asked for"


def test_stored_is_left_alone(folder: Path, quantized: Path) -> None:
    assert load(quantized, "tiny", "stored").info.precision == "4-bit"


def test_fp32_stays_fp32(folder: Path) -> None:
    assert precision_of(load(folder, "tiny")).why == "stored so"


def test_an_unknown_precision(folder: Path) -> None:
    assert "fp32" in refusal(folder, "int3")


@pytest.mark.parametrize("precision", ["auto", "stored", "fp16"])
def test_too_large_for_memory(
    folder: Path, with_memory: Callable[[int], None], precision: str
) -> None:
    with_memory(100_000)
    message = refusal(folder, precision)
    assert "needs" in message
    assert "100 kB are available" in message


def test_available_memory_is_plausible() -> None:
    assert 10**8 < memory.available() < 10**14


def test_a_blas_report_comes_with_every_model(folder: Path) -> None:
    features = [capability.feature for capability in load(folder, "tiny").capabilities]
    assert features == ["precision", "blas", "quantized KV"]


# Folders that can't be loaded


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    assert "no config.json" in refusal(tmp_path)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert "no config.json" in refusal(tmp_path / "nothing")


@pytest.mark.parametrize("content", ["{", "[]", "", "\xff\xfe"])
def test_a_broken_config(folder: Path, content: str) -> None:
    (folder / "config.json").write_bytes(content.encode("latin-1"))
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": None}, "model_type"),
        ({"model_type": 7}, "model_type"),
        ({"model_type": "klingon"}, "klingon"),
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": 128}, "shape"),
        ({"model_file": "own.py"}, r"own.py"),
    ],
)
def test_a_config_that_does_not_fit(folder: Path, changes: dict[str, Any], message: str) -> None:
    edit(folder, **changes)
    assert message in refusal(folder)


def test_missing_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "lacks weights: model.safetensors" in refusal(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    shards = {name: f"model-{name}.safetensors" for name in "abc"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert "lacks weights: model-a.safetensors and 2 more" in refusal(folder)


@pytest.mark.parametrize("kept", [0, 100, 200_000])
def test_cut_off_weights(folder: Path, kept: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert str(folder) in refusal(folder)


def test_a_tensor_too_few(folder: Path) -> None:
    weights = mx.load(str(folder / "model.safetensors"))
    del weights["model.norm.weight"]
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    assert "norm.weight" in refusal(folder)


def test_a_broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")
    assert "tokenizer" in refusal(folder)


def test_code_in_a_checkpoint_is_never_run(folder: Path, tmp_path: Path) -> None:
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    path.write_text(json.dumps(config))
    assert "never run" in refusal(folder)
    assert not (tmp_path / "ran").exists()


# The tokenizer


def test_any_text_round_trips(folder: Path) -> None:
    tokenizer = load(folder, "tiny").tokenizer
    assert tokenizer.decode(tokenizer.encode(EMOJI)) == EMOJI
    assert max(tokenizer.encode(EMOJI)) < tokenizer.vocab_size


def test_half_a_surrogate_pair_is_no_crash(folder: Path) -> None:
    tokenizer = load(folder, "tiny").tokenizer
    assert tokenizer.decode(tokenizer.encode("a\ud83db")) == "a?b"


def test_chat_ends_where_the_answer_begins(folder: Path) -> None:
    tokenizer = load(folder, "tiny").tokenizer
    text = tokenizer.backend.decode(
        tokenizer.chat([{"role": "user", "content": "hi"}]), skip_special_tokens=False
    )
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.eos == {EOS_ID}


def test_a_begun_answer_is_left_open(folder: Path) -> None:
    tokenizer = load(folder, "tiny").tokenizer
    question = {"role": "user", "content": "hi"}
    begun = tokenizer.chat([question, {"role": "assistant", "content": "a b"}], unfinished=True)
    ready = tokenizer.chat([question])
    assert begun[: len(ready)] == ready
    assert tokenizer.decode(begun[len(ready) :]) == "a b"


def test_a_template_that_refuses_a_role(tmp_path: Path) -> None:
    template = "{{ raise_exception('System role\n not supported') }}" + CHATML
    tokenizer = load(tiny_llama(tmp_path, chat_template=template), "tiny").tokenizer
    with pytest.raises(TemplateError, match=r"^System role not supported$"):
        tokenizer.chat([{"role": "system", "content": "be brief"}])


@pytest.mark.parametrize("template", ["{% if %}", "{{ ''.__class__.__mro__ }}", "{{ 1 / 0 }}"])
def test_a_template_that_fails(tmp_path: Path, template: str) -> None:
    tokenizer = load(tiny_llama(tmp_path, chat_template=template), "tiny").tokenizer
    with pytest.raises(TemplateError):
        tokenizer.chat([{"role": "user", "content": "hi"}])


def test_a_model_without_template_still_reads_raw_prompts(tmp_path: Path) -> None:
    tokenizer = load(tiny_llama(tmp_path, chat_template=None), "tiny").tokenizer
    with pytest.raises(TemplateError, match="no chat template"):
        tokenizer.chat([{"role": "user", "content": "hi"}])
    assert tokenizer.decode(tokenizer.encode("hi")) == "hi"


def test_what_the_model_wants_first_is_put_before_raw_prompts_only(folder: Path) -> None:
    path = folder / "tokenizer.json"
    data = json.loads(path.read_text())
    special = {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}
    data["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|im_start|>": special},
    }
    path.write_text(json.dumps(data))
    tokenizer = load(folder, "tiny").tokenizer
    assert tokenizer.encode("hi")[0] == 1
    assert tokenizer.encode("") == [1]
    assert tokenizer.chat([{"role": "user", "content": "hi"}])[:2] != [1, 1]


def test_limits_from_training_do_not_cut_prompts(folder: Path) -> None:
    path = folder / "tokenizer.json"
    data = json.loads(path.read_text())
    limit = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    data["truncation"] = limit
    path.write_text(json.dumps(data))
    tokenizer = load(folder, "tiny").tokenizer
    assert tokenizer.decode(tokenizer.encode("much longer than four tokens")).endswith("tokens")


def test_every_thread_may_use_the_tokenizer_at_once(folder: Path) -> None:
    tokenizer = load(folder, "tiny").tokenizer
    message = [{"role": "user", "content": EMOJI}]
    expected = (tokenizer.encode(EMOJI), tokenizer.chat(message))
    together = threading.Barrier(4)

    def use(_: int) -> bool:
        together.wait(60)
        return all(
            (tokenizer.encode(EMOJI), tokenizer.chat(message)) == expected for _ in range(50)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))


# The real model


@pytest.mark.model
def test_the_embedded_model_explains_rainbows(embedded_model: Path) -> None:
    loaded = load(embedded_model, "smollm2-135m-instruct", "fp32")
    prompt = loaded.tokenizer.chat([{"role": "user", "content": "Explain how rainbows form."}])
    answer = loaded.tokenizer.decode(greedy(loaded, prompt, 13))
    assert answer == "Rainbows are indeed a fascinating phenomenon in the realm of optics."
    assert (loaded.info.context, loaded.info.parameters) == (8192, 134_515_008)
    assert loaded.tokenizer.eos == {2}
    assert loaded.tokenizer.decode(loaded.tokenizer.encode(EMOJI)) == EMOJI
