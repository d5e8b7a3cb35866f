"""What a head is trained for: EAGLE-3's training-time test, and EAGLE-1/2's regression, which is one step of it.

Sources: arXiv 2503.01840, section 3.2; arXiv 2401.15077, section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from methods.training.data import Batch
from methods.training.settings import TrainingSettings
from primitives.models.eagle3_head import Eagle3Head
from primitives.models.eagle_head import EagleHead
from primitives.models.recording import Recording


@dataclass(eq=False)
class Unrolled:
    """What one batch shows.

    Attributes:
        losses: of each step, unweighted; of a part of a batch its share in that of the whole, so that they add up.
        hits: bool[B, W] for each step: the head's best token there is the target's; False outside the texts.
    """

    losses: list[float]
    hits: list[torch.Tensor]


class Objective:
    """Runs a head over a batch, step by step, and leaves gradients behind.

    In step j the chain that starts at pair s stands at pair s + j. Its token is the text's, its state is the target's
    in step 0 and then the head's own of the step before. It sees the pairs up to s as step 0 has made them, and of its
    own chain the pairs s + 1 to s + j. So one step is one attention over the text's keys and j more per chain.

    Args:
        settings: depth, decay, noise and weights.
        output: float32[V, h'], the target's output embeddings.
    """

    def __init__(self, settings: TrainingSettings, output: torch.Tensor) -> None:
        self.settings = settings
        self.output = output

    def __call__(
        self,
        head: EagleHead,
        batch: Batch,
        rng: torch.Generator | None,
        depth: int,
        whole: Sequence[int] | None = None,
    ) -> Unrolled:
        """Return losses and hits; with `rng` given, which draws the noise, gradients are added to the head's.

        Args:
            head: the head.
            batch: answers.
            rng: of the noise.
            depth: most steps.
            whole: the `counts` of all answers of an optimiser step, of which this batch is a part; None: it is all.
        """
        learning = rng is not None
        rated = self._rated(head)
        seen = Unrolled([], [])
        outs, slopes = [], []
        with torch.set_grad_enabled(learning):
            chain = _Chain(head, batch, self._noisy(batch, rng))
            for step in range(depth):
                states = chain.advance()
                valid = chain.inside
                if not bool(valid.any()):
                    break
                leaf = states[valid].detach().requires_grad_(learning)
                total, count, best = self._loss(head, leaf, chain.states[valid], chain.wanted[valid], rated)
                loss = total / max(1, count if whole is None else whole[step])
                hits = torch.zeros_like(batch.inside)
                hits[valid.nonzero(as_tuple=True)] = head.target_ids(best) == chain.wanted[valid]
                seen.hits.append(hits)
                seen.losses.append(float(loss.detach()))
                if learning:
                    # Backwards through the output matrix at once, so that only one step's logits are ever held.
                    (self.settings.decay**step * loss).backward()
                    outs.append(states[valid])
                    slopes.append(leaf.grad)
            if learning:
                torch.autograd.backward(outs, slopes)
        return seen

    def counts(self, head: EagleHead, answers: Sequence[Recording], depth: int) -> list[int]:
        """Return for each step how many places of some answers count in its loss."""
        wanted = [one.tokens[one.answer + 1 :] for one in answers]
        known = head.t2d.cpu().numpy() if isinstance(head, Eagle3Head) else np.ones(len(head.embedding), bool)
        marks = [known[ids] for ids in wanted]
        return [sum(int(mark[step:].sum()) for mark in marks) for step in range(depth)]

    def _noisy(self, batch: Batch, rng: torch.Generator | None) -> torch.Tensor:
        width = self.settings.noise
        if rng is None or not width:
            return batch.features
        # Text by text, so that the noise of one does not hang on which others it is padded with.
        lengths, wide = (batch.starts.amax(1) + 1).tolist(), batch.features.shape[2]
        noise = pad_sequence([torch.rand(length, wide, generator=rng) - 0.5 for length in lengths], batch_first=True)
        return batch.features + noise.to(batch.features.device) * 2 * width

    def _rated(self, head: EagleHead) -> torch.Tensor:
        """Return the target's output rows [V_d, h'] for the head's columns."""
        columns = torch.arange(head.config.draft_vocab_size, device=self.output.device)
        return self.output[head.target_ids(columns)] if isinstance(head, Eagle3Head) else self.output

    def _loss(
        self, head: EagleHead, states: torch.Tensor, truth: torch.Tensor, wanted: torch.Tensor, rated: torch.Tensor
    ) -> tuple[torch.Tensor, int, torch.Tensor]:
        """Return the sum of the losses of [m, h] states, how many count, and the columns int64[m] that they rate best.

        The cross entropy is against the target's own distribution over the head's columns. Where the token that the
        target chose is not among them there is nothing to learn, and the place does not count.
        """
        logits = head.logits(states).float()
        with torch.no_grad():
            law = F.linear(truth, rated).float().softmax(-1)
        losses = logits.logsumexp(-1) - (law * logits).sum(-1)
        if isinstance(head, Eagle3Head):
            known = head.t2d[wanted]
            total, count = (losses * known).sum(), int(known.sum())
        else:
            regression = F.smooth_l1_loss(states, truth, reduction="sum") / states.shape[1]
            total, count = regression + self.settings.token_weight * losses.sum(), len(states)
        return total, count, logits.detach().argmax(-1)


class _Chain:
    """All chains of a batch at one step."""

    def __init__(self, head: EagleHead, batch: Batch, features: torch.Tensor) -> None:
        self._head = head
        self._batch = batch
        self._step = -1
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        count, width = batch.starts.shape
        place = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        self._visible = (place <= batch.starts[:, :, None])[:, None]
        self._rows = torch.arange(count, device=place.device)[:, None].expand(count, width)
        self._out = head.fused(features)
        self._tokens = batch.tokens[self._rows, batch.starts]
        self.inside, self.wanted, self.states = batch.inside, batch.wanted, batch.states

    def advance(self) -> torch.Tensor:
        """Take one step; return the head's states [B, W, h] after it."""
        self._step += 1
        if self._step == 0:
            self._out = self._first()
        else:
            self._tokens, self.wanted = _shifted(self._tokens), _shifted(self.wanted)
            self.inside, self.states = _shifted(self.inside), _shifted(self.states)
            inputs, residual = self._head.inputs(self._tokens, self._out)
            turns = self._head.rotary(residual, self._batch.starts + self._step)
            queries, keys, values = self._head.layer.self_attn.heads(inputs, *turns)
            self._keys.append(keys)
            self._values.append(values)
            self._out = self._head.layer.finish(residual, self._attended(queries))
        return self._out

    def _first(self) -> torch.Tensor:
        batch = self._batch
        inputs, residual = self._head.inputs(batch.tokens, self._out)
        positions = torch.arange(batch.tokens.shape[1], device=batch.tokens.device).expand(len(batch.tokens), -1)
        queries, keys, values = self._head.layer.self_attn.heads(inputs, *self._head.rotary(residual, positions))
        self._keys, self._values = [keys], [values]
        chosen = queries.transpose(1, 2)[self._rows, batch.starts].transpose(1, 2)
        return self._head.layer.finish(residual[self._rows, batch.starts], self._attended(chosen))

    def _attended(self, queries: torch.Tensor) -> torch.Tensor:
        """Return [B, H, W, d]: attention to the text up to the start, and to the chain's own pairs."""
        groups = queries.shape[1] // self._keys[0].shape[1]
        keys, values = ([part.repeat_interleave(groups, 1) for part in parts] for parts in (self._keys, self._values))
        scale = queries.shape[-1] ** -0.5
        text = (queries @ keys[0].transpose(2, 3)).masked_fill(~self._visible, -torch.inf)
        own = [(queries * key).sum(-1, keepdim=True) for key in keys[1:]]
        weights = (torch.cat([text, *own], dim=-1) * scale).softmax(-1)
        length = keys[0].shape[2]
        attended = weights[..., :length] @ values[0]
        for place, value in enumerate(values[1:]):
            attended = attended + weights[..., length + place, None] * value
        return attended


def _shifted(rows: torch.Tensor) -> torch.Tensor:
    """Return [B, W, ...] rows one place further to the left, the last place empty."""
    return torch.cat([rows[:, 1:], torch.zeros_like(rows[:, :1])], dim=1)
