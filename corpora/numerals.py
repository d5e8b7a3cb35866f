"""Numbers in prose, Markdown and LaTeX, read as a person reads them.

A per cent sign changes nothing (50 % is 50), a fraction is its quotient (3/4 is 0.75), 10 000 is one number. Number
words, "5 million", decimal commas (1.234,50) and powers (10^3) are not converted.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<!\w)\.[0-9]+"
_CURRENCY = "[$\u00a2\u00a3\u00a5\u20a0-\u20cf]"
_NUMBER = re.compile(
    rf"(?<![A-Za-z0-9])(?<![0-9]\.)(?P<sign>(?<![\w)\]}}.%])(?:-{_CURRENCY}?|{_CURRENCY}[ ]?-))?"
    rf"(?P<number>(?:{_DIGITS})(?:[eE][-+]?[0-9]+(?!\w))?)"
)
_DENOMINATOR = re.compile(rf"[ ]?/[ ]?(?P<number>-?(?:{_DIGITS}))(?![ ]?/[ ]?[0-9])")
# A minus apart from its number: a difference in prose ("10 - 4"), a sign behind "=" and where a declared text begins.
_MINUS_APART = rf"[-\u2014][ ]*({_CURRENCY}?)[ ]*(?=[0-9.])"
_MINUS_FIRST = re.compile(rf"\A([^\w.+-]*?){_MINUS_APART}")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.I)
_BESIDE = re.compile(r"\([^()]*\)")
# "Step 3:", and the number of a list item: "1. **Eggs sold**", "2) Add".
_LABEL = re.compile(
    r"\b(?:step|part|question|problem|example|case|option)[ ]*#?[0-9]+\b[:.)]?"
    r"|^[\s#*>_-]*[0-9]{1,2}[.)][*_]*[ \t]+(?=\S)",
    re.I | re.M,
)

_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2013\u2212\ufe63\uff0d", "-"),
        **dict.fromkeys("\uff0c\u066c", ","),
        **dict.fromkeys("\uff0e\u066b", "."),
        **dict.fromkeys("\u2044\u2215", "/"),
        "\uff1a": ":",
    }
)
_REWRITES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\[()\[\]]", " "),  # \( \) \[ \] stand around formulas and are no remarks
        (r"\\([$%#&])", r"\1"),
        (r"(?<=[0-9])(?:\{,\}|\\[,!;: ]|['\u2019_\u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))", ","),
        (r"(?<![0-9.,])([0-9]{1,3})[ ](?=[0-9]{3}(?![0-9-]))", r"\1,"),
        (r"\b(?:USD|EUR|GBP|CAD|AUD|INR|Rs)[ ]?(?=-?[0-9])", "$"),
        (r"(?<=[0-9])[ ]?\\[dt]?frac(?=[{0-9])", r" \\frac"),
        (r"\\[dt]?frac[ ]?\{([^{}]*)\}[ ]?\{([^{}]*)\}", r"\1/\2"),
        (r"\\[dt]?frac[ ]?([0-9])[ ]?([0-9])", r"\1/\2"),
        (r"(?<=[0-9])[ ]?(?:\\times|\u00d7|[x*])[ ]?10\^\{?(-?[0-9]+)\}?", r"e\1"),
        (r"\^(?:\{[^{}]*\}|-?[0-9A-Za-z]+)", " "),  # exponents ("cm^2") and indices are no numbers of their own
        (r"(?<=[A-Za-z0-9)}])_(?:\{[^{}]*\}|[0-9]+\b)", " "),
        (rf"(=[ ]*){_MINUS_APART}", r"\1-\2"),
    )
]


def plain(text: str) -> str:
    """Return the text with ASCII digits, signs and separators, and without LaTeX around numbers."""
    text = "".join(map(_ascii, text)).translate(_SAME)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text


def without_labels(text: str) -> str:
    """Return the text without numbers that count its steps or items."""
    return _LABEL.sub(" ", text)


def with_sign(declared: str) -> str:
    """Return a plain text that is an answer with the minus at its beginning, if it has one, next to its number."""
    return _MINUS_FIRST.sub(r"\1-\2", declared)


def last_number(text: str) -> float | None:
    """Return the last number of a plain text; remarks in parentheses and ordinals count only if there is no other."""
    for part in (_BESIDE.sub(" ", text), text):
        found = list(_NUMBER.finditer(part))
        cardinals = [match for match in found if not _ORDINAL.match(part, match.end())]
        if found:
            return list(_values(part, cardinals or found))[-1]
    return None


def reference_number(text: str) -> float | None:
    """Return the number that a reference gives; None if it gives none, or one that is not finite."""
    number = last_number(with_sign(plain(text)))
    return None if number is None or not math.isfinite(number) else number


def _ascii(letter: str) -> str:
    """Return a digit of any script as ASCII, and a fraction in one letter written out; others as they are."""
    if letter.isascii():
        return letter
    if unicodedata.decomposition(letter).startswith("<fraction>"):
        return " " + unicodedata.normalize("NFKC", letter)
    digit = unicodedata.decimal(letter, None)
    return letter if digit is None else str(digit)


def _values(text: str, found: list[re.Match[str]]) -> Iterator[float]:
    """Yield the value of each match; a fraction takes its denominator and the whole number before it with it."""
    end, whole = -1, 0.0
    for match in found:
        start = match.start("number")
        if start < end:
            continue
        value, mixed = _float(match["number"]), 0.0
        below = _DENOMINATOR.match(text, match.end()) if text[start - 1 : start] != "/" else None
        if below and _float(below["number"]):
            value /= _float(below["number"])
            mixed = whole if text[end : match.start()].isspace() and value < 1 else 0.0
            value += abs(mixed)
        whole = -value if match["sign"] or mixed < 0 else value
        end = below.end() if below else match.end()
        yield whole


def _float(digits: str) -> float:
    return float(digits.replace(",", ""))
