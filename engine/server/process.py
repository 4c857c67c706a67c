"""An engine process from its options to its exit code."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.distributed.hosts import Hosts, HostsError
from engine.events import Progress
from engine.exit_codes import Exit
from engine.models import catalog
from engine.models.errors import ModelError
from engine.proof.recording import RecordingError, check_path
from engine.server.listener import Listener, ListenError, listen
from engine.server.logs import open_log
from engine.server.options import ServeOptions
from engine.server.report import Reporter
from engine.types import EngineSettings

if TYPE_CHECKING:
    from engine.models.load import LoadedModel

log = logging.getLogger(__name__)


class StartError(Exception):
    """Something about the options or this machine that has to be mended first; one line."""


@dataclass(frozen=True, slots=True)
class ModelLoader:
    """Fetches the model if need be and loads it, on the engine's thread."""

    ref: catalog.ModelRef
    precision: str
    kv_bits: int | None = None

    def __call__(self, report: Callable[[Progress], None]) -> LoadedModel:
        from engine.models.load import load

        folder = catalog.ensure(self.ref, report)
        return load(folder, self.ref.name, self.precision, report, self.kv_bits)


def run(options: ServeOptions, reporter: Reporter) -> int:
    """Serve until a signal or the parent's end; the process's exit code.

    Problems are reported in one line and never raised.
    """
    log_path = open_log(options.log)
    try:
        _check(options, log_path)
        ref = catalog.resolve(options.model)
        with listen(options) as listener:
            return _serve(options, ref, listener, reporter, log_path)
    except (ModelError, ListenError, RecordingError, StartError, HostsError) as error:
        reporter.failed(str(error), None)
        return Exit.UNUSABLE
    except KeyboardInterrupt:
        return Exit.DONE
    except Exception as error:
        log.exception("the engine process failed")
        reporter.failed(f"the engine failed: {error}", log_path)
        return Exit.FAILED


def _check(options: ServeOptions, log_path: Path | None) -> None:
    """What would otherwise fail late, or in silence. A worker runs without a log all the same:
    its workbench has said so."""
    if options.log and log_path is None and not options.parent_pipe:
        raise StartError(f"can't write the log {options.log}; name another file with --log")
    if options.pipeline and options.distributed is None:
        raise StartError("--pipeline is how ranks share a model; name them with --distributed")
    if options.record:
        check_path(options.record)
    temporary = os.environ.get("TMPDIR")
    if temporary and not Path(temporary).is_dir():
        raise StartError(f"TMPDIR names {temporary}, which is no folder; make it or unset TMPDIR")


def _serve(
    options: ServeOptions,
    ref: catalog.ModelRef,
    listener: Listener,
    reporter: Reporter,
    log_path: Path | None,
) -> int:
    # MLX binds its BLAS when it is first imported: prepare that, then import what needs MLX.
    from engine.hardware import blas, kernels

    blas.prepare()
    kernels.prepare()
    from engine.engine import Engine
    from engine.server.app import create_app
    from engine.server.host import Host
    from engine.server.recording import recorded

    settings = EngineSettings(
        options.max_batch,
        options.queue,
        speculate=options.speculate,
        drafter=options.drafter,
        drafter_bits=options.drafter_bits,
        max_draft=options.max_draft,
        confidence=options.confidence,
        prefix_cache=options.prefix_cache,
        stuck_after=options.stuck_after,
    )
    if options.distributed is None:
        engine = Engine(ModelLoader(ref, options.precision, options.kv_bits), settings)
    else:
        from engine.distributed.engine import DistributedEngine

        engine = DistributedEngine(
            *(ref, options.precision, options.kv_bits, settings),
            hosts=Hosts.read(options.distributed),
            pipeline=options.pipeline,
            on_loss=lambda error: reporter.failed(error, log_path),
        )
    app = create_app(engine, ref.name, listener.policy, log_prompts=options.log_prompts)
    host = Host(
        app, engine, reporter, listener.url, options.parent_pipe, log_path, strict=options.strict
    )
    with recorded(engine, options.record):
        return host.serve_until_stopped(listener.socket)
