"""SpS: a small language model drafts a chain, token by token.

Sources: speculative decoding (arXiv:2211.17192, Alg. 1) and speculative sampling (arXiv:2302.01318, Alg. 2); schedules,
confidence stop and re-tokenisation of assisted generation in transformers 5.
"""

from __future__ import annotations

from math import inf, log
from typing import Any

import numpy as np
import torch

from primitives.contract import Context, DraftTree, Ints, Outcome, TargetView
from primitives.drafting._draft_length import SCHEDULES, DraftLength
from primitives.drafting._draft_model import LoadedDraft, ModelDrafter, certain
from primitives.drafting._retokenised import Retokeniser
from primitives.knobs import check_choice, check_range
from primitives.registry import DRAFTERS
from primitives.statistics import draw, greedy_choice, probabilities


@DRAFTERS.register("sps")
class SpsDrafter(ModelDrafter):
    """Drafts as the target decodes: the best token where that is greedy, a draw by the same processors where not.

    Args:
        draft_model: the language model.
        tokenizer: the target's.
        vocab_size: ids that the target takes.
        eos_ids: ids that end a text, and so a draft.
        num_tokens: tokens drafted below the pending one, at first.
        schedule: how that number goes on: "constant", "heuristic" or "heuristic_transient".
        confidence: a draft ends with a token of less probability under the draft model; 0 is off.
        tokenizers: "same" refuses a draft model with another tokenizer, "retokenise" goes by way of the text.
        max_nodes: most nodes that go through the target's forward, the pending token's included; more are not drafted.

    Raises:
        ValueError: a setting out of its range, or a draft model with another tokenizer.
    """

    def __init__(
        self,
        draft_model: LoadedDraft | None,
        tokenizer: Any,
        vocab_size: int,
        eos_ids: frozenset[int],
        num_tokens: int = 5,
        schedule: str = "constant",
        confidence: float = 0.0,
        tokenizers: str = "same",
        max_nodes: int | None = None,
    ) -> None:
        check_range("drafter 'sps'", 1, inf, num_tokens=num_tokens)
        check_range("drafter 'sps'", 0, 1, confidence=confidence)
        check_choice("drafter 'sps'", SCHEDULES, schedule=schedule)
        check_choice("drafter 'sps'", ("same", "retokenise"), tokenizers=tokenizers)
        self._confidence = confidence
        self._least = log(confidence) if confidence else -inf
        self.retokenises = tokenizers == "retokenise"
        # A law over the draft model's ids says nothing about the target's.
        self.provides = frozenset({"chain"} if self.retokenises else {"q", "chain"})
        super().__init__(draft_model, tokenizer, vocab_size)
        self._eos_ids = eos_ids
        self._length = DraftLength(num_tokens, schedule, inf if max_nodes is None else max_nodes - 1)
        self._draft: Ints = np.empty(0, np.int64)
        self._words: Retokeniser | None = None
        if draft_model is not None and self.retokenises:
            self._words = Retokeniser(tokenizer, draft_model.tokenizer, vocab_size)

    def check_tokenizers(self, target: Any, draft: Any) -> None:
        """Raise ValueError if the draft model has another tokenizer, unless drafts go by way of the text."""
        if not self.retokenises:
            super().check_tokenizers(target, draft)

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Read the prompt."""
        self._length.start()
        self._draft = self._draft[:0]
        super().start(prompt if self._words is None else self._words.start(prompt), view)

    def propose(self, context: Context) -> DraftTree:
        """Return a chain of the pending token and the draft below it; empty beyond the draft model's positions."""
        self._draft = self._draft[:0]
        count = min(self._length.value, context.budget - 1)
        if count < 1 or context.pending in self._eos_ids:
            return DraftTree.empty()
        tree = self._drawn(context, count) if self._words is None else self._translated(context, count, self._words)
        self._draft = tree.tokens
        return tree

    def observe(self, outcome: Outcome) -> None:
        """Adapt the length of the draft."""
        self._length.learn(self._draft, outcome)

    def _drawn(self, context: Context, count: int) -> DraftTree:
        """Return the chain of tokens that the draft model draws or chooses, with its laws where they are asked for."""
        text = np.concatenate([context.tokens, np.zeros(count, np.int64)])
        done, laws, log_q = len(context.tokens), [], [0.0]
        for step in range(int(min(count, self.room(context.tokens)))):
            logits = self.lm.read(text[:done]) if step == 0 else self.lm.feed(text[done - 1 : done])
            token, law, share = self._next(context, logits, text[:done])
            laws.append(law)
            log_q.append(share)
            text[done] = token
            done += 1
            if token in self._eos_ids or share < self._least:
                break
        if not laws:
            return DraftTree.empty()
        tokens = text[len(context.tokens) - 1 : done]
        q = None if laws[0] is None else torch.cat([certain(context.pending, laws[0]), *laws])
        shares = np.array(log_q)
        return DraftTree(
            tokens,
            np.arange(-1, len(tokens) - 1),
            log_q=shares,
            q=q,
            scores=np.exp(shares.cumsum()),
        )

    def _next(self, context: Context, logits: torch.Tensor, text: Ints) -> tuple[int, Any, float]:
        """Return the next drafted token, the law that it is the best or a draw of if asked for, and log q of it."""
        decoding, processed = context.decoding, self.laws(context, logits[None], text[None])
        if decoding.greedy:
            token = int(greedy_choice(processed)[0])
            best = processed[0].float()
            law = probabilities(processed) if decoding.laws else None
            return token, law, float(best[token] - best.logsumexp(-1))
        law = probabilities(processed)
        token = draw(law[0], decoding.rng)
        return token, law, float(law[0, token].log())

    def _translated(self, context: Context, count: int, words: Retokeniser) -> DraftTree:
        """Return the chain that the draft model's best tokens come to in the target's tokenizer, as certain."""
        text = words.text_of(context.tokens)
        ids: list[int] = []
        logits: torch.Tensor | None = None
        for step in range(int(min(count, self.room(text)))):
            logits = self.lm.read(text) if step == 0 else self.lm.feed(np.array(ids[-1:]))
            token = int(greedy_choice(logits[None])[0])
            if token in words.specials:
                break
            ids.append(token)
            if self._confidence and float(logits.float().softmax(-1)[token]) < self._confidence:
                break
        drafted = words.back(context.tokens, ids)
        return DraftTree.chain(np.concatenate([context.tokens[-1:], drafted])) if len(drafted) else DraftTree.empty()
