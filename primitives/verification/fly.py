"""FLy: where the target is unsure, a mismatch passes if the tokens drafted behind it are all the target's own.

Source: FLy (arXiv 2511.22972) and its released code, which differ (spec 4.2).
"""

from __future__ import annotations

from math import inf, log

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Floats, Ints, Pathway, TargetView, Verdict, Verifier
from primitives.knobs import check_choice, check_range
from primitives.registry import VERIFIERS
from primitives.statistics import draw_each, greedy_choice, normalised_entropy, own_choice, probabilities
from primitives.verification._paths import verdict_of
from primitives.verification._relaxed import RelaxedPaths, longest, windows
from primitives.verification._rows import log_total_and_entropy, on_device, permitted, rows_of

FORMS = ("paper", "released")
ENTROPY_MODES = ("top3_nats", "normalized")


@VERIFIERS.register("fly")
class FlyVerifier(Verifier):
    """Accepts the target's choice, and a mismatch with ``entropy >= theta`` before a window without mismatches.

    The window holds the `window` tokens behind the mismatch, or, where it includes the mismatch itself, one fewer. In
    both forms a mismatch whose window leaves the draft is rejected; the released code also rejects every mismatch among
    the last `window` tokens of a path. The window looks at mismatches before any of them is let in.

    Args:
        form: "released" or "paper".
        theta: gate, reached by the entropy; between 0 and 1, or ln 3 in "top3_nats"; at inf the rule is exact matching.
        window: W or win_len, at least 1.
        entropy_mode: "top3_nats", the sum of ``-p ln p`` over the three likeliest tokens, or "normalized", the entropy
            as a share of ln V. None is as the form has it: the first in the released code, the second in the paper.
        window_includes_self: whether `window` counts the mismatch. None: in the released code yes, in the paper no.
        dual: where the text is sampled, draw a second token at each place, and take a match with either for the
            target's own choice. None: in the released code yes, in the paper no.

    Raises:
        ValueError: a setting out of its range.
    """

    guarantee = "lossy"
    needs = frozenset({"lookahead"})
    neutral = ({"theta": inf}, {"form": "paper", "theta": inf})

    def __init__(
        self,
        form: str = "released",
        theta: float = 0.3,
        window: int = 6,
        entropy_mode: str | None = None,
        window_includes_self: bool | None = None,
        dual: bool | None = None,
    ) -> None:
        self.released = form == "released"
        if entropy_mode is None:
            entropy_mode = "top3_nats" if self.released else "normalized"
        check_choice("verifier 'fly'", FORMS, form=form)
        check_choice("verifier 'fly'", ENTROPY_MODES, entropy_mode=entropy_mode)
        most = log(3) if entropy_mode == "top3_nats" else 1
        if not (0 <= theta <= most or theta == inf):
            raise ValueError(
                f"verifier 'fly': theta={theta} is out of range; it must lie between 0 and {most:g}, the largest "
                f"entropy in {entropy_mode}, or be inf, which lets no mismatch in"
            )
        check_range("verifier 'fly'", 1, inf, window=window)
        self.theta = theta
        self.window = window
        self.dual = self.released if dual is None else dual
        self.followers = window - (self.released if window_includes_self is None else window_includes_self)
        self._entropy = top3_entropy if entropy_mode == "top3_nats" else normalised_entropy

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the longest path; ties go to more exact matches, then to the higher score, then to the first."""
        exact = tree.tokens == own_choice(view)[tree.rows]
        if self.dual and view.drawn is not None:
            exact |= tree.tokens == draw_each(probabilities(view.logits), rng)[tree.rows]

        def rule(nodes: Ints) -> tuple[Bools, Bools]:
            logits, rows = rows_of(view, tree.rows[nodes])
            unsure = (self._entropy(logits) >= self.theta)[rows]
            return np.zeros(len(nodes), bool), unsure & permitted(logits, rows, tree.tokens[nodes])

        nowhere = np.zeros(len(tree), bool)
        race = RelaxedPaths(tree, exact, rule, nowhere, self._isolated(tree.paths, exact), eager=on_device(view))
        path = race.winner(longest)
        return verdict_of(path, exact[path], Pathway.WINDOW)

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return all rivals of the pending token if the gate is open: what follows them is not known yet."""
        possible = permitted(logits[None], np.zeros(len(tokens), np.int64), tokens)
        return (tokens == greedy_choice(logits[None])[0]) | (possible & (self._entropy(logits[None])[0] >= self.theta))

    def _isolated(self, paths: Ints, exact: Bools) -> Bools:
        """Return bool[P, L]: cells with nothing but matches in the window behind them."""
        valid = paths >= 0
        match = valid & exact[np.where(valid, paths, 0)]
        alone = windows(~match, 0, self.followers, True) <= 1
        if self.released:
            alone &= np.arange(paths.shape[1]) < valid.sum(1, keepdims=True) - self.window
        return alone


def top3_entropy(logits: torch.Tensor) -> Floats:
    """Return float[r], the part in nats of the three likeliest tokens in the entropy of [r, V] logits' softmax."""
    log_total, _ = log_total_and_entropy(logits)
    log_p = logits.topk(min(3, logits.shape[-1])).values.double().cpu().numpy() - log_total[:, None]
    # A token that a processor has forbidden adds nothing, but 0 * inf would be no number.
    log_p = np.maximum(log_p, -200)
    return -(np.exp(log_p) * log_p).sum(1)
