"""`dspark-tui bench --flips`: how often a batch changes a greedy token, and at what margin."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dspark_tui import __version__
from dspark_tui.commands.bench_order import BenchError, Order
from dspark_tui.commands.bench_progress import Progress
from dspark_tui.commands.bench_run import endpoint, machine
from engine.proof.endpoint import UnusableServerError
from engine.proof.flips import FlipReport, FlipTest

FLIPS_SHOWN = 12


async def flipped(order: Order, command: str, progress: Progress) -> FlipReport:
    """Carry the order out. command: the line that was typed. Raises BenchError."""
    plan = order.plan
    async with endpoint(order, progress) as server:
        test = FlipTest(server, plan.widths, plan.tokens, plan.repeat, progress.stage)
        try:
            widths = await test.run()
        except UnusableServerError as error:
            raise BenchError(f"{order.place}: {error}") from None
        return FlipReport(
            command=command,
            tool=f"dspark-tui {__version__}",
            machine=machine(),
            server=order.place,
            model=server.model,
            tokens_each=plan.tokens,
            closest=test.closest,
            widths=widths,
        )


def flip_rows(report: FlipReport) -> Iterator[RenderableType]:
    """The report, part by part."""
    yield Text.assemble((report.server, "bold"), f"  model {report.model}")
    yield Text(f"{report.tool}, {report.machine}", style="dim")
    yield Text(
        f"\nGreedy answers of {report.tokens_each} tokens, compared with the same answers alone"
        f" up to their first difference.\nThe closest call alone: {report.closest:.4f} nats."
    )
    table = Table(box=None, pad_edge=True)
    for title in ("N", "answers", "tokens compared", "flips", "in 1000 tokens"):
        table.add_column(title, justify="right", header_style="dim")
    for width in report.widths:
        cells = (width.n, width.answers, width.tokens, len(width.flips))
        table.add_row(*map(str, cells), f"{width.per_thousand:.2f}")
    yield Text()
    yield table
    yield from _flips(report)
    yield Text(f"\n{report.command}", style="dim", overflow="fold")


def _flips(report: FlipReport) -> Iterator[Text]:
    flips = [(width.n, flip) for width in report.widths for flip in width.flips]
    for n, flip in flips[:FLIPS_SHOWN]:
        yield Text(
            f"  N={n}, token {flip.position + 1}: {flip.alone!r} alone, {flip.batched!r} in the "
            f"batch, {flip.margin:.4f} nats apart"
        )
    if len(flips) > FLIPS_SHOWN:
        yield Text(f"  and {len(flips) - FLIPS_SHOWN} more")
