"""ARC's constants: how far a second choice moves the target's next distribution, against two estimates of it.

Source: ARC (ICML 2026) and its released code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import torch

from connectors.settings import DecodeSettings
from corpora.example import Example
from methods.calibration.recipe import Amounts, Arrays, Bench, Recipe
from primitives.contract import DraftTree, Floats, Ints
from primitives.statistics import greedy_choice
from primitives.verification._arc_surrogate import Whitening

# Tokens of each next-step distribution that count.
SUPPORT: Final = 128
# Share of a sample list, from below, that is looked at: a few ratios with a denominator near 0 would decide all.
KEPT: Final = 0.995
PATH_QUANTILE: Final = 0.95
PATH_DRAWS: Final = 20_000
LONGEST_PATH: Final = 32
_SEED: Final = 0


class ArcRecipe(Recipe):
    """At positions of the target's own greedy answers: first and second choice, and where each of them leads."""

    amounts: ClassVar[Amounts] = Amounts(num_prompts=50, positions=32, max_new_tokens=64)

    def level(self, verifier: Mapping[str, Any]) -> dict[str, float]:
        """Return delta, the share of positions at which the estimates may fall short."""
        return {"delta": verifier["delta"]}

    def meter(self, bench: Bench) -> Callable[[Example], Arrays]:
        """Return a function that gives shift, distance and margin, float64[m] each, of the positions of one answer."""
        whitening = Whitening(bench.embeddings)
        return lambda example: _measure(bench, whitening, bench.prompt(example))

    def constants(self, prompts: Sequence[Arrays], level: Mapping[str, float]) -> dict[str, Any]:
        """Return ARC's constants at risk level delta.

        Raises:
            ValueError: no position at which both estimates can be compared with the shift.
        """
        shift, distance, margin = (np.concatenate([p[key] for p in prompts]) for key in ("shift", "distance", "margin"))
        return constants_of(shift, distance, margin, level["delta"])


def _measure(bench: Bench, whitening: Whitening, prompt: Ints) -> Arrays:
    target, answer = bench.pipeline.target, _answer(bench, prompt)
    if not len(answer):
        return {"shift": np.empty(0), "distance": np.empty(0), "margin": np.empty(0)}
    target.prefill(prompt)
    at = np.unique(np.linspace(0, len(answer) - 1, bench.amounts.positions).astype(np.int64))
    rows = target.verify(DraftTree.chain(answer)).select(at).logits.float()
    first = greedy_choice(rows)
    chosen = torch.from_numpy(first).to(rows.device)
    second = greedy_choice(rows.scatter(1, chosen[:, None], -torch.inf))
    rival = torch.from_numpy(second).to(rows.device)
    tree = _branches(answer, at, first, second)
    view = target.verify(tree)
    led_to = (view.select(_rows_after(tree, answer, at, tokens)).logits for tokens in (first, second))
    margin = rows.double().gather(1, torch.stack([chosen, rival], 1)) @ rows.new_tensor([1, -1]).double()
    return {
        "shift": js_divergence(*led_to),
        "distance": whitening.distance(rival, chosen).double().cpu().numpy(),
        "margin": margin.cpu().numpy(),
    }


def constants_of(shift: Floats, distance: Floats, margin: Floats, delta: float) -> dict[str, Any]:
    """Return c_e, c_l, tau_delta, the bounds and the path budget from float[m] samples.

    Args:
        shift: Jensen-Shannon divergences of the next-step distributions, in nats.
        distance: squared whitened embedding distances.
        margin: differences in ln p.
        delta: share of samples above each constant.
    """
    squared = np.square(margin)
    # Where a denominator is 0 no constant makes the estimate large enough, so such a place says nothing about it.
    told = np.isfinite(squared) & (squared > 0) & (distance > 0)
    if not told.any():
        raise ValueError("the calibration found no position to compare: raise calibration.num_prompts")
    shift, distance, margin, squared = shift[told], distance[told], margin[told], squared[told]
    c_e, c_l = _high(shift / distance, delta), _high(shift / squared, delta)
    total = np.minimum(c_e * distance, c_l * squared)
    return {
        "c_e": c_e,
        "c_l": c_l,
        "tau_delta": _high(total, delta),
        "margin_bound": _high(margin, delta),
        "logit_bound": _high(c_l * squared, delta),
        "budget_table": path_budget(total),
    }


def path_budget(total: Floats) -> list[float]:
    """Return for 1, 2, ... tokens the 95 % quantile of the sum of as many shifts drawn from float[m]."""
    drawn = np.random.default_rng(_SEED).choice(_trimmed(total), (PATH_DRAWS, LONGEST_PATH))
    return np.quantile(drawn.cumsum(1), PATH_QUANTILE, axis=0).tolist()


def js_divergence(first: torch.Tensor, second: torch.Tensor) -> Floats:
    """Return float[m], the Jensen-Shannon divergence in nats of softmax rows of two [m, V] logits.

    Both are restricted to the union of their 128 likeliest tokens and renormalised.
    """
    size = min(SUPPORT, first.shape[1])
    tokens = torch.cat([first.topk(size, -1).indices, second.topk(size, -1).indices], -1).sort(-1).values
    twice = torch.zeros_like(tokens, dtype=torch.bool)
    twice[:, 1:] = tokens[:, 1:] == tokens[:, :-1]
    log_p, log_q = (
        logits.gather(1, tokens).double().masked_fill(twice, -torch.inf).log_softmax(-1) for logits in (first, second)
    )
    log_mean = torch.logaddexp(log_p, log_q) - np.log(2)
    both = (_divergence(log_p, log_mean) + _divergence(log_q, log_mean)) / 2
    return both.clamp(min=0).cpu().numpy()


def _divergence(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    return torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0).sum(-1)


def _answer(bench: Bench, prompt: Ints) -> Ints:
    """Return the tokens of the target's greedy answer, without its EOS."""
    wanted = DecodeSettings(max_new_tokens=bench.amounts.max_new_tokens)
    ids = np.array(bench.pipeline.baseline.generate(prompt, wanted).ids, np.int64)
    ended = len(ids) > 0 and int(ids[-1]) in bench.pipeline.target.eos_ids
    return ids[:-1] if ended else ids


def _branches(answer: Ints, at: Ints, *choices: Ints) -> DraftTree:
    """Return the tree of the answer and of every choice in the place of its token at each position."""
    ends = [[*answer[:place], token] for tokens in choices for place, token in zip(at, tokens, strict=True)]
    return DraftTree.from_candidates([answer.tolist(), *ends])


def _rows_after(tree: DraftTree, answer: Ints, at: Ints, tokens: Ints) -> Ints:
    """Return the row of a view after each token that stands in the place of the answer's at a position."""
    nodes = {edge: node for node, edge in enumerate(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))}
    spine = [-1]
    for token in answer.tolist():
        spine.append(nodes[spine[-1], token])
    return np.array([nodes[spine[place], token] + 1 for place, token in zip(at.tolist(), tokens.tolist(), strict=True)])


def _high(values: Floats, delta: float) -> float:
    """Return the 1 - delta quantile of a sample list without its highest ranks."""
    return float(np.quantile(_trimmed(values), 1 - delta))


def _trimmed(values: Floats) -> Floats:
    return np.sort(values)[: max(1, int(np.ceil(KEPT * len(values))))]
