"""The audit on tiny models: what is read, what is measured, and how it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models import qwen3_moe
from mlx_lm.models.switch_layers import SwitchGLU

from engine.events import Finished, ModelInfo, Progress
from engine.hardware import bandwidth
from engine.hardware.roofline import (
    BandwidthPoint,
    Ceiling,
    Machine,
    Measured,
    Reading,
    Roofline,
    Tensor,
)
from engine.models.errors import ModelError
from engine.models.load import load
from engine.models.routing import expert_shares
from engine.models.weights import compute_dtype, tensors
from engine.proof.audit import Audit, AuditError, Report, Sample, _sample, audit, widths
from engine.types import GenerationRequest, Sink
from tests.engine.conftest import Harness
from tests.tiny import tiny_llama

VOCAB, HIDDEN = 320, 64
MODEL = ModelInfo("m", "llama", 1, 512, "fp32", 4, 4)


def named(model: nn.Module, config: dict[str, Any]) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in tensors(model, config)}


def test_an_untied_embedding_is_looked_up_and_its_head_is_read_whole(tmp_path: Path) -> None:
    loaded = load(tiny_llama(tmp_path / "m"), "m")
    found = named(loaded.model, loaded.config)
    lookup, head = found["model.embed_tokens.weight"], found["lm_head.weight"]
    assert (lookup.reading, lookup.entries, lookup.weights) == (Reading.ROW, VOCAB, 0)
    assert (head.reading, head.weights) == (Reading.WHOLE, VOCAB * HIDDEN)
    assert sum(tensor.bytes for tensor in found.values()) == loaded.info.weight_bytes


def test_a_tied_embedding_is_counted_once_as_the_output_projection(tmp_path: Path) -> None:
    loaded = load(tiny_llama(tmp_path / "m", tie_word_embeddings=True), "m")
    found = named(loaded.model, loaded.config)
    assert "lm_head.weight" not in found
    assert found["model.embed_tokens.weight"].reading is Reading.WHOLE
    assert found["model.embed_tokens.weight"].bytes_read(1) == VOCAB * HIDDEN * 4


def test_quantized_tensors_count_their_packed_bytes_and_their_real_weights(tmp_path: Path) -> None:
    loaded = load(tiny_llama(tmp_path / "m"), "m")
    nn.quantize(loaded.model, group_size=64, bits=4)
    found = named(loaded.model, loaded.config)
    packed = found["model.layers.0.mlp.up_proj.weight"]
    assert (packed.dtype, packed.bytes, packed.weights) == ("uint32", 128 * 64 // 2, 128 * 64)
    assert found["model.layers.0.mlp.up_proj.scales"].weights == 0
    assert found["model.embed_tokens.scales"].reading is Reading.ROW
    assert compute_dtype(loaded.model) == mx.float32


MOE = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 16,
    "rms_norm_eps": 1e-5,
    "vocab_size": VOCAB,
    "rope_theta": 1e4,
    "tie_word_embeddings": False,
    "max_position_embeddings": 512,
    "norm_topk_prob": True,
}


def tiny_moe(folder: Path) -> Path:
    """A random mixture of experts with the tiny llama's tokenizer."""
    tiny_llama(folder)
    mx.random.seed(0)
    model = qwen3_moe.Model(qwen3_moe.ModelArgs.from_dict(MOE))
    (folder / "config.json").write_text(json.dumps(MOE))
    model.save_weights(str(folder / "model.safetensors"))
    return folder


def test_routed_experts_are_told_from_what_every_token_needs() -> None:
    found = named(qwen3_moe.Model(qwen3_moe.ModelArgs.from_dict(MOE)), MOE)
    experts = found["model.layers.0.mlp.switch_mlp.up_proj.weight"]
    assert (experts.reading, experts.entries, experts.chosen) == (Reading.EXPERTS, 8, 2)
    assert experts.weights == 16 * 64
    assert experts.bytes_read(1) == pytest.approx(experts.bytes / 4)
    assert found["model.layers.0.mlp.gate.weight"].reading is Reading.WHOLE


def test_the_routing_is_seen_at_work_and_left_as_it_was() -> None:
    model = qwen3_moe.Model(qwen3_moe.ModelArgs.from_dict(MOE))
    prompts = [[row + 3 * place for place in range(16)] for row in range(8)]
    before = model(mx.array(prompts))
    shares = expert_shares(model, prompts, [1, 2, 8])
    assert shares[1] == pytest.approx(2 / 8)
    assert shares[1] < shares[2] < shares[8] <= 1
    assert mx.array_equal(model(mx.array(prompts)), before)
    assert type(model.layers[0].mlp.switch_mlp) is SwitchGLU


def test_a_router_that_always_takes_the_same_experts_needs_only_those() -> None:
    model = qwen3_moe.Model(qwen3_moe.ModelArgs.from_dict(MOE))
    for layer in model.layers:
        layer.mlp.gate.weight = mx.zeros_like(layer.mlp.gate.weight)
    prompts = [[row + 3 * place for place in range(16)] for row in range(8)]
    assert expert_shares(model, prompts, [1, 8]) == {1: 0.25, 8: 0.25}


def test_a_model_without_experts_has_no_shares(tmp_path: Path) -> None:
    assert expert_shares(load(tiny_llama(tmp_path / "m"), "m").model, [[1, 2]], [1]) == {}


def test_the_audit_of_a_mixture_of_experts_counts_what_was_seen(tmp_path: Path) -> None:
    folder = tiny_moe(tmp_path / "moe")
    found = audit(lambda report: load(folder, "moe", "auto", report), 2, lambda _: None)
    shares = found.document()["expert_shares"]
    assert shares[1] == pytest.approx(0.25)
    experts = sum(t.bytes for t in found.roofline.tensors if t.reading is Reading.EXPERTS)
    others = sum(
        t.bytes_read(2) for t in found.roofline.tensors if t.reading is not Reading.EXPERTS
    )
    assert found.roofline.step_bytes(2, 0) == pytest.approx(others + experts * shares[2])


def test_working_sets_grow_from_cache_size_to_beyond_the_model() -> None:
    megabyte = bandwidth.MEGABYTE
    sizes = [size // megabyte for size in bandwidth.working_sets(100 * megabyte, 2**40)]
    assert sizes == [1, 4, 16, 64, 100, 200]
    assert list(bandwidth.working_sets(1000, 2**40)) == [megabyte]
    scarce = [size // megabyte for size in bandwidth.working_sets(2**40, 20 * megabyte)]
    assert scarce == [1, 4, 16]


def test_widths_double_and_end_with_the_widest() -> None:
    assert widths(1) == [1]
    assert widths(8) == [1, 2, 4, 8]
    assert widths(6) == [1, 2, 4, 6]


def test_an_audit_decodes_at_each_width_and_every_figure_follows_from_its_document(
    tmp_path: Path,
) -> None:
    folder = tiny_llama(tmp_path / "tiny", ends=False)
    told: list[Progress] = []
    found = audit(lambda report: load(folder, "tiny", "auto", report), 3, told.append)
    document = json.loads(json.dumps(found.document()))
    assert [sample["rows"] for sample in document["samples"]] == [1, 2, 3]
    assert {"load", "measure", "decode"} <= {progress.stage for progress in told}
    points = document["machine"]["bandwidth"]
    assert all(0 < point["one_stream"] <= point["best"] for point in points)
    for sample in document["samples"]:
        rows, rate = sample["rows"], sample["measured_tokens_per_second"]
        weights = sum(
            tensor["bytes"] * (min(rows, VOCAB) / VOCAB if tensor["reading"] == "row" else 1)
            for tensor in document["tensors"]
        )
        keys_and_values = rows * sample["context"] * document["kv_bytes_per_token"]
        assert sample["bytes_per_step"] == pytest.approx(weights + keys_and_values)
        assert sample["bytes_per_token"] == pytest.approx(sample["bytes_per_step"] / rows)
        assert sample["utilisation"] == pytest.approx(rate / sample["ceiling_tokens_per_second"])
        moved = rate * sample["bytes_per_token"]
        assert sample["measured_bytes_per_second"] == pytest.approx(moved)
    assert document["conclusion"] == found.conclusion()


def test_rows_that_do_not_fit_together_have_no_sample(start: Callable[..., Harness]) -> None:
    harness = start(max_batch=2, kv_budget=300 * 512)
    roofline = of_samples((1, 0.1, 0.1, 0.5)).roofline
    alone = _sample(harness.engine, roofline, 1)
    assert alone is not None
    assert alone.result.ceiling.rows == 1
    assert _sample(harness.engine, roofline, 2) is None


def test_rows_share_their_steps_however_late_the_last_is_asked_for(
    start: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = start(max_batch=2)
    submit = harness.engine.submit

    def late(request: GenerationRequest, sink: Sink) -> None:
        submit(request, sink)
        harness.wait_until(lambda: harness.engine.snapshot().paused or harness.of(Finished))

    monkeypatch.setattr(harness.engine, "submit", late)
    sample = _sample(harness.engine, of_samples((1, 0.1, 0.1, 0.5)).roofline, 2)
    assert sample is not None
    assert sample.result.ceiling.rows == 2


def test_a_model_that_cannot_load_is_one_line() -> None:
    def broken(report: Report) -> Any:
        raise ModelError("there is no model here")

    with pytest.raises(AuditError, match=r"^there is no model here$"):
        audit(broken, 1, lambda _: None)


def test_whoever_stops_listening_while_it_loads_ends_it(tmp_path: Path) -> None:
    def leave(progress: Progress) -> None:
        raise RuntimeError("enough")

    folder = tiny_llama(tmp_path / "tiny")
    with pytest.raises(AuditError, match="enough"):
        audit(lambda report: load(folder, "tiny", "auto", report), 1, leave)


def of_samples(*samples: tuple[int, float, float, float]) -> Audit:
    """Samples of rows, seconds for memory and for arithmetic, and the share of the ceiling."""
    found = []
    for rows, memory, arithmetic, share in samples:
        ceiling = Ceiling(rows, 1e9, memory, arithmetic)
        found.append(Sample(64, 50, Measured(ceiling, share * ceiling.rate)))
    point = BandwidthPoint(1, 1.0, 1.0, 1)
    roofline = Roofline((Tensor("w", (1,), "float32", 4),), 0, Machine((point,), 1.0))
    return Audit(MODEL, (), roofline, tuple(found))


def test_the_conclusion_says_whether_and_where_something_is_left() -> None:
    busy = of_samples((1, 0.1, 0.01, 0.5), (8, 0.1, 0.05, 0.25)).conclusion()
    assert busy.startswith("There is something to win: at 8 rows decoding reaches 25%")
    assert "batching gains 4.0x of 8.0x possible" in busy
    assert "300.0 of a step's 400.0 ms are more than memory needs" in busy
    near = of_samples((1, 0.1, 0.01, 0.9), (8, 0.1, 0.2, 0.8)).conclusion()
    assert near.startswith("Little is left to win: at 8 rows decoding reaches 80%")
    assert "more arithmetic" in near
    spoiled = of_samples((1, 0.1, 0.01, 1.3)).conclusion()
    assert spoiled.startswith("The machine was busy")
    alone = of_samples((1, 0.1, 0.01, 0.9)).conclusion()
    assert "at 1 row decoding" in alone
    assert "fewer bytes" in alone
    assert "batching" not in alone


def test_a_gain_above_the_distance_of_the_limits_is_put_down_to_one_row_alone() -> None:
    told = of_samples((1, 0.1, 0.01, 0.24), (8, 0.1, 0.138, 0.28)).conclusion()
    assert "possible" not in told
    assert "gains 6.8x, where the limits are 5.8x apart, as one row alone reached only 24%" in told
    spoiled = of_samples((1, 0.1, 0.01, 0.3), (8, 0.1, 0.1, 1.3)).conclusion()
    assert spoiled.startswith("The machine was busy")
    assert "gains" not in spoiled
