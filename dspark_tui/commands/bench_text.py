"""A bench's report as text, for a terminal or a pipe; and two of them side by side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dspark_tui.appearance.glyphs import Glyphs
from dspark_tui.commands.bench_lanes import lane_rows
from dspark_tui.commands.bench_progress import BESIDE_LANES
from engine.proof.probes import Kind, Round
from engine.proof.report import FindingReport, Report, WidthReport
from engine.proof.verdict import Name

COLOURS = {Name.BATCHED: "bold green", Name.INCONCLUSIVE: "bold yellow", Name.MIXED: "bold yellow"}
ENDS_SHOWN = 8


def report_rows(report: Report, width: int, glyphs: Glyphs) -> Iterator[RenderableType]:
    """The report, part by part, for so many columns."""
    yield Text.assemble((report.server, "bold"), f"  model {report.model}")
    yield Text(f"{report.tool}, {report.machine}, {report.created}", style="dim")
    yield Text()
    for finding in report.findings:
        yield _finding(finding)
    if report.widths:
        yield _heading("Completion times")
        yield _width_table(report.widths)
        yield Text("tok/s is all tokens over the time to the last completion", style="dim")
    if round_ := _widest(report):
        yield _heading(f"Lanes, {round_.title} ({glyphs.queued} waits, {glyphs.decode} writes)")
        yield from lane_rows(round_, 0.0, max(10, width - BESIDE_LANES), glyphs)
    if report.probes:
        yield _heading("Probes")
        yield _pairs([(probe.kind.value, probe.sentence) for probe in report.probes])
    yield _heading("Notes")
    yield from (_item(note) for note in report.notes)
    yield _heading("Not tested")
    yield from (_item(question) for question in report.not_tested)
    yield Text()
    yield Text(report.command, style="dim", overflow="fold")


def comparison_rows(first: Report, second: Report) -> Iterator[RenderableType]:
    """Two reports side by side; ratios are the second's figure over the first's."""
    for letter, report in (("A", first), ("B", second)):
        yield Text.assemble((letter, "bold"), f"  {report.server}  {report.model}  ")
        yield Padding(
            _finding(FindingReport(name=report.verdict, sentence=report.sentence)), (0, 3)
        )
    table = _table("N", "A tok/s", "B tok/s", "B over A", "A last end", "B last end", "A", "B")
    theirs = {width.n: width for width in second.widths}
    for a in first.widths:
        if b := theirs.get(a.n):
            ratio = b.tokens_per_second / a.tokens_per_second if a.tokens_per_second else 0.0
            table.add_row(
                str(a.n),
                f"{a.tokens_per_second:.1f}",
                f"{b.tokens_per_second:.1f}",
                f"{ratio:.2f}x",
                f"{a.last_end:.2f} s",
                f"{b.last_end:.2f} s",
                a.verdict or "baseline",
                b.verdict or "baseline",
            )
    yield Text()
    yield table
    if first.tokens != second.tokens:
        lengths = f"{first.tokens} and {second.tokens}"
        yield Text(f"Their answers have different lengths: {lengths} tokens.", style="yellow")


def _finding(finding: FindingReport) -> Text:
    name = f"{finding.name.upper()} "
    if finding.width:
        name = f"{finding.name.upper()} of {finding.width} "
    return Text.assemble((name, COLOURS.get(finding.name, "bold red")), finding.sentence)


def _width_table(widths: list[WidthReport]) -> Table:
    table = _table("N", "tok/s", "climb", "first token", "last end", "completions, s", "verdict")
    for width in widths:
        ends = " ".join(f"{end:.2f}" for end in width.ends[:ENDS_SHOWN])
        more = f" and {len(width.ends) - ENDS_SHOWN} more" if len(width.ends) > ENDS_SHOWN else ""
        table.add_row(
            str(width.n),
            f"{width.tokens_per_second:.1f}",
            "" if width.climb is None else f"{width.climb:.2f}x",
            f"{width.ttft:.2f} s",
            f"{width.last_end:.2f} s",
            ends + more,
            width.verdict or "baseline",
        )
    return table


def _widest(report: Report) -> Round | None:
    sweeps = [r for r in report.rounds if r.kind is Kind.SWEEP and r.done]
    widest = max(sweeps, key=lambda r: (len(r.requests), r.repeat), default=None)
    return widest.round() if widest else None


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _item(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def _pairs(rows: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(f"  {name}", Text(text))
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=True)
    for title in titles:
        words = title in ("verdict", "completions, s", "A", "B")
        table.add_column(title, justify="left" if words else "right", header_style="dim")
    return table
