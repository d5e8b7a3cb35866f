"""Exact laws of what a verifier emits: every drafted tree and every outcome of its coin, with their probabilities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from primitives.contract import DraftTree, Floats, TargetView
from primitives.verification._coin import Coin
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier

T = TypeVar("T")
Text = tuple[int, ...]
Model = Callable[[Text], Floats]


class ScriptedCoin(Coin):
    """Decides as its script says, and after its end by the likelier side; notes how likely that was."""

    def __init__(self, script: Sequence[bool]) -> None:
        self.script = list(script)
        self.taken: list[bool] = []
        self.chances: list[float] = []

    def flip(self, chance: float) -> bool:
        assert 0 <= chance <= 1
        place = len(self.taken)
        self.taken.append(self.script[place] if place < len(self.script) else chance >= 0.5)
        self.chances.append(chance if self.taken[-1] else 1 - chance)
        return self.taken[-1]


def outcomes(run: Callable[[Coin], T]) -> Iterator[tuple[T, float]]:
    """Yield what a run returns for every sequence of decisions that has a chance, with its probability."""
    scripts: list[list[bool]] = [[]]
    while scripts:
        script = scripts.pop()
        coin = ScriptedCoin(script)
        yield run(coin), float(np.prod(coin.chances))
        for place in range(len(script), len(coin.taken)):
            if coin.chances[place] < 1:
                scripts.append([*coin.taken[:place], not coin.taken[place]])


def random_model(seed: int, size: int, sharpness: float = 1.5, holes: float = 0.0) -> Model:
    """Return next-token probabilities after any text; a share of them, the holes, is 0."""
    laws: dict[Text, Floats] = {}

    def law(text: Text) -> Floats:
        if text not in laws:
            rng = np.random.default_rng([seed, len(text), *text])
            scores = np.exp(rng.normal(size=size) * sharpness)
            scores[rng.random(size) < holes] = 0
            laws[text] = scores / scores.sum() if scores.any() else np.eye(size)[0]
        return laws[text]

    return law


def view_of(tree: DraftTree, model: Model) -> TargetView:
    """Return what a model says of a tree, in float64; texts begin with the tree's own tokens."""
    texts: list[Text] = [()]
    texts += [tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(len(tree))]
    with np.errstate(divide="ignore"):
        logits = np.log(np.stack([model(text) for text in texts]))
    return TargetView(torch.from_numpy(logits), torch.zeros(len(texts), 1))


def emitted(
    verifier: LosslessVerifier, tree: DraftTree, model: Model, length: int, eager: bool = False
) -> tuple[dict[Text, float], Floats]:
    """Return the law of the first `length` tokens after the pending one, and of the number of accepted ones.

    Args:
        verifier: the verifier.
        tree: what was drafted, below the pending token at node 0.
        model: the target.
        length: tokens looked at; those that the pass has not emitted are drawn from the model.
        eager: compute all chances before the first decision, as on a device.
    """
    laws = Laws(tree, view_of(tree, model), verifier.uses_q)
    laws.eager = eager
    texts: dict[Text, float] = defaultdict(float)
    accepted = np.zeros(len(tree))

    def spread(text: Text, chance: float, law: Floats | None = None) -> None:
        """Go on as the target would, the next token by a law of its own if there is one."""
        if len(text) > length:
            texts[text[1 : length + 1]] += chance
            return
        law = model(text) if law is None else law / law.sum()
        for token in np.flatnonzero(law):
            spread((*text, int(token)), chance * law[token])

    for (path, residual), chance in outcomes(lambda coin: verifier.decide(laws, coin)):
        accepted[len(path) - 1] += chance
        text = tuple(tree.tokens[path].tolist())
        spread(text, chance, None if residual is None else residual.numpy())
    return texts, accepted


def target_law(model: Model, pending: int, length: int) -> dict[Text, float]:
    """Return the law of the first `length` tokens after the pending one, drawn from the model itself."""
    law: dict[Text, float] = {(): 1.0}
    for _ in range(length):
        law = {
            (*text, token): chance * float(p)
            for text, chance in law.items()
            for token, p in enumerate(model((pending, *text)))
            if p > 0
        }
    return law


def distance(one: dict[Text, float], other: dict[Text, float]) -> float:
    """Return the largest difference between two laws."""
    return max(abs(one.get(text, 0) - other.get(text, 0)) for text in one.keys() | other.keys())


def drawn_trees(
    parents: Sequence[int], q: Model, replacement: bool, pending: int = 0
) -> Iterator[tuple[DraftTree, float]]:
    """Yield every tree of a shape that a drafter may draw, with its probability.

    Args:
        parents: the shape; node 0 is the pending token, and siblings are drawn in their order.
        q: the drafter, after any text that begins with the pending token.
        replacement: whether siblings are drawn independently, or each without the tokens of those before it.
        pending: its token.
    """

    def grow(texts: list[Text], laws: list[Floats], chance: float) -> Iterator[tuple[DraftTree, float]]:
        node = len(texts)
        if node == len(parents):
            yield _drawn([text[-1] for text in texts], parents, laws), chance
            return
        text, law = texts[parents[node]], q(texts[parents[node]]).copy()
        if not replacement:
            law[[texts[other][-1] for other in range(1, node) if parents[other] == parents[node]]] = 0
            law /= law.sum()
        for token in np.flatnonzero(law):
            yield from grow([*texts, (*text, int(token))], [*laws, law], chance * float(law[token]))

    yield from grow([(pending,)], [np.eye(len(q((pending,))))[pending]], 1.0)


def _drawn(tokens: Sequence[int], parents: Sequence[int], laws: Sequence[Floats]) -> DraftTree:
    return DraftTree(np.array(tokens, np.int64), np.array(parents, np.int64), q=torch.from_numpy(np.stack(laws)))


def law_over_drafts(
    verifier: LosslessVerifier, drafts: Iterator[tuple[DraftTree, float]], model: Model, length: int
) -> tuple[dict[Text, float], Floats]:
    """Return the law of what is emitted, and of the number of accepted tokens, over all that may be drafted."""
    texts: dict[Text, float] = defaultdict(float)
    counts: Floats = np.zeros(length + 1)
    for tree, chance in drafts:
        each, accepted = emitted(verifier, tree, model, length)
        for text, p in each.items():
            texts[text] += chance * p
        counts += chance * np.pad(accepted, (0, len(counts)))[: len(counts)]
    return texts, counts
