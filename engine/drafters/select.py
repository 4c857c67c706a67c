"""Which drafter a loaded model gets, and why."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cache import BatchCache, CachePlan
from engine.drafters.base import Drafter
from engine.drafters.ngram import NgramDrafter
from engine.events import Capability
from engine.models import hub
from engine.models.capabilities import Feature, stated
from engine.models.errors import ModelError
from engine.models.load import LoadedModel
from engine.models.prepare import ProgressSink
from engine.types import EngineSettings, Speculate

_LOOKUP = "looked up in each row's own text"
_UNUSED = "a drafter that is named guesses only with --speculate dspark or auto"


@dataclass(frozen=True, slots=True)
class Selected:
    """A drafter, or None and in `stated` why there is none."""

    drafter: Drafter | None
    stated: Capability


def select(
    plan: CachePlan, model: LoadedModel, settings: EngineSettings, report: ProgressSink
) -> Selected:
    """Never raises: what can't be had is refused, or done without where the choice was ours."""
    asked = settings.speculate
    if asked is Speculate.OFF and settings.drafter:
        return Selected(None, _refused(settings.drafter, _UNUSED))
    if asked is Speculate.OFF:
        return Selected(None, stated(Feature.SPECULATION, "off", "off", "not asked for"))
    if obstacle := _obstacle(plan):
        return Selected(None, _refused(asked, obstacle))
    if asked is Speculate.NGRAM:
        unused = f"; {_UNUSED}" if settings.drafter else ""
        return _chosen(asked, NgramDrafter(), _LOOKUP, settings, unused)
    try:
        return _chosen(asked, *_dspark(model, settings, report), settings)
    except ModelError as error:
        if asked is Speculate.DSPARK:
            return Selected(None, _refused(asked, str(error)))
        without = f"; no model drafts: {error}"
        return _chosen(asked, NgramDrafter(), _LOOKUP, settings, without)


def _obstacle(plan: CachePlan) -> str:
    """Why this model's rows can't take back tokens they read; "" if they can."""
    if plan.alone:
        return plan.alone
    cache = plan.new()
    if not plan.ragged and isinstance(cache, BatchCache) and cache.recurrent:
        return "the model's code lets padding into its recurrent state"
    return ""


def _dspark(
    model: LoadedModel, settings: EngineSettings, report: ProgressSink
) -> tuple[Drafter, str]:
    """The drafter that was named, or the one known for this model. Raises ModelError."""
    if model.shared:
        raise ModelError("ranks share no second model")
    from engine.drafters.dspark.drafter import DSpark
    from engine.drafters.dspark.load import load_model
    from engine.drafters.registry import drafter_folder, known_drafter

    name = settings.drafter or known_drafter(model.info.id)
    if name is None:
        raise ModelError(f"none is known for {model.info.id}, name one with --drafter")
    own_choice = settings.drafter is None and settings.speculate is Speculate.AUTO
    if own_choice and hub.cached_folder(name) is None:
        raise ModelError(f"{name} isn't here, --speculate dspark fetches it")
    folder = drafter_folder(name, report)
    loaded = load_model(folder, model, settings.drafter_bits)
    return DSpark(loaded, model.model, settings.confidence), f"drafted by {name}"


def _chosen(
    asked: Speculate, drafter: Drafter, origin: str, settings: EngineSettings, note: str = ""
) -> Selected:
    length = f"up to {settings.max_draft}" if settings.max_draft else "as many as pay here"
    why = f"tokens are {origin}, {length}{note}"
    return Selected(drafter, stated(Feature.SPECULATION, asked, drafter.name, why))


def _refused(asked: str, why: str) -> Capability:
    return stated(Feature.SPECULATION, asked, "off", why, refused=asked is not Speculate.AUTO)
