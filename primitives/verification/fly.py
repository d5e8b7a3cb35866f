"""FLy: where the target is unsure, a mismatch passes if the tokens drafted behind it are all the target's own.

Source: FLy (arXiv 2511.22972) and its released code, which differ (spec 4.2).
"""

from __future__ import annotations

from math import inf, log

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Ints, Pathway, TargetView, Verdict, Verifier
from primitives.knobs import check_choice, check_range
from primitives.registry import VERIFIERS
from primitives.statistics import draw_each, log_total_and_entropy, normalised_entropy, probabilities
from primitives.verification._look import Asked, Look, look_at_rivals
from primitives.verification._paths import verdict_of
from primitives.verification._relaxed import RelaxedPaths, longest, windows

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
        look = Look(tree, view.logits, self._unsure, drawn=view.drawn)
        exact = tree.tokens == look.choice
        if self.dual and view.drawn is not None:
            exact |= tree.tokens == draw_each(probabilities(view.logits), rng)[tree.rows]

        def rule(nodes: Ints) -> tuple[Bools, Bools]:
            return np.zeros(len(nodes), bool), look(self._unsure, nodes)[0] & look.possible[nodes]

        race = RelaxedPaths(tree, exact, rule, np.zeros(len(tree), bool), self._isolated(tree.paths, exact))
        path = race.winner(longest)
        return verdict_of(path, exact[path], Pathway.WINDOW)

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return all rivals of the pending token if the gate is open: what follows them is not known yet."""
        look = look_at_rivals(tokens, logits, self._unsure)
        return (tokens == look.choice) | (look.possible & look(self._unsure, np.arange(len(tokens)))[0])

    def _unsure(self, asked: Asked) -> tuple[torch.Tensor]:
        return ((self._entropy(asked.logits) >= self.theta)[asked.rows],)

    def _isolated(self, paths: Ints, exact: Bools) -> Bools:
        """Return bool[P, L]: cells with nothing but matches in the window behind them."""
        valid = paths >= 0
        match = valid & exact[np.where(valid, paths, 0)]
        alone = windows(~match, 0, self.followers, True) <= 1
        if self.released:
            alone &= np.arange(paths.shape[1]) < valid.sum(1, keepdims=True) - self.window
        return alone


def top3_entropy(logits: torch.Tensor) -> torch.Tensor:
    """Return float64[r], the part in nats of the three likeliest tokens in the entropy of [r, V] logits' softmax."""
    log_total, _ = log_total_and_entropy(logits)
    log_p = logits.topk(min(3, logits.shape[-1])).values.double() - log_total[:, None]
    # A token that a processor has forbidden adds nothing, but 0 * inf would be no number.
    log_p.clamp_(min=-200)
    return -(log_p.exp() * log_p).sum(1)
