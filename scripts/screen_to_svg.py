"""A screen of a terminal, as text with colours on stdin, drawn as SVG on stdout.

Block elements are drawn as shapes: fonts leave gaps between them.
"""

import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, BASELINE, MARGIN = 8.4, 18, 13.5, 12
BACKGROUND, FOREGROUND = "#16181d", "#d6d9de"
SIXTEEN = (
    "#16181d #e05561 #8cc265 #d18f52 #4aa5f0 #c162de #42b3c2 #d6d9de "
    "#6b7280 #ff616e #a5e075 #f0a45d #4dc4ff #de73ff #4cd1e0 #f2f4f8"
).split()
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}


def colour(code):
    """Of the 256 colours of a terminal."""
    if code < 16:
        return SIXTEEN[code]
    if code >= 232:
        return "#" + f"{8 + 10 * (code - 232):02x}" * 3
    steps = (0, 95, 135, 175, 215, 255)
    code -= 16
    return "#" + "".join(f"{steps[code // n % 6]:02x}" for n in (36, 6, 1))


class Pen:
    def __init__(self):
        self.reset()

    def reset(self):
        self.fore = self.back = None
        self.bold = self.under = self.reverse = False

    def take(self, codes):
        codes = [int(code or 0) for code in codes.split(";")]
        while codes:
            code = codes.pop(0)
            if code in (38, 48, 58):
                kind = codes.pop(0)
                value = colour(codes.pop(0)) if kind == 5 else "#%02x%02x%02x" % tuple(codes.pop(0) for _ in range(3))
                if code == 38:
                    self.fore = value
                elif code == 48:
                    self.back = value
            elif code == 0:
                self.reset()
            elif code == 1:
                self.bold = True
            elif code == 4:
                self.under = True
            elif code == 7:
                self.reverse = True
            elif code == 39:
                self.fore = None
            elif code == 49:
                self.back = None
            elif code not in (2, 22, 24, 27, 59):
                sys.exit(f"screen_to_svg: no drawing is known for the code {code}")

    def style(self):
        fore, back = self.fore or FOREGROUND, self.back or BACKGROUND
        if self.reverse:
            fore, back = back, fore
        return fore, back, self.bold, self.under


def cells(line):
    """Each character with its style."""
    pen = Pen()
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            pen.take(part[2:-1])
        else:
            for character in part:
                yield character, pen.style()


def block(character):
    """Left, top, width and height of a block element, in parts of a cell."""
    code = ord(character)
    if 0x2581 <= code <= 0x2588:
        full = (code - 0x2580) / 8
        return 0, 1 - full, 1, full
    if 0x2589 <= code <= 0x258F:
        return 0, 0, (0x2590 - code) / 8, 1
    if character in SHADES:
        return 0, 0, 1, 1
    return None


def rectangle(column, row, shape, fill, opacity=1.0):
    left, top, width, height = shape
    x, y = MARGIN + (column + left) * WIDTH, MARGIN + (row + top) * HEIGHT
    seen = "" if opacity == 1 else f' opacity="{opacity}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * WIDTH:.1f}" height="{height * HEIGHT:.1f}" fill="{fill}"{seen}/>'


def runs(line):
    """Neighbours of one style and kind: where they begin, the style, the characters."""
    start, last, text = 0, None, ""
    for column, (character, style) in enumerate(cells(line)):
        this = style, character if block(character) else None
        if this != last and text:
            yield start, last[0], text
            start, text = column, ""
        start = start if text else column
        last, text = this, text + character
    if text:
        yield start, last[0], text


def draw(row, line):
    for start, (fore, back, bold, under), text in runs(line):
        if back != BACKGROUND:
            yield rectangle(start, row, (0, 0, len(text), 1), back)
        shape = block(text[0])
        if shape:
            # The rest of the run is the same character.
            left, top, width, height = shape
            whole = [(0, (left, top, len(text), height))] if width == 1 else [(n, shape) for n in range(len(text))]
            for more, part in whole:
                yield rectangle(start + more, row, part, fore, SHADES.get(text[0], 1.0))
        else:
            # Words that stand apart stay where they are, whatever font there is.
            for words in re.finditer(r"\S+(?: \S+)*", text):
                yield written(start + words.start(), row, words[0], fore, bold, under)


def written(column, row, text, fill, bold, under):
    x, y = MARGIN + column * WIDTH, MARGIN + row * HEIGHT + BASELINE
    more = (' font-weight="bold"' if bold else "") + (' text-decoration="underline"' if under else "")
    size = f'textLength="{len(text) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {size} fill="{fill}"{more}>{escape(text)}</text>'


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    columns = max(sum(1 for _ in cells(line)) for line in lines)
    width, height = columns * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height}" font-size="14"')
    print('  font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">')
    print(f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>')
    for row, line in enumerate(lines):
        for shape in draw(row, line):
            print(shape)
    print("</svg>")


main()
