"""How a model is divided among ranks, and what is said where it can't be."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from engine.distributed.division import Division, choose, of_layers
from engine.models.errors import ModelError
from engine.types import EngineSettings
from tests.tiny_families import tiny_family


def divided(
    folder: Path, family: str, ranks: int, pipeline: bool = False, **changes: int
) -> Division:
    model = tiny_family(folder, family, **changes)
    config: dict[str, Any] = json.loads((model / "config.json").read_text())
    library = importlib.import_module(f"mlx_lm.models.{family}")
    made = library.Model(library.ModelArgs.from_dict(config))
    return choose(made, config, ranks, pipeline)


@pytest.mark.parametrize(
    ("family", "pipeline", "division"),
    [
        ("llama", False, Division.TENSOR),
        ("deepseek_v3", False, Division.TENSOR),
        ("deepseek_v3", True, Division.PIPELINE),
        ("qwen3_next", False, Division.PIPELINE),
    ],
)
def test_tensor_parallel_unless_asked_or_unable(
    tmp_path: Path, family: str, pipeline: bool, division: Division
) -> None:
    assert divided(tmp_path, family, 2, pipeline) is division


@pytest.mark.parametrize(
    ("family", "ranks", "pipeline", "why"),
    [
        ("llama", 3, False, "its 4 attention heads are not divisible by 3; 2 ranks would do"),
        ("deepseek_v3", 3, False, "not divisible by 3; 2 ranks would do"),
        ("deepseek_v3", 3, True, "3 ranks can't share this deepseek_v3: it has 2 layers"),
        ("llama", 2, True, "no pipeline of llama; without --pipeline 2 ranks would do"),
        ("gemma3_text", 2, True, "no pipeline of gemma3_text"),
        ("gemma3_text", 2, False, "gemma3_text can't be shared by ranks"),
    ],
)
def test_what_cannot_be_divided_is_one_line(
    tmp_path: Path, family: str, ranks: int, pipeline: bool, why: str
) -> None:
    with pytest.raises(ModelError) as refused:
        divided(tmp_path, family, ranks, pipeline)
    assert why in str(refused.value)


def test_a_pipeline_is_proposed_where_there_are_layers_for_all(tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    (tmp_path / "long").mkdir()
    with pytest.raises(ModelError) as refused:
        divided(tmp_path / "short", "deepseek_v3", 3)
    assert "--pipeline" not in str(refused.value)
    with pytest.raises(ModelError, match="--pipeline gives each rank whole layers instead"):
        divided(tmp_path / "long", "deepseek_v3", 3, num_hidden_layers=3)


def test_sizes_are_for_a_ranks_own_layers() -> None:
    settings = EngineSettings(max_batch=4, kv_budget=800, prefix_cache=50)
    mine = of_layers(settings, 3)
    assert (mine.kv_budget, mine.prefix_cache, mine.max_batch) == (2400, 150, 4)
    assert of_layers(EngineSettings(prefix_cache=0), 3).prefix_cache == 0
    assert of_layers(EngineSettings(), 3) == EngineSettings()
