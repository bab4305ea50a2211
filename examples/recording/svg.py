"""Draws a transcript as a terminal in SVG. Its lines appear one after the other.

A line is a comment (#), a command ($) or, with two blanks in front, output.
"""
import sys
import textwrap
from html import escape

COLUMNS, ROW, SIZE, LEFT, TOP = 104, 19, 13, 18, 48
COLOURS = {"#": "#8b98a8", "$": "#e6edf3", " ": "#b6c2cf"}
WORDS = {"dropped": "#e3b341", "approximated": "#e3b341", "Isogloss-Attempts": "#79c0ff", "Isogloss-Target": "#7ee787",
         "Isogloss-Fidelity": "#e3b341", "HTTP/1.1 200": "#7ee787", '{"type":"error"': "#ff7b72"}


def rows(line):
    """Wraps a line and gives its rows with their colour and the pause before each."""
    kind = line[:1] or " "
    text = line[2:] if kind == " " else line
    colour = next((c for word, c in WORDS.items() if text.startswith(word)), COLOURS.get(kind, COLOURS[" "]))
    wrapped = textwrap.wrap(text, COLUMNS, subsequent_indent="  ", break_on_hyphens=False, drop_whitespace=False) or [""]
    for n, part in enumerate(wrapped):
        yield part, colour, kind == "$", {"#": 1.6, "$": 0.6}.get(kind, 0.25) if n == 0 else 0


lines, at, y = [], 0.2, TOP
for line in sys.stdin.read().splitlines():
    if line.startswith("#") and lines:
        y += ROW // 2
    for text, colour, bold, pause in rows(line):
        at += pause
        weight = ' font-weight="600"' if bold else ""
        lines.append(f'<text x="{LEFT}" y="{y}" fill="{colour}"{weight} style="animation-delay:{at:.1f}s">{escape(text)}</text>')
        y += ROW
width, height = 860, y
print(f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="{SIZE}" role="img" aria-label="A terminal: a request is translated and its losses are listed; a second target answers when the first one fails; a budget refuses a request.">
<style>text {{ white-space: pre; animation: appear 0.2s both }} @keyframes appear {{ from {{ opacity: 0 }} }} @media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}</style>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="5" fill="#ff5f57"/><circle cx="38" cy="18" r="5" fill="#febc2e"/><circle cx="56" cy="18" r="5" fill="#28c840"/>""")
print("\n".join(lines))
print("</svg>")
