"""Series of numbers as a picture: small charts one below the other, in SVG."""

from __future__ import annotations

from typing import List, Sequence, Tuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, GAP = 720, 70, 150, 26

STYLE = "text{font:12px sans-serif;fill:#333}polyline{fill:none;stroke:#06c;stroke-width:1.5}rect{fill:#f3f3f3}"


def svg(title: str, charts: Sequence[Tuple[str, Sequence[float]]]) -> str:
    """A picture.

    Args:
        title: Above all of it.
        charts: Name and values of each; there is at least one value. The quarters that are compared are shaded.
    """
    parts: List[str] = [f'<text x="8" y="18">{escape(title)}</text>']
    for number, (name, values) in enumerate(charts):
        parts.append(_chart(name, values, GAP + number * (HEIGHT + GAP)))
    height = GAP + len(charts) * (HEIGHT + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 8} {height}"><style>{STYLE}</style>\n'
        + "\n".join(parts) + "\n</svg>\n"
    )


def _chart(name: str, values: Sequence[float], top: int) -> str:
    highest = max(values) or 1.0  # the axis begins at 0: else noise looks like growth
    step = WIDTH / max(1, len(values) - 1)
    points = " ".join(
        f"{LEFT + place * step:.1f},{top + HEIGHT * (1 - value / highest):.1f}" for place, value in enumerate(values)
    )
    shades = "".join(
        f'<rect x="{LEFT + WIDTH * start:.0f}" y="{top}" width="{WIDTH / 4:.0f}" height="{HEIGHT}"/>'
        for start in (0.25, 0.75)
    )
    return (
        f'{shades}<text x="8" y="{top + HEIGHT / 2:.0f}">{escape(name)}</text>'
        f'<text x="{LEFT - 8}" y="{top + 10}" text-anchor="end">{highest:.4g}</text>'
        f'<text x="{LEFT - 8}" y="{top + HEIGHT}" text-anchor="end">0</text><polyline points="{points}"/>'
    )
