"""Loading DSpark checkpoints: both packings, and one line for everything that doesn't fit."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.drafters.dspark.config import read_config
from engine.drafters.dspark.drafter import DSpark
from engine.drafters.dspark.load import load_model
from engine.drafters.dspark.model import DSparkModel
from engine.drafters.registry import drafter_folder, known_drafter
from engine.models.errors import ModelError
from engine.models.load import LoadedModel, load
from tests.engine.dspark_checkpoints import (
    NATIVE,
    Weights,
    random_weights,
    shapes,
    speculators,
    write,
)
from tests.engine.dspark_rows import Rows
from tests.tiny import tiny_llama

PROMPT = (5, 9, 200, 17, 33)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(tiny_llama(tmp_path_factory.mktemp("target"), layers=4, ends=False), "tiny")


def refusal(target: LoadedModel, folder: Path, **loading: Any) -> str:
    """The one line a folder is refused with."""
    with pytest.raises(ModelError) as refused:
        load_model(folder, target, **loading)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def drafts(target: LoadedModel, folder: Path, bits: int | None = None) -> list[int]:
    rows = Rows(target, DSpark(load_model(folder, target, bits), target.model))
    rows.join(PROMPT)
    [draft] = rows.propose()
    return list(draft.tokens)


@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
@pytest.mark.parametrize("confidence", [True, False])
def test_every_tensor_is_wanted_and_none_else(
    target: LoadedModel, tmp_path: Path, kind: str, confidence: bool
) -> None:
    config = NATIVE | {"markov_head_type": kind, "enable_confidence_head": confidence}
    config["draft_vocab_size"] = 90
    whole = random_weights(config)
    shares = {"embed_tokens.weight"}  # may be left out: the target's takes its place
    for name in set(shapes(config)) - shares:
        part = {key: array for key, array in whole.items() if key != name}
        said = refusal(target, write(tmp_path / name, config, part))
        assert name in said, said
    said = refusal(
        target, write(tmp_path / "more", config, whole | {"fc.bias": np.zeros(64, np.float32)})
    )
    assert "fc.bias [64]" in said
    load_model(write(tmp_path / "whole", config, whole), target)


def test_the_published_drafter_s_tensors_are_counted_right(tmp_path: Path) -> None:
    """The one for Qwen3-4B has 64 tensors and 1393 million numbers; nothing is computed here."""
    config = NATIVE | {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 5,
        "num_target_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "rope_theta": None,
        "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
        "block_size": 7,
        "mask_token_id": 151669,
        "target_layer_ids": [1, 9, 17, 25, 33],
        "markov_rank": 256,
    }
    read = read_config(write(tmp_path, config, {"x": np.zeros(1)}))
    assert (read.longest, read.theta, read.rope) == (7, 1e6, None)
    tensors = dict(tree_flatten(DSparkModel(read, True, True).parameters()))
    assert {name: array.shape for name, array in tensors.items()} == shapes(config)
    assert len(tensors) == 64
    assert round(sum(array.size for array in tensors.values()) / 1e6) == 1393


@pytest.mark.parametrize("name", ["fc.weight", "markov_head.markov_w2.weight", "norm.weight"])
def test_a_misshapen_tensor_is_named_with_both_shapes(
    target: LoadedModel, tmp_path: Path, name: str
) -> None:
    weights = random_weights(NATIVE)
    right = list(weights[name].shape)
    weights[name] = np.concatenate([weights[name], weights[name]])
    said = refusal(target, write(tmp_path, NATIVE, weights))
    assert name in said
    assert str([2 * right[0], *right[1:]]) in said
    assert str(right) in said


@pytest.mark.parametrize(
    "other", [{"hidden_size": 48}, {"vocab_size": 640}, {"num_target_layers": 28}]
)
def test_a_drafter_for_another_target_is_refused(
    target: LoadedModel, tmp_path: Path, other: dict[str, int]
) -> None:
    config = NATIVE | other
    said = refusal(target, write(tmp_path, config, random_weights(config)))
    assert str(*other.values()) in said
    assert "tiny has 320 tokens, hidden size 64 and 4 layers" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["Gemma4DSparkModel"]}, "is of Gemma4DSparkModel"),
        ({"architectures": None}, "is of no architecture"),
        ({"block_size": None}, "lacks block_size"),
        ({"block_size": "7"}, "block_size = '7'"),
        ({"block_size": True}, "block_size = True"),
        ({"markov_head_type": "lstm"}, "lstm, none of vanilla, gated, rnn"),
        ({"target_layer_ids": [2, 1]}, "not in ascending order"),
        ({"target_layer_ids": ["1"]}, "are no numbers"),
        ({"target_layer_ids": [1, 3]}, "the last of 4 target layers"),
        ({"mask_token_id": 320}, "mask token 320 of 320"),
        ({"draft_vocab_size": 321}, "321 drafts out of 320"),
        ({"markov_rank": 0}, "a Markov head it doesn't have"),
        ({"layer_types": ["linear_attention"] * 2}, "linear_attention"),
        ({"num_key_value_heads": 3}, "4 heads for 3 K/V heads"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "Unsupported RoPE type spiral"),
    ],
)
def test_a_config_that_can_t_be_is_refused_by_field(
    target: LoadedModel, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    weights = random_weights(NATIVE)
    assert said in refusal(target, write(tmp_path, NATIVE | changes, weights))


@pytest.mark.parametrize("junk", [None, "x", "", [], ["x"], [[]], {}, {"x": 1}, -1, 0, 1.5, True])
def test_whatever_stands_in_a_config_is_read_or_refused(tmp_path: Path, junk: Any) -> None:
    folder = write(tmp_path, NATIVE, {"x": np.zeros(1)})
    broken = [NATIVE | {field: junk} for field in NATIVE]
    whole = speculators()
    for level in (whole, whole["speculators_config"], whole["transformer_layer_config"]):
        for field in list(level):
            kept = level[field]
            level[field] = junk
            broken.append(json.loads(json.dumps(whole)))
            level[field] = kept
    broken += [NATIVE | {"rope_parameters": {key: junk}} for key in ("rope_theta", "rope_type")]
    for config in broken:
        (folder / "config.json").write_text(json.dumps(config))
        with suppress(ModelError):
            read_config(folder)


def test_other_speculators_are_refused_by_their_kind(target: LoadedModel, tmp_path: Path) -> None:
    config = speculators(speculators_model_type="eagle3")
    assert "of a eagle3 speculator" in refusal(
        target, write(tmp_path, config, random_weights(NATIVE))
    )


def test_folders_that_hold_no_drafter(target: LoadedModel, tmp_path: Path) -> None:
    assert "can't read" in refusal(target, tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    assert "not a JSON object" in refusal(target, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(NATIVE))
    assert "has no model*.safetensors" in refusal(target, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    assert "can't read" in refusal(target, tmp_path)


def test_both_packings_say_the_same(tmp_path: Path) -> None:
    native = read_config(write(tmp_path / "native", NATIVE, {"x": np.zeros(1)}))
    nested = read_config(write(tmp_path / "nested", speculators(), {"x": np.zeros(1)}))
    assert native.taps == nested.taps == (0, 1, 3)
    assert native.target_depth == 4
    assert nested.target_depth == 0  # a speculator's config leaves that out
    alike = {name: getattr(native, name) for name in native.__slots__ if name != "target_depth"}
    assert alike == {name: getattr(nested, name) for name in alike}


@pytest.mark.parametrize(
    ("speculative_tokens", "anchor", "first"),
    [(5, None, 0), (4, None, 1), (None, True, 0), (None, False, 1), (None, None, 1)],
)
def test_which_place_of_a_speculator_s_block_drafts_first(
    tmp_path: Path, speculative_tokens: int | None, anchor: bool | None, first: int
) -> None:
    config = speculators(sample_from_anchor=anchor)
    methods = config["speculators_config"]["proposal_methods"]
    methods[:] = [{"speculative_tokens": speculative_tokens}] if speculative_tokens else []
    read = read_config(write(tmp_path, config, {"x": np.zeros(1)}))
    assert (read.first, read.longest) == (first, 5 - first)


def test_prefixed_names_shards_and_training_s_leftovers(
    target: LoadedModel, tmp_path: Path
) -> None:
    weights = random_weights(NATIVE)
    wanted = drafts(target, write(tmp_path / "plain", NATIVE, weights))
    folder = write(tmp_path / "shards", NATIVE, {})
    (folder / "model.safetensors").unlink()
    named = {f"model.{name}": mx.array(array) for name, array in weights.items()}
    named["t2d"] = mx.zeros(320, dtype=mx.bool_)
    named["model.rotary_emb.inv_freq"] = mx.zeros(16)
    for shard in range(2):
        part = dict(list(named.items())[shard::2])
        mx.save_safetensors(str(folder / f"model-0000{shard + 1}-of-00002.safetensors"), part)
    assert drafts(target, folder) == wanted


def own(target: LoadedModel) -> Weights:
    """The target's embedding and output layer, as a checkpoint carries copies of them."""
    return {
        "embed_tokens.weight": np.array(target.model.model.embed_tokens.weight),
        "lm_head.weight": np.array(target.model.lm_head.weight),
    }


@pytest.mark.parametrize("left_out", [["lm_head.weight"], ["embed_tokens.weight"], None])
def test_what_a_checkpoint_leaves_out_is_the_target_s(
    target: LoadedModel, tmp_path: Path, left_out: list[str] | None
) -> None:
    weights = random_weights(NATIVE) | own(target)
    part = {name: a for name, a in weights.items() if name not in (left_out or own(target))}
    wanted = drafts(target, write(tmp_path / "whole", NATIVE, weights))
    assert drafts(target, write(tmp_path / "part", NATIVE, part)) == wanted


def test_a_tied_checkpoint_s_own_embedding_is_its_output_layer(
    target: LoadedModel, tmp_path: Path
) -> None:
    weights = random_weights(NATIVE)
    weights["lm_head.weight"] = weights["embed_tokens.weight"]
    wanted = drafts(target, write(tmp_path / "both", NATIVE, weights))
    del weights["lm_head.weight"]
    tied = NATIVE | {"tie_word_embeddings": True}
    assert drafts(target, write(tmp_path / "tied", tied, weights)) == wanted


def test_a_reduced_vocabulary_needs_its_map(target: LoadedModel, tmp_path: Path) -> None:
    config = NATIVE | {"draft_vocab_size": 90}
    weights = random_weights(config)
    far = weights | {"d2t": np.full(90, 300)}
    assert "leads to tokens 300 to 389" in refusal(target, write(tmp_path / "a", config, far))
    text = weights | {"d2t": np.zeros(90, np.float32)}
    assert "not integers [90]" in refusal(target, write(tmp_path / "b", config, text))
    full = random_weights(NATIVE) | {"d2t": np.zeros(320, np.int64)}
    assert "drafts from all 320 tokens" in refusal(target, write(tmp_path / "c", NATIVE, full))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
def test_quantized_at_load_by_choice(
    target: LoadedModel, tmp_path: Path, kind: str, bits: int
) -> None:
    config = NATIVE | {"markov_rank": 64, "markov_head_type": kind}
    folder = write(tmp_path, config, random_weights(config))
    model = load_model(folder, target, bits)
    quantized = {path for path, module in model.named_modules() if hasattr(module, "bits")}
    assert {"fc", "lm_head", "embed_tokens", "markov_head.markov_w1"} <= quantized
    assert "layers.0.mlp.down_proj" not in quantized  # 96 wide: no whole number of groups
    kept, wanted = drafts(target, folder, bits), drafts(target, folder)
    assert kept[:1] == wanted[:1] or bits == 4


def test_a_checkpoint_that_is_quantized_already(target: LoadedModel, tmp_path: Path) -> None:
    folder = write(tmp_path / "plain", NATIVE, random_weights(NATIVE))
    model = load_model(folder, target, 8)
    stored = write(tmp_path / "stored", NATIVE, {})
    quantization = {"quantization": {"group_size": 64, "bits": 8}}
    (stored / "config.json").write_text(json.dumps(NATIVE | quantization))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(stored / "model.safetensors"), weights)
    assert drafts(target, stored) == drafts(target, folder, 8)


def test_choices_nobody_can_have(target: LoadedModel, tmp_path: Path) -> None:
    folder = write(tmp_path, NATIVE, random_weights(NATIVE))
    assert "4 or 8 bits, not 3" in refusal(target, folder, bits=3)
    model = load_model(folder, target)
    for confidence in (-0.1, 1.5):
        with pytest.raises(ModelError, match=re.escape(f"from 0 to 1, not {confidence}")):
            DSpark(model, target.model, confidence)
    with pytest.raises(ModelError, match="has no list of layers"):
        DSpark(model, object())
    config = NATIVE | {"enable_confidence_head": False}
    plain = load_model(write(tmp_path / "plain", config, random_weights(config)), target)
    with pytest.raises(ModelError, match="no confidence head"):
        DSpark(plain, target.model, 0.5)


@pytest.mark.parametrize(
    ("model", "drafter"),
    [
        ("Qwen/Qwen3-4B", "deepseek-ai/dspark_qwen3_4b_block7"),
        ("mlx-community/Qwen3-8B-4bit", "deepseek-ai/dspark_qwen3_8b_block7"),
        ("/models/qwen3-14b-mxfp4/", "deepseek-ai/dspark_qwen3_14b_block7"),
        ("Qwen3-4B-MLX-8bit", "deepseek-ai/dspark_qwen3_4b_block7"),
        ("Qwen3-4B-Thinking-2507", None),
        ("SmolLM2-135M-Instruct", None),
    ],
)
def test_known_pairs_go_by_the_model_s_name_alone(model: str, drafter: str | None) -> None:
    assert known_drafter(model) == drafter


def test_a_named_drafter_is_a_folder_or_the_hub_s(tmp_path: Path) -> None:
    assert drafter_folder(str(tmp_path), lambda _: None) == tmp_path
    with pytest.raises(ModelError, match="there is no drafter at"):
        drafter_folder(str(tmp_path / "nowhere"), lambda _: None)
