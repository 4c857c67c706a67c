"""`/metrics`, `/slots` and `/props`: for tools that watch llama.cpp's server or vLLM."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel

from engine.engine import Engine
from engine.events import Phase, RequestState, Snapshot
from engine.server.answer import loaded
from engine.server.metrics import Metrics

router = APIRouter(tags=["monitoring"])


class NextToken(BaseModel):
    n_decoded: int
    n_remain: int
    has_next_token: bool


class Slot(BaseModel):
    """One of the batch's places, in llama.cpp's words; request, source and phase are ours."""

    id: int
    n_ctx: int
    speculative: bool = False
    is_processing: bool
    next_token: NextToken
    n_prompt_tokens: int = 0
    n_prompt_tokens_cache: int = 0
    n_prompt_tokens_processed: int = 0
    request: str | None = None
    source: str | None = None
    phase: Phase | None = None


class GenerationSettings(BaseModel):
    n_ctx: int


class Modalities(BaseModel):
    vision: bool = False
    audio: bool = False


class Props(BaseModel):
    """The server, in llama.cpp's words."""

    default_generation_settings: GenerationSettings
    total_slots: int
    model_alias: str
    model_path: str
    chat_template: str
    modalities: Modalities = Modalities()
    build_info: str
    is_sleeping: bool = False


@router.get("/metrics", response_class=Response)
async def metrics(http: Request) -> Response:
    """Load, tokens and times, for Prometheus."""
    engine: Engine = http.app.state.engine
    counted: Metrics = http.app.state.metrics
    text = counted.text(engine.snapshot(), engine.kv_use)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.get("/slots")
async def slots(http: Request) -> list[Slot]:
    """What each slot is doing; never a prompt or an answer."""
    engine: Engine = http.app.state.engine
    loaded(engine)
    state = engine.snapshot()
    return [_slot(place, state, engine.longest_row) for place in range(state.slots)]


@router.get("/props")
async def props(http: Request) -> Props:
    engine: Engine = http.app.state.engine
    model = loaded(engine)
    return Props(
        default_generation_settings=GenerationSettings(n_ctx=engine.longest_row),
        total_slots=engine.snapshot().slots,
        model_alias=model.info.id,
        model_path=model.info.id,
        chat_template=model.tokenizer.template,
        build_info=f"dspark-tui {version('dspark-tui')}",
    )


def _slot(place: int, state: Snapshot, context: int) -> Slot:
    busy = [request for request in state.requests if _holds(request, place)]
    if not busy:
        idle = NextToken(n_decoded=0, n_remain=0, has_next_token=False)
        return Slot(id=place, n_ctx=context, is_processing=False, next_token=idle)
    request = busy[0]
    remaining = request.max_tokens - request.tokens
    return Slot(
        id=place,
        n_ctx=context,
        is_processing=True,
        next_token=NextToken(
            n_decoded=request.tokens, n_remain=remaining, has_next_token=remaining > 0
        ),
        n_prompt_tokens=request.prompt_tokens,
        n_prompt_tokens_cache=request.cached_tokens,
        n_prompt_tokens_processed=request.prefilled,
        request=request.request,
        source=request.source,
        phase=request.phase,
    )


def _holds(request: RequestState, place: int) -> bool:
    return request.slot == place and request.phase in (Phase.PREFILL, Phase.DECODE)
