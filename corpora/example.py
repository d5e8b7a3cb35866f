"""One item of a data set, whatever columns it came from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One prompt with what is known of its answer.

    Attributes:
        id: unique within its data set: the split and the row's number in the source.
        instruction: the user's request, before any prompt template.
        reference: the data set's own answer, the target of ROUGE-L and the text of a reference datastore; empty if
            there is none.
        answers: what counts as right, if that can be said: the number (GSM8K), the value and its aliases (TriviaQA).
        category: the part of its data set that figures are also given for; None where there are no parts.
        followups: what the user says next, after each answer.
    """

    id: str
    instruction: str
    reference: str
    answers: tuple[str, ...] = ()
    category: str | None = None
    followups: tuple[str, ...] = ()
