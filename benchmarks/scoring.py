"""Quality metrics: one output against one example, and the table of names that the configuration refers to.

Every metric sees the whole decoded text, and the same cuts are made for the baseline and for every method.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from corpora.example import Example
from primitives.registry import nearest

_NUMBER = re.compile(r"-?(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)")
# "Final Answer: 18" in any dress ("**Final Answer:** 18"), or GSM8K's own "#### 18"; without a number "####" is a
# heading.
_ANSWER_LINE = re.compile(r"(?:final answer[^\w\n]*?:|^[ \t]*####(?= *[-$]*[0-9.]))(?P<answer>[^\n]*)", re.I | re.M)
_NEXT_TURN = re.compile(r"^[\s>*#_]*(?:question|problem|q|user|human)\b[ \t]*[0-9]*[*_]*:", re.I | re.M)
_TOLERANCE = 1e-6

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "\u2018\u2019\u00b4`", " "))

_LATIN_WORDS = re.compile(r"[a-z0-9]+")
_NON_LATIN_LETTER = re.compile(r"[^\W\d_a-zA-Z\u00c0-\u024f]")
# Scripts that are written without blanks between words (Thai to Burmese, kana, Han) count each letter as a word.
_UNSPACED_LETTER = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
_SEPARATORS = re.compile(r"[\s!-/:-@\[-`{-~\u00a0-\u00bf\u0964\u2000-\u206f\u3000-\u303f\uff01-\uff0f\uff1a-\uff20]+")


@dataclass(frozen=True)
class Metric:
    """A quality metric.

    Attributes:
        title: name in result files and tables.
        score: quality of an output in [0, 1], or None if the metric says nothing about this example.
        counts_failures: whether a prompt that failed counts as wrong (accuracies) or stays out of the mean.
    """

    title: str
    score: Callable[[str, Example], float | None]
    counts_failures: bool


def metric_named(name: str) -> Metric:
    """Return the metric; ValueError names the nearest one if there is none of that name."""
    if name not in METRICS:
        raise ValueError(f"dataset.metric '{name}' is unknown: {nearest(name, METRICS)}")
    return METRICS[name]


def without_thinking(text: str) -> str:
    """Return the text after the last thought; a thought that was cut short leaves only what came before it."""
    _, closed, after = text.rpartition("</think>")
    return (after if closed else text.partition("<think>")[0]).strip()


def own_answer(text: str, instruction: str) -> str:
    """Return the part of an output that answers the instruction.

    A text that goes on with an invented question after its answer is cut there. A text that recites worked examples
    first, or repeats the instruction, is left to its end.
    """
    text = without_thinking(text)
    before, restated, after = text.partition(instruction)
    if restated and not _ANSWER_LINE.search(before):
        text = after
    answer = _ANSWER_LINE.search(text)
    if answer is None or _NEXT_TURN.search(text, 0, answer.start()):
        return text
    run_on = _NEXT_TURN.search(text, answer.end())
    return text[: run_on.start()] if run_on else text


def number_accuracy(text: str, example: Example) -> float | None:
    """GSM8K: 1.0 if the last number of the last answer line (else of the whole text) equals the gold number."""
    if not example.answers:
        return None
    predicted, gold = extract_number(own_answer(text, example.instruction)), _last_number(example.answers[0])
    if gold is None:
        raise ValueError(f"example '{example.id}' has no number as its answer: {example.answers[0]!r}")
    return float(predicted is not None and abs(predicted - gold) <= _TOLERANCE * max(1.0, abs(gold)))


def extract_number(text: str) -> float | None:
    """Return the number a text gives as its answer, None if it holds no number."""
    lines = [match["answer"] for match in _ANSWER_LINE.finditer(text)]
    number = _last_number(lines[-1]) if lines else None
    return _last_number(text) if number is None else number


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text.replace("$", "").replace("\u2212", "-"))
    return float(found[-1].replace(",", "")) if found else None


def answer_accuracy(text: str, example: Example) -> float | None:
    """TriviaQA: 1.0 if the answer line (else the last line) equals one of the accepted answers, both normalised."""
    if not example.answers:
        return None
    predicted = _key(extract_answer(own_answer(text, example.instruction)))
    return float(bool(predicted) and predicted in {_key(answer) for answer in example.answers})


def answer_contained(text: str, example: Example) -> float | None:
    """TriviaQA, lenient: 1.0 if one of the accepted answers occurs anywhere in the output, both normalised."""
    if not example.answers:
        return None
    words = f" {normalise(own_answer(text, example.instruction))} "
    return float(any(f" {_key(answer)} " in words for answer in example.answers))


def extract_answer(text: str) -> str:
    """Return the line a text gives as its answer: what follows the last "Final Answer:", else the last line."""
    matches = list(_ANSWER_LINE.finditer(text))
    lines = text[matches[-1].start("answer") :].split("\n") if matches else text.split("\n")[::-1]
    return next((line.strip() for line in lines if any(map(str.isalnum, line))), "")


def normalise(text: str) -> str:
    """Return the text as TriviaQA's official evaluation compares it: no case, punctuation, articles or extra blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _key(text: str) -> str:
    # Names made of articles only (the band "The The") would all be equal to nothing.
    return normalise(text) or text.strip().lower()


def rouge_l(text: str, example: Example) -> float | None:
    """ROUGE-L F1 against the reference, without stemming; texts without any word are compared as they are."""
    text, reference = without_thinking(text), example.reference.strip()
    words = _any_words if _mostly_non_latin(reference) else _latin_words
    if not words(reference) or not words(text):
        return float(text == reference)
    return float(_scorer(words).score(reference, text)["rougeL"].fmeasure)


def _latin_words(text: str) -> list[str]:
    return _LATIN_WORDS.findall(text.lower())


def _any_words(text: str) -> list[str]:
    spaced = _UNSPACED_LETTER.sub(r" \g<0> ", text.lower())
    return [word for word in _SEPARATORS.split(spaced) if word]


def _mostly_non_latin(text: str) -> bool:
    """Whether the standard tokeniser of ROUGE, which knows a-z and 0-9 only, would drop most of the text."""
    return len(_NON_LATIN_LETTER.findall(text)) > sum(map(len, _latin_words(text)))


@dataclass(frozen=True)
class _Tokenizer:
    tokenize: Callable[[str], list[str]]


@lru_cache
def _scorer(words: Callable[[str], list[str]]) -> Any:
    # The import takes more than a second (nltk), which runs with another metric should not pay.
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_Tokenizer(words))


METRICS = {
    "number_accuracy": Metric("accuracy", number_accuracy, counts_failures=True),
    "answer_accuracy": Metric("accuracy", answer_accuracy, counts_failures=True),
    "answer_contained": Metric("contains_answer", answer_contained, counts_failures=True),
    "rouge_l": Metric("rouge_l", rouge_l, counts_failures=False),
}
