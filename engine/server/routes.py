"""What the server says about its model and its engine, and the engine's live events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from engine.engine import Engine
from engine.events import EngineStatus, Phase, Snapshot, Status, encode
from engine.server.doorbell import Doorbell
from engine.server.errors import ApiError, refused
from engine.server.sse import HEARTBEAT, QUIET_SECONDS, EventStream, frame
from engine.server.wire import ModelCard, ModelList
from engine.types import EngineError

SECONDS_BETWEEN_SENDS = 0.05
"""Twenty sends a second: steps merge in the backlog meanwhile, everything else waits its turn."""

openai_router = APIRouter(tags=["OpenAI"])
engine_router = APIRouter(tags=["engine"])


@openai_router.get("/models", response_model=ModelList)
async def list_models(http: Request) -> ModelList:
    """The one model this engine serves, loaded or still loading."""
    return ModelList(data=[_card(http)])


@openai_router.get("/models/{model_id:path}", response_model=ModelCard)
async def get_model(model_id: str, http: Request) -> ModelCard:
    card = _card(http)
    if model_id != card.id:
        raise ApiError(
            404,
            f"There is no model {model_id!r} here; this engine serves {card.id!r}.",
            param="model",
            code="model_not_found",
        )
    return card


@engine_router.get("/health")
async def health(http: Request) -> JSONResponse:
    """200 once the model is loaded, 503 before and after."""
    engine: Engine = http.app.state.engine
    state = engine.snapshot()
    status = 200 if state.status is EngineStatus.OK else 503
    return JSONResponse(_health(state, http.app.state.model_id), status)


@engine_router.get("/engine/state")
async def engine_state(http: Request) -> dict[str, Any]:
    """The engine's whole state, as the event that opens every subscription."""
    engine: Engine = http.app.state.engine
    return encode(engine.snapshot())


@engine_router.get("/engine/events")
async def engine_events(http: Request) -> EventStream:
    """A snapshot, then every event as it happens."""
    return EventStream(_event_frames(http.app.state.engine))


@engine_router.post("/engine/cancel/{request_id}")
async def cancel(request_id: str, http: Request) -> dict[str, Any]:
    """End a queued or running request; its client gets what there is and a `cancelled` error."""
    engine: Engine = http.app.state.engine
    if not engine.cancel(request_id):
        raise ApiError(
            404, f"No queued or running request has the id {request_id!r}.", code="unknown_request"
        )
    return {"id": request_id, "cancelled": True}


@engine_router.post("/engine/pause")
async def pause(http: Request) -> dict[str, Any]:
    """Hold admissions: running requests go on, new ones are taken and wait in the queue."""
    return _paused(http, True)


@engine_router.post("/engine/resume")
async def resume(http: Request) -> dict[str, Any]:
    """Admit again, in order of arrival."""
    return _paused(http, False)


async def _event_frames(engine: Engine) -> AsyncIterator[bytes]:
    bell = Doorbell()
    subscription = engine.subscribe(bell.ring)
    bell.ring()
    try:
        while True:
            if not await bell.wait(QUIET_SECONDS):
                yield HEARTBEAT
                continue
            for event in subscription.drain():
                yield frame(encode(event))
                if isinstance(event, Status | Snapshot) and event.status is EngineStatus.STOPPING:
                    return
            await asyncio.sleep(SECONDS_BETWEEN_SENDS)
    finally:
        subscription.close()


def _paused(http: Request, paused: bool) -> dict[str, Any]:
    engine: Engine = http.app.state.engine
    try:
        engine.pause(paused)
    except EngineError as error:
        raise refused(error) from error
    return {"paused": paused}


def _card(http: Request) -> ModelCard:
    engine: Engine = http.app.state.engine
    model = engine.model
    return ModelCard(
        id=http.app.state.model_id,
        created=http.app.state.started,
        context_length=model.info.context if model else None,
    )


def _health(state: Snapshot, model_id: str) -> dict[str, Any]:
    waiting = sum(request.phase is Phase.QUEUED for request in state.requests)
    running = sum(request.phase in (Phase.PREFILL, Phase.DECODE) for request in state.requests)
    return {
        "status": state.status,
        "error": state.error,
        "paused": state.paused,
        "progress": asdict(state.progress) if state.progress else None,
        "model": model_id,
        "slots": state.slots,
        "running": running,
        "queue": waiting,
        "queue_limit": state.queue_limit,
        "capabilities": [asdict(capability) for capability in state.capabilities],
        "speculation": asdict(state.speculation) if state.speculation else None,
        "pid": state.pid,
        "version": version("dspark-tui"),
    }
