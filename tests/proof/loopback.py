"""A server of known behaviour on a real port: HTTP and SSE written by hand, faults included.

As a program it is a process of its own and logs when it got each request and when it had answered
it: `python -m tests.proof.loopback LOG`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.proof.traffic import Ask, Record
from tests.proof.simulated import CONSTANT, Behaviour, SimulatedServer

POLL = 0.001
JSON = "application/json"


class Fault(StrEnum):
    """What goes wrong with an answer."""

    NONE = "none"
    ERROR_500 = "500"
    UNAUTHORIZED = "401"
    NO_MODEL = "404"
    ENDLESS = "endless"
    SILENT = "silent"  # the answer begins and nothing more comes
    DROPS = "drops"  # the connection closes in the middle
    GARBAGE = "garbage"
    HTML = "html"
    ODD_JSON = "odd json"
    ERROR_FRAME = "error frame"


@dataclass(frozen=True)
class Manners:
    """How the server speaks. spare: requests served well before the fault sets in. refused: options
    it answers with 400. usage: whether it counts. ends_early: tokens after which an answer stops
    unless told to go on. ignored: options it takes and does nothing about. ends: its end token by
    `/tokenize`, None where it serves none. models: whether it lists any."""

    fault: Fault = Fault.NONE
    spare: int = 0
    refused: frozenset[str] = frozenset()
    usage: bool = True
    ends_early: int | None = None
    ignored: frozenset[str] = frozenset()
    ends: int | None = None
    models: bool = True


@dataclass
class Logged:
    """A request by the server's own clock."""

    arrived: float
    first: float
    answered: float
    tokens: int


@dataclass(eq=False)
class LoopbackServer:
    """Serves until it is closed. asked: the bodies of all requests."""

    behaviour: Behaviour = CONSTANT
    manners: Manners = Manners()
    asked: list[dict[str, Any]] = field(default_factory=list)
    log: list[Logged] = field(default_factory=list)
    url: str = ""

    async def serve(self, ready: threading.Event | None = None) -> None:
        async with SimulatedServer(self.behaviour, seed=1) as self._engine:
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=512)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            if ready:
                ready.set()
            async with server:
                await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._request(head.decode().splitlines(), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _request(
        self, head: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        arrived = asyncio.get_running_loop().time()
        lengths = [line for line in head if line.lower().startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0].split(":")[1])) if lengths else b""
        if head[0].startswith("GET"):
            models = {"data": [{"id": "simulated"}]} if self.manners.models else {"models": []}
            _whole(writer, 200, json.dumps(models))
        elif "/tokenize" in head[0]:
            self._tokenize(json.loads(body)["content"], writer)
        else:
            asked = json.loads(body)
            self.asked.append(asked)
            await self._answer(asked, arrived, writer)
        await writer.drain()

    def _tokenize(self, text: str, writer: asyncio.StreamWriter) -> None:
        """Only `</s>` is one token here."""
        if self.manners.ends is None:
            _whole(writer, 404, _error("no such path"))
        else:
            tokens = [self.manners.ends] if text == "</s>" else [1, 2, 3]
            _whole(writer, 200, json.dumps({"tokens": tokens}))

    async def _answer(
        self, asked: dict[str, Any], arrived: float, writer: asyncio.StreamWriter
    ) -> None:
        refused = self.manners.refused & asked.keys()
        fault = self.manners.fault if len(self.asked) > self.manners.spare else Fault.NONE
        if refused:
            _whole(writer, 400, _error(f"{min(refused)} is not supported"))
        elif fault in (Fault.ERROR_500, Fault.UNAUTHORIZED, Fault.NO_MODEL):
            _whole(writer, int(fault), _error("this is how it is"))
        elif fault is Fault.HTML:
            _whole(writer, 200, "<html>Welcome</html>", "text/html")
        elif fault is Fault.ODD_JSON:
            _whole(writer, 200, '{"choices": "none"}')
        elif asked.get("stream"):
            await self._stream(asked, arrived, fault, writer)
        else:
            record = self._record(asked)
            await self._engine.ask(record)
            message = {"message": {"role": "assistant", "content": "word " * record.tokens}}
            _whole(writer, 200, json.dumps({"choices": [message], "usage": self._usage(record)}))

    async def _stream(
        self, asked: dict[str, Any], arrived: float, fault: Fault, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        _frame(writer, _delta({"role": "assistant", "content": ""}))
        if fault is not Fault.NONE:
            await self._misbehave(fault, writer)
            return
        record = self._record(asked)
        work = asyncio.create_task(self._engine.ask(record))
        sent = 0
        while not work.done() or sent < len(record.arrivals):
            visible = work.done() or not self.behaviour.bursts
            for _ in record.arrivals[sent:] if visible else ():
                text = "word " * record.tokens if self.behaviour.bursts else "word "
                _frame(writer, _delta({"content": text}))
                sent += 1
            await writer.drain()
            await asyncio.sleep(POLL)
        _frame(writer, _delta({}, "length"))
        self.log.append(
            Logged(
                arrived,
                record.arrivals[0],
                asyncio.get_running_loop().time(),
                record.tokens,
            )
        )
        if self.manners.usage and asked.get("stream_options"):
            _frame(writer, json.dumps({"choices": [], "usage": self._usage(record)}))
        _frame(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")

    async def _misbehave(self, fault: Fault, writer: asyncio.StreamWriter) -> None:
        match fault:
            case Fault.ENDLESS:
                while not writer.is_closing():
                    _frame(writer, _delta({"content": "more "}))
                    await writer.drain()
                    await asyncio.sleep(0.01)
            case Fault.SILENT:
                await writer.drain()
                await asyncio.sleep(3600)
            case Fault.GARBAGE:
                _frame(writer, "{{{ not json")
            case Fault.ERROR_FRAME:
                _frame(writer, _error("out of memory"))
            case _:
                _frame(writer, _delta({"content": "it was "}))
        await writer.drain()
        raise ConnectionError  # hangs up

    def _record(self, asked: dict[str, Any]) -> Record:
        tokens = int(asked["max_tokens"])
        told = {"ignore_eos", "logit_bias"} & asked.keys() - self.manners.ignored
        if self.manners.ends_early and not told:
            tokens = min(tokens, self.manners.ends_early + len(self.asked) % 5)
        return Record(Ask("", tokens, stream=bool(asked.get("stream"))))

    def _usage(self, record: Record) -> dict[str, Any] | None:
        return {"prompt_tokens": 20, "completion_tokens": record.tokens}


class ThreadedLoopback:
    """A LoopbackServer in a thread, as a context manager."""

    def __init__(self, behaviour: Behaviour = CONSTANT, manners: Manners = Manners()) -> None:
        self.server = LoopbackServer(behaviour, manners)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        assert self._ready.wait(30)
        return self.server

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _serve(self) -> None:
        self._task = self._loop.create_task(self.server.serve(self._ready))
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(asyncio.wait([self._task]))


def _whole(writer: asyncio.StreamWriter, status: int, text: str, kind: str = JSON) -> None:
    body = text.encode()
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def _frame(writer: asyncio.StreamWriter, data: str) -> None:
    body = f"data: {data}\n\n".encode()
    writer.write(f"{len(body):x}\r\n".encode() + body + b"\r\n")


def _delta(delta: dict[str, str], reason: str | None = None) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def _error(message: str) -> str:
    return json.dumps({"error": {"message": message}})


async def _run(log: Path) -> None:
    """Serve 5 ms steps on a port told on stdout; the log is written when stdin closes."""
    server = LoopbackServer(Behaviour(step=0.005, prompt=0.0, noise=0.0, network=0.0))
    ready = threading.Event()
    task = asyncio.create_task(server.serve(ready))
    while not ready.is_set():
        await asyncio.sleep(0.01)
    print(server.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    task.cancel()
    lines = (json.dumps(logged.__dict__) for logged in server.log)
    log.write_text("\n".join(lines))


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1])))
