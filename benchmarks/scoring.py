"""Quality metrics: one output against one example, and the table of names that the configuration refers to.

Every metric sees the whole decoded text, and the same cuts are made for the baseline and for every method.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.answers import extract_answer, extract_number, own_answer, without_thinking
from benchmarks.rouge import rouge_l_f1
from corpora.example import Example
from corpora.numerals import reference_number
from primitives.registry import nearest

Score = Callable[[str, Example], float | None]

_TOLERANCE = 1e-6

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "\u2018\u2019\u00b4`", " "))


@dataclass(frozen=True)
class Metric:
    """A quality metric.

    Attributes:
        title: name in result files and tables.
        score: quality of an output in [0, 1], or None if the metric says nothing about this example.
        counts_failures: whether a prompt that failed counts as wrong (accuracies) or stays out of the mean.
        answers: whether an output gives an answer at all; None for a metric of whole texts.
        beside: other figures in [0, 1] that are reported beside the score, by name.
    """

    title: str
    score: Score
    counts_failures: bool
    answers: Callable[[str, Example], bool] | None = None
    beside: Mapping[str, Score] = field(default_factory=dict)

    def judge(self, text: str, example: Example) -> dict[str, float | bool | None]:
        """Return "score", "no_answer" and the figures beside them, as a line of samples.jsonl holds them.

        All are None for an example without a reference.
        """
        score = self.score(text, example)
        return {
            "score": score,
            "no_answer": None if self.answers is None or score is None else not self.answers(text, example),
            **{name: score(text, example) for name, score in self.beside.items()},
        }


def metric_named(name: str | None) -> Metric:
    """Return the metric, for None one that says nothing; ValueError names the nearest if there is none of that name."""
    if name is None:
        return Metric("none", lambda text, example: None, counts_failures=False)
    if name not in METRICS:
        raise ValueError(f"dataset.metric '{name}' is unknown: {nearest(name, METRICS)}")
    return METRICS[name]


def number_given(text: str, example: Example) -> float | None:
    """Return the number that an output gives as its answer to the example."""
    return extract_number(own_answer(text, example.instruction))


def words_given(text: str, example: Example) -> str | None:
    """Return the answer that an output gives to the example, in the normal form of TriviaQA's evaluation."""
    return _key(extract_answer(own_answer(text, example.instruction))) or None


def number_accuracy(text: str, example: Example) -> float | None:
    """GSM8K: 1.0 if the number that the output gives as its answer equals the gold number, or one of several."""
    if not example.answers:
        return None
    given = number_given(text, example)
    return float(any(given is not None and _equal(given, _gold(answer, example)) for answer in example.answers))


def _gold(answer: str, example: Example) -> float:
    number = reference_number(answer)
    if number is None:
        raise ValueError(f"example '{example.id}' has no number as its answer: {answer!r}")
    return number


def _equal(given: float, gold: float) -> bool:
    return abs(given - gold) <= _TOLERANCE * max(1.0, abs(gold))


def answer_accuracy(text: str, example: Example) -> float | None:
    """TriviaQA: 1.0 if the answer (declared, else the last line) equals one of the accepted ones, both normalised."""
    if not example.answers:
        return None
    return float(words_given(text, example) in {_key(answer) for answer in example.answers})


def answer_contained(text: str, example: Example) -> float | None:
    """TriviaQA, lenient: 1.0 if one of the accepted answers occurs anywhere in the output, both normalised."""
    if not example.answers:
        return None
    words = f" {normalise(own_answer(text, example.instruction))} "
    return float(any(f" {_key(answer)} " in words for answer in example.answers))


def normalise(text: str) -> str:
    """Return the text as TriviaQA's official evaluation compares it: no case, punctuation, articles or extra blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _key(text: str) -> str:
    # Names made of articles only (the band "The The") would all be equal to nothing.
    return normalise(text) or text.strip().lower()


def rouge_l(text: str, example: Example) -> float | None:
    """ROUGE-L F1 against the reference, without stemming; an example without reference has no score."""
    reference = example.reference.strip()
    return rouge_l_f1(without_thinking(text), reference) if reference else None


METRICS = {
    "number_accuracy": Metric(
        "accuracy", number_accuracy, True, answers=lambda text, example: number_given(text, example) is not None
    ),
    "answer_accuracy": Metric(
        "accuracy",
        answer_accuracy,
        True,
        answers=lambda text, example: words_given(text, example) is not None,
        beside={"contains_answer": answer_contained},
    ),
    "answer_contained": Metric("contains_answer", answer_contained, True),
    "rouge_l": Metric("rouge_l", rouge_l, counts_failures=False),
}
