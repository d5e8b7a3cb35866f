"""A causal language model that drafts: its cache follows a text that another model decides on."""

from __future__ import annotations

import numpy as np
import torch
from transformers import PreTrainedModel

from primitives.contract import DraftTree, Ints, TargetView
from primitives.models.causal_lm import CausalLMTarget, grouped_attention


class DraftLM(CausalLMTarget):
    """A draft model and its own KV cache.

    What has been fed stays until the next text is read; of it stays what that text repeats. So the cache is rolled back
    by its own amount, whatever became of a draft: rejected, accepted whole, cut, not looked at, or broken off.

    Args:
        model: as for the target.

    Attributes:
        hidden: [m, h], the final hidden states after each of the m ids that were last fed behind the text.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model, eos_ids=())
        self._ids: Ints = np.zeros(1024, np.int64)
        self._text = 0
        self._tree = DraftTree.empty()
        self.hidden = torch.empty(0)

    def forget(self) -> None:
        """Drop all that has been read."""
        self._text = 0
        self._tree = DraftTree.empty()
        self.cache.truncate(0)

    @torch.inference_mode()
    def read(self, text: Ints) -> torch.Tensor:
        """Return [V], the logits after int64[T] ids, of which only those that the cache does not hold are fed."""
        self._settle(text[:-1])
        return self.feed(text[self._text :])

    @torch.inference_mode()
    def feed(self, ids: Ints) -> torch.Tensor:
        """Feed int64[m] more ids, at least one, behind a text that has been read; return [V], the logits after them."""
        self._note(self._text, ids)
        view = self._forward(self._readable(ids), logits_to_keep=1)
        self._text += len(ids)
        self.hidden = view.hidden
        return view.logits[0]

    @torch.inference_mode()
    def grow(self, tokens: Ints, parents: Ints) -> torch.Tensor:
        """Feed int64[m] nodes of a tree behind the text; return [m, V], the logits after each.

        Args:
            tokens: ids of the nodes.
            parents: the node that each stands behind, counted over all nodes fed since the text; -1 is the text.
        """
        known = len(self._tree)
        tree = DraftTree(np.concatenate([self._tree.tokens, tokens]), np.concatenate([self._tree.parents, parents]))
        with grouped_attention(self.device):
            view = self._forward(self._readable(tokens), **self._branch_arguments(tree, known))
        self._tree = tree
        return view.logits

    def prefill(self, ids: Ints) -> TargetView:
        """Forget everything and read int64[T] ids, as a target does."""
        self._text = 0
        self._tree = DraftTree.empty()
        return super().prefill(ids)

    def _note(self, start: int, ids: Ints) -> None:
        stop = start + len(ids)
        if stop > len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros(stop, np.int64)])
        self._ids[start:stop] = ids

    def _readable(self, ids: Ints) -> Ints:
        """Return ids with those beyond the embedding, which a padded target may write, as the last one of it."""
        return np.minimum(ids, self.vocab_size - 1)

    def _settle(self, text: Ints) -> None:
        """Keep of the cache what it has in common with the text, along the fed branch that the text took."""
        same = self._ids[: min(self._text, len(text))] == text[: self._text]
        agreed = len(same) if same.all() else int(same.argmin())
        rows: list[int] = []
        if agreed == self._text:
            rows = self._branch(text[agreed:])
            self._note(agreed, self._tree.tokens[rows])
        self._tree = DraftTree.empty()
        self._text = agreed
        # After an error in a forward the cache may hold more or fewer rows than were counted.
        if rows and self.cache.length >= agreed + max(rows) + 1:
            self.cache.commit(agreed, torch.tensor(rows, device=self.device) + agreed)
            self._text += len(rows)
        else:
            self.cache.truncate(min(agreed, self.cache.length))

    def _branch(self, text: Ints) -> list[int]:
        """Return the fed nodes along which a text continues."""
        path, node = [], -1
        for token in text:
            below = np.flatnonzero((self._tree.parents == node) & (self._tree.tokens == token))
            if not len(below):
                break
            node = int(below[0])
            path.append(node)
        return path

    def _branch_arguments(self, tree: DraftTree, known: int) -> dict[str, torch.Tensor]:
        """Return mask and positions of the nodes from `known` on: each sees the text, its ancestors and itself."""
        if tree.is_chain:
            return {}
        mask = torch.zeros((1, 1, len(tree) - known, self._text + len(tree)), dtype=self.model.dtype)
        hidden_from = torch.from_numpy(~tree.ancestor_mask[known:])
        mask[0, 0, :, self._text :].masked_fill_(hidden_from, torch.finfo(self.model.dtype).min)
        positions = torch.from_numpy(self._text + tree.depths[known:] - 1)
        return {"attention_mask": mask.to(self.device), "position_ids": positions[None].to(self.device)}
