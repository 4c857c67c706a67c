"""Models of the Hugging Face hub, in its own cache, shared with every other program."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.events import Progress
from engine.models.errors import ModelError, one_line
from engine.models.prepare import ProgressSink, refusal

if TYPE_CHECKING:
    from huggingface_hub import CachedRepoInfo, CachedRevisionInfo, HFCacheInfo

PATTERNS = ("*.json", "model*.safetensors", "tokenizer.model", "*.tiktoken", "*.txt", "*.jinja")
"""The files a model needs: no code, and none of the other formats a repository may carry."""

_BYTES_BAR = "Reconstructing"  # the one of the hub's bars that counts bytes written to disk
_TEXT_MODELS = ("ForCausalLM", "ForConditionalGeneration")  # how such architectures' names end


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model in the hub's cache. size: bytes. problem: why it can't be used, None if it can."""

    name: str
    path: Path
    size: int
    problem: str | None


def fetch_hub(name: str, progress: ProgressSink) -> Path:
    """The folder of hub model "org/name", a drafter's too, downloaded if it isn't whole in the
    cache already.

    Raises ModelError.
    """
    from huggingface_hub import snapshot_download

    if (here := cached_folder(name)) is not None:
        return here
    download = _Download(name, progress)
    download.report(0, 0)
    try:
        path = snapshot_download(
            name,
            cache_dir=_folder(),
            allow_patterns=list(PATTERNS),
            tqdm_class=_reporting_bar(download),
        )
    except Exception as error:
        if download.stopped is not None:
            raise download.stopped from None
        raise ModelError(_why(name, error)) from error
    return Path(path)


def cached_models() -> list[CachedModel]:
    """The language models in the hub's cache, by name."""
    cache = _cache()
    repositories = () if cache is None else cache.repos
    models = (_cached(repository) for repository in repositories)
    return sorted((model for model in models if model is not None), key=lambda model: model.name)


def cached_folder(name: str) -> Path | None:
    """The newest snapshot of a repository of models, of whatever architecture, if it is whole."""
    cache = _cache()
    for repository in () if cache is None else cache.repos:
        if repository.repo_id == name and (newest := _newest(repository)) is not None:
            path = newest.snapshot_path
            return path if (path / "config.json").is_file() and _problem(path) is None else None
    return None


def remove_cached(name: str) -> None:
    """Delete a hub model, with all its revisions, from the cache. Raises ModelError."""
    cache = _cache()
    for repository in () if cache is None else cache.repos:
        if repository.repo_type == "model" and repository.repo_id == name:
            # By folder: the hub's own way goes by revision, and copies of a model may share those.
            try:
                shutil.rmtree(repository.repo_path)
            except OSError as error:
                raise ModelError(refusal(_folder(), error, "HF_HOME")) from error


@dataclass
class _Download:
    """Passes progress on and remembers if its hearer ended the download: the hub's threads may
    swallow what is raised in them."""

    name: str
    progress: ProgressSink
    stopped: BaseException | None = None

    def report(self, done: int, total: int) -> None:
        detail = f"{self.name} from the Hugging Face hub"
        try:
            self.progress(Progress("fetch", detail, done, max(done, total), "bytes"))
        except BaseException as error:
            self.stopped = error
            raise


def _reporting_bar(download: _Download) -> type[Any]:
    """A class the hub takes for a tqdm progress bar; it draws nothing."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    class Bar(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            self._counts_bytes = str(options.get("desc", "")).startswith(_BYTES_BAR)
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            if self._counts_bytes:
                download.report(int(self.n), int(self.total or 0))

    return Bar


def _why(name: str, error: Exception) -> str:
    from huggingface_hub import errors

    page = f"https://huggingface.co/{name}"
    if isinstance(error, errors.GatedRepoError):
        return f"{name} is gated: accept its terms at {page}, then run hf auth login"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no model {name}; if it is private, run hf auth login"
    if isinstance(error, errors.HFValidationError):
        return f'"{name}" is no hub model name; write it as org/name'
    if isinstance(error, errors.LocalEntryNotFoundError):
        return (
            f"no network: can't reach the Hugging Face hub for {name}. "
            "Connect and start again, or use a model on this disk with --model FOLDER"
        )
    if isinstance(error, OSError) and not isinstance(error, errors.HfHubHTTPError):
        return refusal(_folder(), error, "HF_HOME")
    return f"can't fetch {name} from the hub: {one_line(error)}"


def _folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _cache() -> HFCacheInfo | None:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        return scan_cache_dir(_folder())
    except CacheNotFound:
        return None


def _cached(repository: CachedRepoInfo) -> CachedModel | None:
    """The newest snapshot of a repository, None unless it is a language model."""
    if (newest := _newest(repository)) is None:
        return None
    path = newest.snapshot_path
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        architectures = tuple(config.get("architectures") or ())
    except (OSError, ValueError, AttributeError):
        return None
    if not any(name.endswith(_TEXT_MODELS) for name in architectures):
        return None
    return CachedModel(repository.repo_id, path, newest.size_on_disk, _problem(path))


def _newest(repository: CachedRepoInfo) -> CachedRevisionInfo | None:
    """A repository's newest snapshot; None of one that holds no model."""
    if repository.repo_type != "model" or not repository.revisions:
        return None
    return max(repository.revisions, key=lambda revision: revision.last_modified)


def _problem(path: Path) -> str | None:
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        has_weights = any(path.glob("model*.safetensors"))
        return None if has_weights else "it has no safetensors weights"
    try:
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return "its list of weights is damaged"
    return None if all((path / s).is_file() for s in shards) else "its download is incomplete"
