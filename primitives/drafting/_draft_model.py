"""What drafters with a language model of their own have in common: its vocabulary, its limits, its laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import torch

from primitives.contract import Context, Drafter, Ints, TargetView
from primitives.drafting._vocabulary import proposable, refuse_other_tokenizer

if TYPE_CHECKING:
    from primitives.models.draft_lm import DraftLM

NEVER: Final = float("-inf")


class LoadedDraft(Protocol):
    """A loaded language model, `primitives.models.loading.LoadedModel`, whose import takes seconds."""

    @property
    def model(self) -> Any: ...

    @property
    def tokenizer(self) -> Any: ...


class ModelDrafter(Drafter):
    """A drafter with a language model that shares the target's tokenizer.

    Args:
        draft_model: the language model; None to look at the settings alone.
        tokenizer: the target's.
        vocab_size: ids that the target takes.

    Raises:
        ValueError: the draft model has another tokenizer.
    """

    def __init__(self, draft_model: LoadedDraft | None, tokenizer: Any, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        if draft_model is not None:
            # Settings are looked at before any model is loaded, and transformers takes seconds to import.
            from primitives.models.draft_lm import DraftLM

            self.check_tokenizers(tokenizer, draft_model.tokenizer)
            self.lm: DraftLM = DraftLM(draft_model.model)
            width = min(self.lm.model.config.get_text_config().vocab_size, vocab_size)
            self._width = width
            self._phantoms = torch.from_numpy(np.flatnonzero(~proposable(tokenizer, width))).to(self.lm.device)

    def check_tokenizers(self, target: Any, draft: Any) -> None:
        """Raise ValueError if the draft model's tokenizer does not go with the target's; no model is needed."""
        refuse_other_tokenizer(self.name, target, draft)

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Read the prompt, unless it is longer than the draft model takes."""
        self.lm.forget()
        if self.room(prompt) > 0:
            self.lm.read(prompt)

    def finish(self) -> None:
        """Forget the text."""
        self.lm.forget()

    def room(self, text: Ints) -> float:
        """Return how many tokens can be drafted behind a text before the draft model runs out of positions."""
        limit = self.lm.max_positions
        return float("inf") if limit is None else limit - len(text) + 1

    def laws(self, context: Context, logits: torch.Tensor, texts: Ints) -> torch.Tensor:
        """Return [m, V] logits over the target's ids, processed as the target's own are at that place.

        Args:
            context: of the pass.
            logits: [m, V_d], the draft model's.
            texts: int64[m, T], the texts behind which they stand.
        """
        logits = logits[:, : self._width]
        if len(self._phantoms):
            logits = logits.index_fill(1, self._phantoms, NEVER)
        if self._width < self._vocab_size:
            logits = torch.nn.functional.pad(logits, (0, self._vocab_size - self._width), value=NEVER)
        return context.decoding.process(logits, texts)


def certain(token: int, like: torch.Tensor) -> torch.Tensor:
    """Return float64[1, V], the law that has all probability on a token."""
    law = torch.zeros((1, like.shape[-1]), dtype=torch.float64, device=like.device)
    law[0, token] = 1
    return law
