"""Names become models: found, listed, removed, and never guessed at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.events import Progress
from engine.models import catalog, hub
from engine.models.catalog import Kind, ModelRef
from engine.models.errors import ModelError
from engine.models.load import load
from tests.tiny import tiny_gguf, tiny_llama

DEFAULT = "smollm2-135m-instruct"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder and a hub cache of this test's own."""
    monkeypatch.setenv("DSPARK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "data"


def prepared(data: Path, name: str) -> Path:
    return tiny_llama(data / "models" / name)


def cached(tmp_path: Path, name: str, **changes: object) -> Path:
    """A model in the hub's cache, as its library lays it out."""
    repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = tiny_llama(repository / "snapshots" / ("a" * 40), **changes)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    return snapshot


def test_the_embedded_model_is_the_default(data: Path) -> None:
    expected = ModelRef(DEFAULT, Kind.EMBEDDED, data / "models" / DEFAULT)
    assert catalog.resolve(None) == catalog.resolve(DEFAULT) == expected


def test_the_platforms_data_folder(monkeypatch: pytest.MonkeyPatch, isolated_home: Path) -> None:
    monkeypatch.delenv("DSPARK_DATA_DIR")
    assert isolated_home in catalog.data_folder().parents
    assert catalog.data_folder().name == "dspark-tui"


def test_a_folder_is_used_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_llama(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    for name in (str(folder), "mine", "./mine"):
        ref = catalog.resolve(name)
        assert ref == ModelRef("mine", Kind.FOLDER, folder)
        assert catalog.ensure(ref) == folder


def test_a_home_folder_written_with_a_tilde(isolated_home: Path) -> None:
    folder = tiny_llama(isolated_home / "mine")
    assert catalog.resolve("~/mine").path == folder


def test_a_gguf_file_is_converted_once(tmp_path: Path) -> None:
    source = tiny_gguf(tmp_path / "tiny.gguf")
    ref = catalog.resolve(str(source))
    assert ref == ModelRef("tiny", Kind.GGUF, source)
    folder = catalog.ensure(ref)
    assert load(folder, "tiny").info.family == "llama"
    heard: list[Progress] = []
    assert catalog.ensure(ref, heard.append) == folder
    assert heard == []


def test_a_changed_gguf_file_is_converted_again(tmp_path: Path) -> None:
    first = catalog.ensure(catalog.resolve(str(tiny_gguf(tmp_path / "tiny.gguf"))))
    source = tiny_gguf(tmp_path / "tiny.gguf", general__name="another")
    assert catalog.ensure(catalog.resolve(str(source))) != first


def test_a_hub_name_needs_no_network_to_be_understood() -> None:
    assert catalog.resolve("org/Some-Model.v1") == ModelRef("org/Some-Model.v1", Kind.HUB, None)


def test_a_whole_model_in_the_hubs_cache_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = cached(tmp_path, "org/tiny")
    monkeypatch.setattr("huggingface_hub.snapshot_download", pytest.fail)
    assert catalog.ensure(catalog.resolve("org/tiny")) == snapshot


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm2", DEFAULT),
        ("smolm2-135m-instruct", DEFAULT),
        ("", 'no model ""'),
        ("x" * 5000, "no model"),
        ("a\0b", "no model"),
        ("./nothing", "there is no model at ./nothing"),
        ("/nothing/at/all", "there is no model at /nothing/at/all"),
        ("model.gguf", r"there is no model at model\.gguf"),
        ("a/b/c", "there is no model at a/b/c"),
    ],
)
def test_an_unknown_model_is_one_line_that_helps(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        catalog.resolve(name)
    assert "\n" not in str(caught.value)


def test_a_near_miss_names_what_is_there(data: Path) -> None:
    prepared(data, "my-own-llama")
    with pytest.raises(ModelError, match="my-own-llama"):
        catalog.resolve("my-own-lama")


def test_a_file_of_another_format(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_text("")
    with pytest.raises(ModelError, match=r"not a model folder or a \.gguf file"):
        catalog.resolve(str(tmp_path / "model.bin"))


def test_nothing_installed() -> None:
    (only,) = catalog.installed()
    assert (only.name, only.size) == (DEFAULT, 0)
    assert only.problem is not None
    assert "not fetched" in only.problem


def test_installed_models_with_sizes_and_problems(data: Path, tmp_path: Path) -> None:
    folder = prepared(data, "converted")
    (data / "models" / ".half.new").mkdir()
    cached(tmp_path, "org/whole")
    (cached(tmp_path, "org/bare") / "model.safetensors").unlink()
    partial = cached(tmp_path, "org/partial")
    (partial / "model.safetensors").rename(partial / "model-00001-of-00002.safetensors")
    shards = {f"w{i}": f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}
    (partial / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    cached(tmp_path, "org/encoder", architectures=["BertModel"])

    models = {model.name: model for model in catalog.installed()}
    assert list(models) == [DEFAULT, "converted", "org/bare", "org/partial", "org/whole"]
    assert models["converted"].size == sum(file.stat().st_size for file in folder.iterdir())
    assert models["converted"].problem is models["org/whole"].problem is None
    assert "safetensors" in (models["org/bare"].problem or "")
    assert "incomplete" in (models["org/partial"].problem or "")


def test_a_drafter_in_the_hubs_cache_is_found_and_is_no_model(tmp_path: Path) -> None:
    folder = cached(tmp_path, "org/drafter", architectures=["Qwen3DSparkModel"])
    assert [model.name for model in catalog.installed()] == [DEFAULT]
    assert hub.cached_folder("org/drafter") == folder
    assert hub.cached_folder("org/other") is None
    (folder / "model.safetensors").unlink()
    assert hub.cached_folder("org/drafter") is None


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_damaged_entry_of_the_hubs_cache_spoils_no_list(tmp_path: Path, content: str) -> None:
    (cached(tmp_path, "org/index") / "model.safetensors.index.json").write_text(content)
    (cached(tmp_path, "org/config") / "config.json").write_text(content)
    models = {model.name: model for model in catalog.installed()}
    assert list(models) == [DEFAULT, "org/index"]
    assert "damaged" in (models["org/index"].problem or "")


def test_a_prepared_model_is_found_by_its_name(data: Path) -> None:
    folder = prepared(data, "converted")
    assert catalog.resolve("converted") == ModelRef("converted", Kind.FOLDER, folder)


def test_remove_a_prepared_model(data: Path) -> None:
    prepared(data, "converted")
    catalog.remove("converted")
    assert [model.name for model in catalog.installed()] == [DEFAULT]
    assert not (data / "models" / "converted").exists()


def test_remove_a_hub_model_and_no_other(tmp_path: Path) -> None:
    cached(tmp_path, "org/one")
    cached(tmp_path, "org/two")
    catalog.remove("org/one")
    assert [model.name for model in hub.cached_models()] == ["org/two"]


def test_remove_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "mine")
    with pytest.raises(ModelError, match="your own"):
        catalog.remove(str(folder))
    assert (folder / "config.json").is_file()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nonsense", "lists what can be removed$"),
        ("org/absent", "lists what can be removed$"),
        ("", "your own"),
        ("..", "your own"),
        (DEFAULT, "not on this disk"),
    ],
)
def test_remove_of_nothing(name: str, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        catalog.remove(name)


def test_looking_around_imports_no_mlx() -> None:
    script = (
        "import sys\n"
        "from engine.models import catalog\n"
        "catalog.installed(); catalog.resolve(None); catalog.resolve('a/b')\n"
        "sys.exit(' '.join({'mlx', 'mlx_lm', 'transformers', 'torch'} & set(sys.modules)))\n"
    )
    root = Path(__file__).resolve().parents[2]
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
    )
    assert finished.stderr.strip() == ""
