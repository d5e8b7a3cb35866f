"""ROUGE-L between an output and a reference, in scripts that rouge-score's own tokeniser drops, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_LATIN_WORDS = re.compile(r"[a-z0-9]+")
_NON_LATIN_LETTER = re.compile(r"[^\W\d_a-zA-Z\u00c0-\u024f]")
# Scripts that are written without blanks between words (Thai to Burmese, kana, Han) count each letter as a word.
_UNSPACED_LETTER = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]"
)
_SEPARATORS = re.compile(r"[\s!-/:-@\[-`{-~\u00a0-\u00bf\u0964\u2000-\u206f\u3000-\u303f\uff01-\uff0f\uff1a-\uff20]+")


def rouge_l_f1(text: str, reference: str) -> float:
    """Return ROUGE-L F1 without stemming; texts without any word are compared as they are."""
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
