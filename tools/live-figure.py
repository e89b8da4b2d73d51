#!/usr/bin/env python3
"""Records a run with --tui in tmux as docs/live.svg, an animation of its screens (as root).

    tools/live-figure.py PROGRAM > docs/live.svg

The run measures between two namespaces that this script makes and removes. Keys raise the rate,
pause, and show the histogram.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
import time

COLUMNS, ROWS = 80, 24
CELL_WIDTH, CELL_HEIGHT = 8.4, 18
# Numbers of screens, one a second, and the key that is pressed before.
KEYS = {3: "+", 5: "+", 7: "p", 9: "p", 11: "h"}
SCREENS = 14
COLOURS = {31: "#ff7b72", 32: "#56d364", 33: "#e3b341", 36: "#4fd1e0"}
TEXT, BACK = "#e6edf3", "#0d1117"


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def style_of(codes, style):
    """The style after the numbers of one escape sequence."""
    style = dict(style)
    for code in codes:
        if code == 0:
            style = {}
        elif code in (1, 2, 7):
            style[code] = True
        elif code == 39:
            style.pop("colour", None)
        elif code in COLOURS:
            style["colour"] = COLOURS[code]
    return style


def spans(line, style):
    """The parts of a line with their styles, and the style behind its end."""
    parts, column = [], 0
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b["):
            codes = [int(code or 0) for code in piece[2:-1].split(";")]
            style = style_of(codes, style)
        elif piece:
            parts.append((column, piece, style))
            column += len(piece)
    return parts, style


def drawn(screen):
    shapes, style = [], {}
    for row, line in enumerate(screen.split("\n")[:ROWS]):
        parts, style = spans(line, style)
        for column, text, part in parts:
            x, y, width = 8 + column * CELL_WIDTH, 8 + row * CELL_HEIGHT, len(text) * CELL_WIDTH
            colour = part.get("colour", TEXT)
            if part.get(7):
                shapes.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{CELL_HEIGHT}" fill="{colour}"/>')
                colour = BACK
            if not text.strip():
                continue
            more = ' font-weight="bold"' if part.get(1) else ""
            more += ' opacity=".7"' if part.get(2) else ""
            shapes.append(
                f'<text x="{x:.1f}" y="{y + 14}" textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs" '
                f'fill="{colour}"{more}>{html.escape(text)}</text>'
            )
    return "\n".join(shapes)


def record(program):
    names = [f"live-figure-{side}-{os.getpid()}" for side in ("tx", "rx")]
    with tempfile.TemporaryDirectory() as folder:
        tmux = ["tmux", "-u", "-S", f"{folder}/socket"]
        try:
            for name in names:
                run("ip", "netns", "add", name)
            run("ip", "-n", names[0], "link", "add", "tx0", "type", "veth", "peer", "name", "rx0", "netns", names[1])
            for name, device, address in zip(names, ("tx0", "rx0"), ("198.18.0.1/24", "198.18.0.2/24")):
                run("ip", "-n", name, "addr", "add", address, "dev", device)
                run("ip", "-n", name, "link", "set", device, "up")
            devices = ["--tx", f"tx0@{names[0]}", "--rx", f"rx0@{names[1]}"]
            command = [program, "measure", *devices, "--tui", "--", "--dst", "198.18.0.2", "--pps", "5k", "--count", "0"]
            run(*tmux, "-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), *command)
            screens = []
            # The first readings.
            time.sleep(3)
            for second in range(SCREENS):
                time.sleep(1)
                if second in KEYS:
                    run(*tmux, "send-keys", "-l", KEYS[second])
                    time.sleep(0.4)
                screens.append(run(*tmux, "capture-pane", "-e", "-p"))
            return [screen.replace(f" in {names[0]}", "") for screen in screens]
        finally:
            subprocess.run([*tmux, "kill-server"], capture_output=True)
            for name in names:
                subprocess.run(["ip", "netns", "del", name], capture_output=True)


def figure(screens):
    width, height = 16 + COLUMNS * CELL_WIDTH, 16 + ROWS * CELL_HEIGHT
    share = 100 / len(screens)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="ui-monospace, monospace" font-size="14" xml:space="preserve">',
        "<title>wirerate measure --tui: rates, losses and latency of a run, with keys to pause and set the rate</title>",
        f"<style>text {{ white-space: pre; }} g {{ visibility: hidden; animation: shown {len(screens)}s infinite step-end; }}",
        f"@keyframes shown {{ 0% {{ visibility: visible; }} {share:.3f}% {{ visibility: hidden; }} }}",
        "@media (prefers-reduced-motion: reduce) { g { animation: none; } g:last-of-type { visibility: visible; } }",
        "</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/>',
    ]
    for number, screen in enumerate(screens):
        lines.append(f'<g style="animation-delay: {number}s">\n{drawn(screen)}\n</g>')
    return "\n".join([*lines, "</svg>"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(figure(record(os.path.realpath(sys.argv[1]))))
