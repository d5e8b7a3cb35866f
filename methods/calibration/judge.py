"""The classifier of `judge`: tokens mined by what they do to the final answer, and a logistic head on their states.

Source: AutoJudge (arXiv 2504.20039).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from corpora.example import Example
from methods.calibration.recipe import Amounts, Arrays, Bench, Recipe
from primitives.contract import Bools, DraftTree, Floats, Ints, Pathway, TargetView, Verdict, Verifier
from primitives.models.batching import greedy_answers
from primitives.statistics import greedy_choice

# Draft tokens are tried on prompts that the classifier has not seen, in so many parts.
FOLDS: Final = 5
# Inverse strengths of the penalty on the weights; the one that predicts held-out prompts best is taken.
STRENGTHS: Final = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


class JudgeRecipe(Recipe):
    """Mismatches of a drafter, each tried out: does the final answer change if it stays?"""

    amounts: ClassVar[Amounts] = Amounts(num_prompts=100, positions=16, max_new_tokens=256)
    uses_drafter = True
    metrics = ("number_accuracy", "answer_accuracy", "answer_contained")

    def level(self, verifier: Mapping[str, Any]) -> dict[str, float]:
        """Return recall, the share of important tokens that must be recognised."""
        return {"recall": verifier["recall"]}

    def meter(self, bench: Bench) -> Callable[[Example], Arrays]:
        """Return a function that gives states float32[m, h] and important bool[m] of the mismatches of one text."""
        return lambda example: _mine(bench, example)

    def constants(self, prompts: Sequence[Arrays], level: Mapping[str, float]) -> dict[str, Any]:
        """Return weights, bias and threshold.

        Raises:
            ValueError: too few important or unimportant tokens to train on some prompts and try on others.
        """
        owner = np.repeat(np.arange(len(prompts)), [len(prompt["important"]) for prompt in prompts])
        states, important = (np.concatenate([prompt[key] for prompt in prompts]) for key in ("states", "important"))
        return train_head(states, important, owner, level["recall"])


def train_head(states: NDArray[np.float32], important: Bools, owner: Ints, recall: float) -> dict[str, Any]:
    """Return weights, bias and threshold of the logistic head, and how it does on prompts that it has not seen.

    Args:
        states: [m, h].
        important: bool[m].
        owner: int64[m], which prompt each sample is from: a prompt is never trained on and tried at once.
        recall: share of important samples that must lie above the threshold.

    Raises:
        ValueError: too few samples of one kind.
    """
    # It takes seconds to import, and only this needs it.
    from sklearn.metrics import log_loss

    folds = _folds(important, owner)
    tried = {strength: _held_out(states, important, folds, strength) for strength in STRENGTHS}
    strength = min(STRENGTHS, key=lambda each: log_loss(important, tried[each]))
    threshold = _threshold(tried[strength][important], recall)
    scaler, logistic = _fitted(states, important, strength)
    weights = logistic.coef_[0] / scaler.scale_
    return {
        "weights": weights.tolist(),
        "bias": float(logistic.intercept_[0] - weights @ scaler.mean_),
        "threshold": threshold,
        "strength": strength,
        "important": int(important.sum()),
        "unimportant": int((~important).sum()),
        "unimportant_passed": float((tried[strength][~important] <= threshold).mean()),
    }


def _folds(important: Bools, owner: Ints) -> Ints:
    """Return int64[m], the part in which each sample is tried; all other parts together hold both kinds."""
    with_important = np.unique(owner[important])
    prompts = np.concatenate([with_important, np.setdiff1d(owner, with_important)])
    count = min(FOLDS, len(with_important))
    part = np.empty(int(owner.max(initial=-1)) + 1, np.int64)
    part[prompts] = np.arange(len(prompts)) % max(count, 1)
    folds = part[owner]
    if count < 2 or any(important[folds != fold].all() for fold in range(count)):
        raise ValueError(
            f"mined {important.sum()} important and {(~important).sum()} unimportant tokens in {len(prompts)} prompts, "
            "too few to train on some prompts and try on others: raise calibration.num_prompts, or "
            "calibration.max_new_tokens if texts are cut before their final answer"
        )
    return folds


def _held_out(states: NDArray[np.float32], important: Bools, folds: Ints, strength: float) -> Floats:
    """Return float[m], P(important) of each sample by a head trained on the other parts."""
    probability = np.empty(len(states))
    for fold in range(int(folds.max()) + 1):
        scaler, logistic = _fitted(states[folds != fold], important[folds != fold], strength)
        probability[folds == fold] = logistic.predict_proba(scaler.transform(states[folds == fold]))[:, 1]
    return probability


def _fitted(states: NDArray[np.float32], important: Bools, strength: float) -> tuple[Any, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(states.astype(np.float64))
    return scaler, LogisticRegression(C=strength, max_iter=1000).fit(scaler.transform(states), important)


def _threshold(probability: Floats, recall: float) -> float:
    """Return the largest threshold above which at least this share of float[m] lies."""
    missed = int((1 - recall) * len(probability) + 1e-9)
    ranked = np.sort(probability)
    return float(np.nextafter(ranked[missed], 0)) if missed < len(ranked) else 1.0


def _mine(bench: Bench, example: Example) -> Arrays:
    """Decode one prompt with an oracle in the place of the classifier; return what it found out."""
    pipeline, prompt = bench.pipeline, bench.prompt(example)
    decode = DecodeSettings(max_new_tokens=bench.amounts.max_new_tokens)
    answer = _answer(bench, example, pipeline.baseline.generate(prompt, decode).ids)
    oracle = OracleJudge(bench, example, prompt, answer)
    if answer is not None:
        method = pipeline.connector
        Connector(method.target, method.drafter, oracle, method.decode, method.max_nodes).generate(prompt, decode)
    states = np.array(oracle.states, np.float32).reshape(-1, bench.embeddings.shape[1])
    return {"states": states, "important": np.array(oracle.important, bool)}


def _answer(bench: Bench, example: Example, ids: Sequence[int]) -> object:
    """Return the final answer of an output; None if it gives none, or was cut before its end."""
    ends = bench.pipeline.target.eos_ids
    if ends and not ends & set(ids[-1:]):
        return None
    return bench.final_answer(bench.pipeline.connector.decode(ids), example)


class OracleJudge(Verifier):
    """Follows the target's choice; where the draft has none of it, tries a drafted token and keeps it if it may stay.

    A token is important if the text that the target writes after it gives another final answer (left to right, what
    was kept before stays).

    Args:
        bench: the target and how much to try.
        example: the prompt.
        prompt: int64[T], its ids.
        answer: the final answer of the target's own text.

    Attributes:
        states: the target's hidden state after each token that was tried.
        important: whether it changed the answer.
    """

    guarantee = "lossy"
    needs = frozenset({"hidden"})

    def __init__(self, bench: Bench, example: Example, prompt: Ints, answer: object) -> None:
        self.states: list[NDArray[np.float32]] = []
        self.important: list[bool] = []
        self._bench = bench
        self._example = example
        self._prompt = prompt.tolist()
        self._answer = answer
        self._written: list[int] = []

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the path of what the target chooses or may be kept; one child of a node is tried at the most."""
        exact = tree.tokens == greedy_choice(view.logits)[tree.rows]
        path: list[int] = []
        while True:
            children = np.flatnonzero(tree.parents == (path[-1] if path else -1))
            chosen = children[exact[children]]
            if len(chosen):
                path.append(int(chosen[0]))
            elif len(children) and len(self.important) < self._bench.amounts.positions:
                node = int(children[0 if tree.scores is None else tree.scores[children].argmax()])
                if self._matters([*tree.tokens[path].tolist(), int(tree.tokens[node])], view.hidden[node + 1]):
                    break
                path.append(node)
            else:
                break
        self._written += tree.tokens[path].tolist()
        return Verdict(np.array(path, np.int64), np.where(exact[path], Pathway.EXACT, Pathway.RELAXED).astype(np.uint8))

    def _matters(self, tokens: list[int], state: torch.Tensor) -> bool:
        """Try tokens after what is written; note the last one's state and whether it is important."""
        pipeline, ids = self._bench.pipeline, [*self._written, *tokens]
        left, ends = self._bench.amounts.max_new_tokens - len(ids), pipeline.target.eos_ids
        if left > 0 and not ends & set(tokens):
            text = np.array(self._prompt + ids)
            ids += greedy_answers(pipeline.model.model, [text], left, ends)[0]
        self.states.append(state.float().cpu().numpy())
        self.important.append(_answer(self._bench, self._example, ids) != self._answer)
        return self.important[-1]
