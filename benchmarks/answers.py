"""The answer that an output gives: which part of it is its own, where it says its answer, and what that is.

The same cuts are made for the baseline and for every method, after the whole output was decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from corpora.numerals import last_number, plain, with_sign, without_labels

# A question behind the answer that has more of its words, and all of its numbers, from the prompt is the prompt's own.
OWN_QUESTION = 0.8

_THOUGHT = re.compile(r"<(think|thinking)>.*?</\1>", re.I | re.S)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.I)
_THOUGHT_BEGIN = re.compile(r"<think(?:ing)?>", re.I)

# What it is an answer to: "the answer to the question is", "Answer (in dollars):".
_ABOUT = r"(?:[ ]+(?:to|for|in)\b[^\n.:=]{0,80}?|[ ]*\([^()\n]*\))?[*_ \t]*"
# "Final Answer: 18", "Final Answer - 18", "**Final Answer**\n18", "The answer to it is 18", GSM8K's own "#### 18" and
# \boxed{18}. Without a number "####" is a heading; so is "#### 2. Add them".
_DECLARATION = re.compile(
    r"(?P<heading>\bfinal[ ]+answer\b[*_ \t]*(?:$|[ \t][-\u2013\u2014][ \t]))"
    rf"|\b(?P<final>final[ ]+)?answer\b{_ABOUT}(?:(?P<clause>\bis\b[*_]*:?)|[:=\uff1a])"
    r"|(?P<mark>^[ \t]*####)(?=[-$\\ \t]*[0-9.])(?![ \t]*[0-9]{1,2}[.)][ \t]+\S)"
    r"|(?P<boxed>\\boxed[ ]*\{)",
    re.I | re.M,
)
# "Final Answer: The answer is 18" says it twice.
_AGAIN = re.compile(
    r"[\s*_]*(?:(?:so|thus|hence|therefore|the|my|final|correct),?[ ]+){0,3}answer\b"
    rf"{_ABOUT}(?:is\b[*_]*:?|[:=\uff1a])",
    re.I,
)
_SENTENCE_END = re.compile(r"[.!?][*_\"')]*(?=\s+[A-Z])")
# Not behind an initial: "V. I. Lenin".
_NEW_SENTENCE = re.compile(
    r"(?<=\w)(?<!\b[A-Z])[.!?]['\"*]*\s+(?=(?:It|He|She|They|This|That|These|The|In|I|His|Her|Explanation)\b)"
)
_BULLET = re.compile(r"\A\s*[-*+][ \t]+")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")
# A line that opens with one; on the answer's own line ("18 Question: Tom ...") it needs its capital and colon.
_NEXT_QUESTION = re.compile(
    r"^[\s>*#_]*(?:(?:(?:next|another|new)[ ]+)?"
    r"(?:question|problem|exercise|example|task|instruction|q|user|human)(?![a-z])[ \t]*#?[0-9]*[*_]*:"
    r"|(?:question|problem|exercise|example|q)[ ]*#?[0-9]+[*_]*(?:[.)]|[ \t]*$)|(?:user|human)[ \t]*$)"
    r"|(?P<beside>(?<![A-Za-z])(?-i:Question|Problem|Q)[ ]*[0-9]*:)",
    re.I | re.M,
)
# Marks of chat templates, the opening ones with the role of the model.
_TURN = re.compile(r"(?:<\|[a-z_]+\|>|</?s>|<(?:start|end)_of_turn>|\[/?INST\])(?:assistant|model)?", re.I)
_WORD = re.compile(r"\w+")
_MARKUP = re.compile(r"\\[A-Za-z]+[ ]*|[{}$*`]|</?[a-z]+>")


@dataclass(frozen=True)
class _Declaration:
    """A place where a text says its answer.

    Attributes:
        start: where its announcement begins.
        text: what it says: the rest of the line, or the next line with anything.
        rank: 2 for "Final Answer:", "####" and a box, which remarks behind them ("I hope this answer is useful")
            do not replace; 1 for "Answer:" and "final answer is", 0 for "answer is".
        clause: whether the announcement is "answer is", so that other sentences may follow on the line.
    """

    start: int
    text: str
    rank: int
    clause: bool = False


def without_thinking(text: str) -> str:
    """Return the text without thoughts, also without one that was begun in the prompt or cut short by the budget."""
    text = _THOUGHT.sub("", text)
    text = _THOUGHT_END.split(text)[-1]
    return _THOUGHT_BEGIN.split(text)[0].strip()


def own_answer(text: str, instruction: str) -> str:
    """Return the part of an output that answers the instruction.

    A text that goes on with an invented question after its answer is cut there. A text that recites worked examples
    before its answer is left to its end, and what stands before the restated instruction goes if an answer follows it.
    """
    text = _own_turn(without_thinking(text))
    answers = [found.start for found in _declarations(text)]
    questions = [m for m in _NEXT_QUESTION.finditer(text) if not m["beside"] or any(at < m.start() for at in answers)]
    restated = [match for match in questions if _is_own(text[match.end() :], instruction)]
    start = max((match.end() for match in restated if any(match.end() <= at for at in answers)), default=0)
    invented = [match for match in questions if match not in restated and match.start() >= start]
    declared = next((at for at in answers if at >= start), None)
    # Where no answer is declared, the first number stands for it.
    first = next((at for at in range(start, len(text)) if text[at].isdigit()), start) if declared is None else declared
    if any(match.start() < first for match in invented):
        return text[start:]
    if declared is None:
        invented = [match for match in invented if _asks_a_sum(text, match)]
    return text[start : invented[0].start()] if invented else text[start:]


def _own_turn(text: str) -> str:
    """Return the text up to the mark of a chat template behind its first words."""
    parts = (text[: mark.start()] for mark in _TURN.finditer(text))
    return next((part for part in parts if _has_words(_TURN.sub("", part))), text)


def extract_number(text: str) -> float | None:
    """Return the number that a text gives as its answer, None if it holds none.

    It is the last number of the firmest declaration with a number, of several the last (of its last bold part, if it
    has one); else the last number of the last line with a number. Numbers of steps and list items are taken only where
    there is no other.
    """
    text = plain(text)
    for part in (without_labels(text), text):
        for found in _firmest_first(part):
            number = _number_of(_SENTENCE_END.split(found.text)[0] if found.clause else found.text)
            if number is not None:
                return number
    lines = [line for part in (without_labels(text), text) for line in reversed(part.split("\n"))]
    return next((number for line in lines if (number := last_number(line)) is not None), None)


def extract_answer(text: str) -> str:
    """Return the words that a text gives as its answer, without markup.

    It is what the firmest declaration says, of several the last, to the end of the line (of the sentence behind
    "answer is"); else the last line.
    """
    for found in _firmest_first(text):
        if _has_words(found.text):
            return _without_markup(_NEW_SENTENCE.split(found.text)[0] if found.clause else found.text)
    return _without_markup(next((line for line in reversed(text.split("\n")) if _has_words(line)), ""))


def _firmest_first(text: str) -> list[_Declaration]:
    return sorted(_declarations(text), key=lambda found: (found.rank, found.start), reverse=True)


def _declarations(text: str) -> Iterator[_Declaration]:
    for match in _DECLARATION.finditer(text):
        if match["boxed"]:
            yield _Declaration(match.start(), text[match.end() : _closing(text, match.end())], rank=2)
            continue
        again = None if match["clause"] else _AGAIN.match(text, match.end())
        lines = text[(again or match).end() :].split("\n")
        said = lines[0] if _has_words(lines[0]) else _BULLET.sub("", next(filter(_has_words, lines), ""))
        rank = 2 if match["heading"] or match["mark"] else bool(match["final"]) + (not match["clause"])
        yield _Declaration(match.start(), said, rank, clause=bool(match["clause"] or again))


def _closing(text: str, start: int) -> int:
    """Return the place of the brace that closes the one before `start`, or the end of a text that was cut before it."""
    depth = 1
    for match in re.compile(r"(?<!\\)[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.start()
    return len(text)


def _number_of(declared: str) -> float | None:
    parts = [*_BOLD.findall(declared)[::-1], declared]
    return next((number for part in parts if (number := last_number(with_sign(part))) is not None), None)


def _is_own(behind: str, instruction: str) -> bool:
    """Return whether what stands behind a question mark is the instruction, in these words or nearly so.

    The first line is looked at, and as many words as the instruction has, for the solution may follow at once.
    """
    own = _WORD.findall(instruction.lower())
    line = _WORD.findall(behind.lstrip().partition("\n")[0].lower())
    return any(_share(asked, set(own)) > OWN_QUESTION for asked in (line, _WORD.findall(behind.lower())[: len(own)]))


def _share(asked: list[str], own: set[str]) -> float:
    """Return the share of words that are among the prompt's own; 0 if a number is not."""
    if any(word.isdigit() and word not in own for word in asked):
        return 0.0
    return sum(word in own for word in asked) / max(1, len(asked))


def _asks_a_sum(text: str, question: re.Match[str]) -> bool:
    """Return whether a question with numbers of its own follows a text with a number."""
    asked = text[question.end() :].lstrip().partition("\n\n")[0]
    return "?" in asked and all(any(map(str.isdigit, part)) for part in (asked, text[: question.start()]))


def _without_markup(text: str) -> str:
    return _MARKUP.sub(" ", text).strip()


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))
