"""The target adapter: one class over stock transformers for any dense decoder whose cache can be rolled back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import numpy as np
import torch
from transformers import PreTrainedModel

from primitives.contract import DraftTree, Ints, Target, TargetView
from primitives.models.batch_layout import ForkedCache, PathBatch
from primitives.models.layouts import LAYOUTS
from primitives.models.pooled_cache import PooledCache, cache_keyword, refuse_uncroppable
from primitives.models.self_check import refuse_unfaithful

GROUPED: Final = "TRANSFORMERS_SDPA_FORCE_GQA"


class CausalLMTarget(Target):
    """A causal language model, its KV cache, and what it said after the committed text.

    Args:
        model: any `AutoModelForCausalLM` with full attention in every layer, on its device, in eval mode.
        eos_ids: ids that end a text; None takes those of the model's generation config.

    Raises:
        ValueError: if the model's cache cannot be rolled back (sliding window, recurrent or hybrid layers), or its
            attention does not follow mask and positions.
    """

    def __init__(self, model: PreTrainedModel, eos_ids: Iterable[int] | None = None) -> None:
        config = model.config.get_text_config()
        refuse_uncroppable(config)
        self.model = model
        self.device = model.device
        self.vocab_size = cast(torch.nn.Embedding, model.get_input_embeddings()).num_embeddings
        self.eos_ids = frozenset(configured_eos(model) if eos_ids is None else eos_ids)
        self.max_positions = getattr(config, "max_position_embeddings", None)
        self.cache = PooledCache(config.num_hidden_layers)
        self._cache_keyword = cache_keyword(model)
        self._last: TargetView | None = None
        self._view: TargetView | None = None
        self._decoder = model.get_decoder()
        self._captured: list[torch.nn.Module] = []
        self._layout = "tree"
        refuse_unfaithful(self, config.model_type)
        self._last = None
        self.cache = PooledCache(config.num_hidden_layers)

    @torch.inference_mode()
    def prefill(self, ids: Ints) -> TargetView:
        """Forget everything, read int64[T] ids and return their view (logits [1, V], hidden [T, h])."""
        self.cache.truncate(0)
        view = self._forward(ids, logits_to_keep=1)
        self._last = view.last
        self._view = None
        return view

    @torch.inference_mode()
    def verify(self, tree: DraftTree) -> TargetView:
        """Score a non-empty tree in one forward; nothing is committed yet.

        Raises:
            RuntimeError: before the first prefill.
        """
        if self._last is None:
            raise RuntimeError("a target must prefill a prompt before it verifies a tree")
        if self._view is not None:
            self.cache.truncate(self.cache.length - (len(self._view.logits) - 1))
            self._view = None
        with grouped_attention(self.device):
            view = self._scores(tree)
        self._view = self._last.followed_by(view)
        return self._view

    @torch.inference_mode()
    def commit(self, path: Ints) -> None:
        """Make the nodes of a root path of the last verified tree part of the text, drop all others."""
        if self._view is None:
            raise RuntimeError("a target must verify a tree before it commits a path of it")
        start = self.cache.length - (len(self._view.logits) - 1)
        self.cache.commit(start, torch.from_numpy(start + path).to(self.device))
        if len(path):
            self._last = self._view.select(path[-1:] + 1)
        self._view = None

    def capture(self, layers: Sequence[int]) -> None:
        """Give the states entering these layers as `features` from the next prefill on.

        Raises:
            ValueError: a layer that the model does not have.
        """
        blocks = decoder_layers(self.model) if layers else []
        wrong = [layer for layer in layers if not 0 <= layer < len(blocks)]
        if wrong:
            raise ValueError(f"layer {wrong[0]} does not exist: the model has layers 0 to {len(blocks) - 1}")
        self._captured = [blocks[layer] for layer in layers]

    def synchronize(self) -> None:
        """Wait until the device has done its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @torch.inference_mode()
    def teacher_forced(self, ids: Ints) -> TargetView:
        """Return logits and hidden states after each of int64[T] ids, in a forward of their own without a cache."""
        return self._forward(ids, cache=None, logits_to_keep=0)

    @property
    def layout(self) -> str:
        """How a tree goes through the forward: as a "tree" under a mask, or as the "batch" of its paths."""
        return self._layout

    @layout.setter
    def layout(self, layout: str) -> None:
        if layout not in LAYOUTS:
            raise ValueError(f"layout is '{layout}'; it must be one of {', '.join(LAYOUTS)}")
        self._layout = layout

    def _scores(self, tree: DraftTree) -> TargetView:
        """Return the view of a tree's nodes, whose keys and values then lie behind the text in the nodes' order."""
        if self.layout == "tree" or tree.is_chain:
            return self._forward(tree.tokens, **self._tree_arguments(tree))
        batch = PathBatch.of(tree)
        fork = ForkedCache(self.cache, len(batch.tokens))
        view = self._forward(batch.tokens, cache=fork).select(batch.cells)
        fork.keep(torch.from_numpy(batch.cells).to(self.device))
        return view

    def _tree_arguments(self, tree: DraftTree) -> dict[str, Any]:
        """A chain is a plain causal continuation; a tree needs its own mask and the depths as positions."""
        if tree.is_chain:
            return {}
        past, n = self.cache.length, len(tree)
        mask = torch.zeros((1, 1, n, past + n), dtype=self.model.dtype, device=self.device)
        hidden_from = torch.from_numpy(~tree.ancestor_mask).to(self.device)
        mask[0, 0, :, past:].masked_fill_(hidden_from, torch.finfo(self.model.dtype).min)
        positions = torch.from_numpy(past + tree.depths - 1).to(self.device)
        return {"attention_mask": mask, "position_ids": positions[None]}

    def _forward(self, ids: Ints, **arguments: Any) -> TargetView:
        """Return logits [rows, V] and final hidden states [n, h] of int64[n] ids behind what the cache holds.

        A batch, int64[P, L] ids, gives the rows of its P * L cells one after the other.
        """
        cache = arguments.pop("cache", self.cache)
        caught: list[torch.Tensor] = []
        entering: list[torch.Tensor] = []
        # The hidden state after the last norm is what the decoder hands to the output embedding; catching it there
        # spares output_hidden_states, which would keep every layer's.
        handles = [
            self._decoder.register_forward_hook(lambda _m, _i, output: caught.append(output.last_hidden_state)),
            *(
                block.register_forward_pre_hook(lambda _m, inputs: entering.append(inputs[0]))
                for block in self._captured
            ),
        ]
        try:
            output = self.model(
                input_ids=torch.from_numpy(np.ascontiguousarray(np.atleast_2d(ids))).to(self.device),
                use_cache=cache is not None,
                **{self._cache_keyword: cache},
                **arguments,
            )
        finally:
            for handle in handles:
                handle.remove()
        features = torch.cat(entering, dim=-1).flatten(0, 1) if entering else None
        return TargetView(output.logits.flatten(0, 1), caught[0].flatten(0, 1), features)


@contextmanager
def grouped_attention(device: torch.device) -> Iterator[None]:
    """Let transformers attend with shared keys instead of repeating them for every query head.

    Under a mask it repeats them by default, for the sake of CUDA kernels; on a CPU the copies cost a pass of 20 nodes
    5 to 10 % of its time.
    """
    before = os.environ.get(GROUPED)
    if device.type == "cpu":
        os.environ[GROUPED] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(GROUPED, None)
        else:
            os.environ[GROUPED] = before


def decoder_layers(model: PreTrainedModel) -> Sequence[torch.nn.Module]:
    """Return the model's decoder layers, the first one first; ValueError if they are not found."""
    layers = getattr(model.get_decoder(), "layers", None)
    if layers is None:
        raise ValueError(f"the layers of a {type(model).__name__} are not found, so no inner layer can be looked at")
    return cast(Sequence[torch.nn.Module], layers)


def configured_eos(model: PreTrainedModel) -> list[int]:
    """Return the ids that end a text by the model's generation config: none, one or several."""
    generation = getattr(model, "generation_config", None)
    ids = None if generation is None else generation.eos_token_id
    if ids is None:
        return []
    return [ids] if isinstance(ids, int) else list(ids)
