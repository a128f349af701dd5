"""The race as bars: tokens/s and growth of memory, a group a size and number of ranks. SVG, so
that it needs no library and a README shows it."""

from html import escape
from pathlib import Path

BAR, GAP, LEFT, WIDTH = 16, 30, 170, 330
OURS, OTHERS = "#2563eb", "#9ca3af"


def _bars(rows: list[dict], value, unit: str, x: int, y: int) -> list[str]:
    measured = [(index, row) for index, row in enumerate(rows) if value(row) is not None]
    most = max((value(row) for _, row in measured), default=1) or 1
    parts = []
    for index, row in measured:
        top, length = y + index * BAR, WIDTH * value(row) / most
        color = OURS if row["engine"].startswith("shardlight") else OTHERS
        parts.append(
            f'<rect x="{x}" y="{top + 2}" width="{length:.1f}" height="{BAR - 4}" fill="{color}"/>'
            f'<text x="{x + length + 4:.1f}" y="{top + 12}">{value(row):.0f} {unit}</text>'
        )
    return parts


def write_chart(path: Path, groups: list[tuple[str, list[dict], int]]) -> None:
    """`groups`: a title, rows as race.py makes them, and the tokens of a step of all ranks."""
    parts, y = [], 24
    for title, rows, tokens in groups:
        parts.append(f'<text x="4" y="{y}" font-weight="bold">{escape(title)}</text>')
        y += 8
        for index, row in enumerate(rows):
            parts.append(f'<text x="4" y="{y + index * BAR + 12}">{escape(row["engine"])}</text>')
        parts += _bars(rows, lambda row, n=tokens: n / row["step_ms"] * 1e3, "tokens/s", LEFT, y)
        x = LEFT + WIDTH + 110
        parts += _bars(rows, lambda row: row["growth"] and row["growth"] / 1e6, "MB", x, y)
        y += len(rows) * BAR + GAP
    width = LEFT + 2 * (WIDTH + 110)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        + "".join(parts)
        + "</svg>\n"
    )
