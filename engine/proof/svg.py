"""A report's widest burst as a picture: a lane for each request, and the verdict above them."""

from __future__ import annotations

from xml.sax.saxutils import escape

from engine.proof.probes import Kind
from engine.proof.report import Report, RequestReport, WidthReport

WIDTH, MARGIN = 760, 24
LANE, BAR = 22, 14
LABELS, FIGURES = 40, 120
TOP = 92
STYLE = """
.card { fill: #ffffff } text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #24292f }
.name { font-weight: bold; font-size: 18px } .dim { fill: #6e7781 }
.wait { fill: #d0d7de } .write { fill: #2da44e } .failed { fill: #cf222e }
@media (prefers-color-scheme: dark) {
.card { fill: #0d1117 } text { fill: #e6edf3 } .dim { fill: #8d96a0 } .wait { fill: #30363d }
}"""


def picture(report: Report) -> str:
    """An SVG document that stands alone."""
    requests = _widest(report)
    end = max((request.end or 0.0 for request in requests), default=0.0) or 1.0
    lanes = [
        part
        for row, request in enumerate(requests)
        for part in _lane(request, TOP + row * LANE, end, row + 1)
    ]
    below = TOP + len(requests) * LANE + 26
    table = [_figures(width, below + row * 18) for row, width in enumerate(report.widths)]
    height = below + len(table) * 18 + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(f'{report.verdict}: {report.sentence}')}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" width="{WIDTH}" height="{height}" rx="8"/>',
        _text(MARGIN, 36, report.verdict.upper(), "name"),
        _text(MARGIN, 58, f"{report.server}  {report.model}"),
        _text(MARGIN, 78, f"{len(requests)} requests of {report.tokens} tokens at once", "dim"),
        *lanes,
        *table,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _widest(report: Report) -> list[RequestReport]:
    sweeps = [round_ for round_ in report.rounds if round_.kind is Kind.SWEEP and round_.done]
    widest = max(sweeps, key=lambda round_: (len(round_.requests), round_.repeat), default=None)
    return widest.requests if widest else []


def _lane(request: RequestReport, y: int, end: float, number: int) -> list[str]:
    left = MARGIN + LABELS
    scale = (WIDTH - left - FIGURES - MARGIN) / end
    submit = request.submit or 0.0
    stop = request.end if request.end is not None else max([submit, *request.arrivals])
    first = request.first if request.first is not None else stop
    label = f"{stop - submit:.2f} s  {request.tokens} tok"
    bars = [("wait", submit, first), ("failed" if request.error else "write", first, stop)]
    return [
        _text(MARGIN, y + 12, f"r{number}", "dim"),
        *(
            f'<rect class="{kind}" x="{left + start * scale:.1f}" y="{y}" '
            f'width="{max(0.5, (until - start) * scale):.1f}" height="{BAR}"/>'
            for kind, start, until in bars
        ),
        _text(WIDTH - FIGURES - MARGIN + 8, y + 12, label, "dim"),
    ]


def _figures(width: WidthReport, y: int) -> str:
    climb = f"  {width.climb:.2f}x alone" if width.climb is not None else ""
    rate = f"{width.tokens_per_second:.1f} tok/s"
    return _text(MARGIN, y, f"N={width.n:<3} {rate:>14}{climb}  {width.verdict or 'baseline'}")


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" xml:space="preserve"{style}>{escape(text)}</text>'
