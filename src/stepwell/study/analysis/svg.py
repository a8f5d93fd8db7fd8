"""Plots as inline SVG: drawn by hand, coloured by the page's style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 640
_LEFT = 52
_BOTTOM = 26
_TOP = 10
_MAX_LABELS = 8


@dataclass(frozen=True, slots=True)
class Series:
    """One colour of a plot."""

    name: str
    style: str
    """Class in the style sheet."""
    values: Sequence[int]


def stacked_bars(
    title: str, labels: Sequence[str], series: Sequence[Series], height: int = 200
) -> str:
    """Return bars that stand on each other, one stack for each label. All texts are escaped."""
    top = max((sum(values) for values in zip(*(s.values for s in series), strict=True)), default=0)
    inner = height - _BOTTOM - _TOP
    scale = inner / top if top else 0.0
    step = (_WIDTH - _LEFT - 8) / max(1, len(labels))
    parts = [_axis(top, height)]
    for place, label in enumerate(labels):
        x, y = _LEFT + place * step, float(height - _BOTTOM)
        said = "; ".join(f"{s.name} {s.values[place]:,.0f}" for s in series)
        bars = []
        for one in series:
            tall = one.values[place] * scale
            y -= tall
            if tall > 0:
                bars.append(
                    f'<rect class="{one.style}" x="{x + step * 0.08:.1f}" y="{y:.1f}"'
                    f' width="{step * 0.84:.1f}" height="{tall:.1f}"/>'
                )
        parts.append(f"<g><title>{escape(label)}: {escape(said)}</title>{''.join(bars)}</g>")
    parts += _labels(labels, step, height)
    legend = " ".join(f'<span class="key {one.style}"></span>{escape(one.name)}' for one in series)
    return _figure(title, "".join(parts), height, legend)


def _axis(top: int, height: int) -> str:
    lines = []
    inner = height - _BOTTOM - _TOP
    # Things are counted: there is no half of one.
    for value in sorted({0, top // 2, top}):
        y = height - _BOTTOM - (inner * value / top if top else 0.0)
        lines.append(
            f'<line class="rule" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{_short(value)}</text>"
        )
    return "".join(lines)


def _labels(labels: Sequence[str], step: float, height: int) -> list[str]:
    every = max(1, -(-len(labels) // _MAX_LABELS))
    return [
        f'<text class="tick" x="{_LEFT + (place + 0.5) * step:.1f}" y="{height - 8}"'
        f' text-anchor="middle">{escape(label)}</text>'
        for place, label in enumerate(labels)
        if place % every == 0
    ]


def _figure(title: str, inside: str, height: int, legend: str) -> str:
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f'{inside}</svg><p class="legend">{legend}</p></figure>'
    )


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
