"""The one decode loop: every drafter with every verifier, over one KV cache, with one counter and one clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from connectors.clock import Clock
from connectors.fitting import fit
from connectors.output import Output
from connectors.sampler import Sampler
from connectors.settings import DecodeSettings
from connectors.trace import Generation, PassRecord, Trace, VerifiedTree
from primitives.contract import Context, Drafter, DraftTree, Ints, Outcome, Target, TargetView, Verdict, Verifier
from primitives.verification.exact import ExactVerifier


class Connector:
    """Joins a target, a drafter and a verifier.

    Args:
        target: the model whose output is produced.
        drafter: proposes trees.
        verifier: accepts paths of them.
        decode: turns output ids into text, special tokens left out.
        max_nodes: most nodes in one forward, the pending token's included; at least 1.
        layout: how the target takes a tree, see `Target.layout`.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        verifier: Verifier,
        decode: Callable[[Sequence[int]], str],
        max_nodes: int,
        layout: str = "tree",
    ) -> None:
        self.target = target
        self.drafter = drafter
        self.verifier = verifier
        self.decode = decode
        self.max_nodes = max_nodes
        self.layout = layout

    def generate(self, prompt: Sequence[int] | Ints, settings: DecodeSettings) -> Generation:
        """Return the target's continuation of `prompt`.

        The pending token, which the target has already chosen, is a node of every tree, so that each pass commits at
        least one token. When it is EOS, or the last one of the budget, it is emitted without a pass.

        Raises:
            ValueError: settings out of range, an empty prompt, ids outside the vocabulary, or no room for an output.
        """
        problem = next(settings.problems(), None)
        if problem is not None:
            raise ValueError(problem)
        ids = np.asarray(prompt, np.int64)
        output = Output(ids, self._budget(ids, settings), self.target.eos_ids, settings.stop, self.decode)
        sampler = Sampler(settings, laws="q" in self.verifier.needs)
        clock, trace = Clock(self.target.synchronize), Trace(sources=self.drafter.sources)
        self.target.layout = self.layout
        self.target.capture(self.drafter.layers)
        self.verifier.start(ids)
        view = self.target.prefill(ids)
        try:
            self.drafter.start(ids, view)
            trace.prefill_ms = clock.lap()
            self._decode(output, view.last, sampler, clock, trace)
        finally:
            self.drafter.finish()
        trace.tail_ms = clock.lap()
        assert output.finish is not None
        return Generation(output.ids, output.text, output.finish, trace)

    def _decode(self, output: Output, state: TargetView, sampler: Sampler, clock: Clock, trace: Trace) -> None:
        """Run passes until the text ends; `state` is the view of one row after the committed text.

        A drafter sees what the target says, a verifier what the score processors make of it.
        """
        judged = sampler.warp(state, output.committed, DraftTree.empty())
        pending = sampler.choose(judged)
        while not output.ends_with(pending):
            features = None if state.features is None else state.features[0]
            tokens, remaining = output.with_pending(pending), output.remaining
            context = Context(tokens, state.logits[0], state.hidden[0], remaining, features, sampler.decoding)
            proposal = self.drafter.propose(context)
            tree = fit(proposal, context, self.verifier, self.max_nodes, judged if sampler.greedy else None)
            draft_ms = clock.lap()
            view = self.target.verify(tree)
            verify_ms = clock.lap()
            warped = sampler.warp(view, tokens[:-1], tree)
            if self._compares and not sampler.greedy:
                warped = sampler.draw_each(warped, pending)
            verdict = self._judge(tree, warped, sampler)
            judge_ms = clock.lap()
            path = self._commit(tree, view, verdict, output)
            # Not context.pending: the context's tokens are a view into the buffer that the commit has written to.
            own = pending
            if not output.finish:
                state, judged = view.select(path[-1:] + 1), warped.select(path[-1:] + 1)
                pending = sampler.choose(judged, verdict.residual)
            commit_ms = clock.lap()
            laps = (draft_ms, verify_ms, judge_ms, commit_ms)
            trace.passes.append(_record(proposal, tree, path, verdict, own, trace.sources, laps))
            trace.trees.append(VerifiedTree.of(tree, own, path))
            if output.finish:
                return
        output.extend(np.array([pending]))

    @property
    def _compares(self) -> bool:
        """Whether drafted tokens are compared with those that the target would write."""
        return self.verifier.guarantee == "lossy" and self.verifier.grain == "token" and not self.verifier.by_chance

    def _judge(self, tree: DraftTree, view: TargetView, sampler: Sampler) -> Verdict:
        """Return what is accepted of the tree."""
        guarantee = self.verifier.guarantee
        if guarantee != "lossy" and len(tree) == 1:
            # The pending token alone: it is certain, and there is nothing to judge.
            return Verdict(np.zeros(1, np.int64), np.zeros(1, np.uint8))
        if sampler.greedy and (guarantee == "distribution" or self.verifier.by_chance):
            # Where one token has all probability, a rule that leaves it to chance is exact matching.
            return ExactVerifier().judge(tree, view, sampler.rng)
        if guarantee == "exact" and not sampler.greedy:
            raise ValueError(
                f"verifier '{self.verifier.name}' accepts only what greedy decoding writes, and the temperature is not "
                "0: take tree_sampling, which keeps the distribution"
            )
        return self.verifier.judge(tree, view, sampler.rng)

    def _commit(self, tree: DraftTree, view: TargetView, verdict: Verdict, output: Output) -> Ints:
        """Add the accepted path to text and cache, as far as the text goes; return what was added of it."""
        if not len(verdict.path):
            raise RuntimeError(
                f"{type(self.verifier).__name__} accepted nothing, although the pending token is certain"
            )
        path = verdict.path[: output.extend(tree.tokens[verdict.path])]
        self.target.commit(path)
        self.drafter.observe(Outcome(tree, view, path))
        return path

    def _budget(self, ids: Ints, settings: DecodeSettings) -> int:
        limit, size = self.target.max_positions, self.target.vocab_size
        if not len(ids):
            raise ValueError("the prompt is empty; give at least one token")
        if ids.min() < 0 or ids.max() >= size:
            wrong = ids[(ids < 0) | (ids >= size)][0]
            raise ValueError(f"the prompt holds token id {wrong}, but the model's ids go from 0 to {size - 1}")
        if settings.logit_bias and max(settings.logit_bias) >= size:
            raise ValueError(
                f"logit_bias names token {max(settings.logit_bias)}, but the model's ids go from 0 to {size - 1}"
            )
        if limit is not None and len(ids) >= limit:
            raise ValueError(
                f"the prompt has {len(ids)} tokens and the model takes {limit} positions, which leaves no room for an "
                "output; shorten the prompt"
            )
        return settings.max_new_tokens if limit is None else min(settings.max_new_tokens, limit - len(ids))


def _record(
    proposal: DraftTree,
    tree: DraftTree,
    path: Ints,
    verdict: Verdict,
    pending: int,
    sources: Sequence[str],
    laps: tuple[float, float, float, float],
) -> PassRecord:
    leaf_depths = proposal.depths[proposal.leaves]
    undrafted = int(tree.tokens[path[0]] == pending)
    return PassRecord(
        candidates=len(leaf_depths),
        candidate_tokens=int(leaf_depths.sum()),
        proposed_nodes=len(proposal),
        nodes=len(tree),
        depth=int(tree.depths.max()),
        proposed=len(tree) - 1,
        accepted=len(path) - undrafted,
        committed=len(path),
        pathways=verdict.pathways[: len(path)].tolist(),
        drafted_by=_drafted_by(tree, path, pending, sources),
        draft_ms=laps[0],
        verify_ms=laps[1],
        judge_ms=laps[2],
        commit_ms=laps[3],
    )


def _drafted_by(tree: DraftTree, path: Ints, pending: int, sources: Sequence[str]) -> list[str]:
    """Return for each committed token the sources that proposed it, joined by "+"; "" for the pending token."""
    names = ["+".join(sources)] * len(path)
    if tree.sources is not None:
        names = ["+".join(n for b, n in enumerate(sources) if bits >> b & 1) for bits in tree.sources[path].tolist()]
    return ["" if level == 0 and tree.tokens[path[0]] == pending else name for level, name in enumerate(names)]
