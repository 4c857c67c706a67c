"""The HTTP application: routes, error objects and the guard around them."""

from __future__ import annotations

import time

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from engine.engine import Engine
from engine.server import (
    chat,
    completions,
    errors,
    messages,
    monitoring,
    responses,
    routes,
    tokenize,
)
from engine.server.guard import AccessPolicy, Guard
from engine.server.metrics import Metrics


def create_app(
    engine: Engine, model_id: str, policy: AccessPolicy, *, log_prompts: bool = False
) -> FastAPI:
    """The protocol over `engine`. model_id: the name to give while the model still loads."""
    app = FastAPI(title="dspark engine", docs_url=None, redoc_url=None)
    app.state.engine = engine
    app.state.model_id = model_id
    app.state.metrics = Metrics()
    app.state.log_prompts = log_prompts
    app.state.started = int(time.time())
    # OpenAI clients differ on whether the base URL ends in /v1.
    for router in (
        chat.router,
        completions.router,
        responses.router,
        messages.router,
        routes.openai_router,
    ):
        app.include_router(router, prefix="/v1")
        app.include_router(router, include_in_schema=False)
    app.include_router(routes.engine_router)
    app.include_router(tokenize.router)
    app.include_router(monitoring.router)
    errors.install(app)
    app.add_middleware(Guard, policy=policy)
    if policy.origins:
        # Around the guard, so that pages can read its refusals; a preflight carries no key.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(policy.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "X-Dspark-Paused", "Retry-After"],
        )
    return app
