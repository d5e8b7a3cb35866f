"""A small language model distilled from a target: how it begins, what it is trained for, and what is kept of it.

Source: DistillSpec (arXiv 2310.08461): forward KL divergence from the target's law, on texts of the target's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import numpy as np
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

from methods.training.data import batches
from methods.training.loop import Trainer
from methods.training.objective import Unrolled
from methods.training.settings import HEAD_WIDTH, PROJECTED, STARTS, TrainingSettings
from primitives.models.causal_lm import decoder_layers
from primitives.models.loading import LoadedModel
from primitives.models.recording import Recording

# Places whose logits over the vocabulary are held at once.
CHUNK: Final = 256
_LAYER: Final = re.compile(r"(?<=layers\.)(\d+)(?=\.)")


@dataclass(frozen=True, eq=False)
class Texts:
    """Answers padded on the right to one length: B texts of at most T tokens, at most W of them in the answer.

    Attributes:
        tokens: int64[B, T], all but the last token of each text.
        places: int64[B, W], where the token before each token of the answer stands.
        inside: bool[B, W], False where a text's answer is shorter.
        wanted: int64[B, W], the answer.
        states: float32[B, W, h], the target's final state that has chosen it.
    """

    tokens: torch.Tensor
    places: torch.Tensor
    inside: torch.Tensor
    wanted: torch.Tensor
    states: torch.Tensor

    @classmethod
    def of(cls, recordings: Sequence[Recording], device: torch.device) -> Texts:
        """Return the batch of some answers."""
        count, width = len(recordings), recordings[0].states.shape[1]
        answers = [len(one.tokens) - one.answer for one in recordings]
        tokens = np.zeros((count, max(len(one.tokens) for one in recordings) - 1), np.int64)
        places, wanted = np.zeros((2, count, max(answers)), np.int64)
        states = np.zeros((count, max(answers), width), np.float32)
        for row, (one, w) in enumerate(zip(recordings, answers, strict=True)):
            tokens[row, : len(one.tokens) - 1] = one.tokens[:-1]
            places[row, :w] = np.arange(one.answer - 1, len(one.tokens) - 1)
            wanted[row, :w] = one.tokens[one.answer :]
            states[row, :w] = one.states[one.answer - 1 :]
        inside = np.arange(max(answers)) < np.array(answers)[:, None]
        return cls(*(torch.from_numpy(part).to(device) for part in (tokens, places, inside, wanted, states)))


class Distillation:
    """Runs a draft model over a batch and leaves gradients behind.

    Args:
        settings: weight of the cross entropy.
        output: float32[V, h], the target's output embeddings, which make its law of its states.
    """

    def __init__(self, settings: TrainingSettings, output: torch.Tensor) -> None:
        self.settings = settings
        self.output = output

    def counts(self, draft: Any, answers: Sequence[Recording], depth: int) -> list[int]:
        """Return how many places of some answers count in the loss."""
        return [sum(len(one.tokens) - one.answer for one in answers)]

    def __call__(
        self,
        draft: Any,
        batch: Texts,
        rng: torch.Generator | None,
        depth: int,
        whole: Sequence[int] | None = None,
    ) -> Unrolled:
        """Return the mean loss, and where the draft's best token is the target's; with `rng`, gradients are added.

        With the `counts` of a `whole` of which the batch is a part, the loss is its share in the mean of the whole.
        """
        learning = rng is not None
        hits = torch.zeros_like(batch.inside)
        rows, columns = batch.inside.nonzero(as_tuple=True)
        count = len(rows) if whole is None else whole[0]
        loss = 0.0
        with torch.set_grad_enabled(learning):
            hidden = draft.get_decoder()(input_ids=batch.tokens, use_cache=False).last_hidden_state
            chosen = hidden[rows, batch.places[rows, columns]]
            leaf = chosen.detach().requires_grad_(learning)
            for part in torch.arange(len(rows), device=rows.device).split(CHUNK):
                wanted = batch.wanted[rows[part], columns[part]]
                logits = draft.get_output_embeddings()(leaf[part])
                mean = self._loss(logits, batch.states[rows[part], columns[part]], wanted) / count
                hits[rows[part], columns[part]] = logits.detach().argmax(-1) == wanted
                loss += float(mean.detach())
                if learning:
                    # Backwards through the output matrix at once, so that only one chunk's logits are ever held.
                    mean.backward()
            if learning:
                torch.autograd.backward([chosen], [leaf.grad])
        return Unrolled([loss], [hits])

    def _loss(self, logits: torch.Tensor, states: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return the sum over [m, V] rows of the divergence from the target's law and the weighted cross entropy."""
        with torch.no_grad():
            law = F.log_softmax((states @ self.output.T).float(), -1)
        own = F.log_softmax(logits.float(), -1)
        divergence = F.kl_div(own, law, reduction="sum", log_target=True)
        return divergence + self.settings.token_weight * F.nll_loss(own, wanted, reduction="sum")


class DraftTrainer(Trainer):
    """Trains a draft model."""

    also_lower: ClassVar[str] = "training.num_layers"

    def shares(self, held: Sequence[Recording]) -> list[float]:
        """Return for j = 1, 2, ... the share of greedy drafts whose first j tokens are the target's."""
        depth = self.settings.depth
        right, drafts = torch.zeros(depth), torch.zeros(depth)
        for group in batches(held, self.together, 0):
            batch = self._batch(group)
            (hits,) = self._see(batch, None, None).hits
            chains = hits
            for step in range(min(depth, hits.shape[1])):
                # A draft goes on as greedy decoding does, so its next token is right where the text's next one is hit.
                chains = hits if step == 0 else chains[:, :-1] & hits[:, step:]
                right[step] += chains.sum().cpu()
                drafts[step] += batch.inside[:, step:].sum().cpu()
        return (right / drafts.clamp(min=1)).tolist()

    def _batch(self, group: Sequence[Recording]) -> Any:
        return Texts.of(group, self._device)


def first_draft(settings: TrainingSettings, model: PreTrainedModel) -> PreTrainedModel:
    """Return a float32 draft model on the target's device, ready to be trained.

    Raises:
        ValueError: a folder to begin with whose model has another vocabulary, or more layers than the target.
    """
    auto: Any = AutoModelForCausalLM
    if settings.init not in STARTS:
        draft: Any = auto.from_pretrained(Path(settings.init).expanduser(), dtype=torch.float32)
        rows, wanted = draft.config.get_text_config().vocab_size, model.config.get_text_config().vocab_size
        if rows != wanted:
            raise ValueError(f"training.init='{settings.init}' has {rows} token ids, and the target has {wanted}")
    else:
        config = _cut_config(settings, model) if settings.init == "target" else _small_config(settings, model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            draft = auto.from_config(config, dtype=torch.float32)
        if settings.init == "target":
            _copy_layers(draft, model)
        elif settings.init == PROJECTED:
            _project_embeddings(draft, model)
    return draft.to(model.device).train(False).requires_grad_(True)


def save_draft(draft: PreTrainedModel, target: LoadedModel, folder: Path) -> None:
    """Write a transformers folder with the target's tokenizer and ends of text, in the target's dtype."""
    saved: Any = deepcopy(draft)
    saved.to(target.model.dtype)
    saved.generation_config = deepcopy(target.model.generation_config)
    saved.save_pretrained(folder)
    target.tokenizer.save_pretrained(folder)


def _cut_config(settings: TrainingSettings, model: PreTrainedModel) -> Any:
    """Return the target's configuration with fewer layers."""
    config = deepcopy(model.config.get_text_config())
    layers = config.num_hidden_layers
    if settings.num_layers > layers:
        raise ValueError(f"training.num_layers is {settings.num_layers}, and the target has {layers}: lower it")
    config.num_hidden_layers = settings.num_layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: settings.num_layers]
    return config


def _small_config(settings: TrainingSettings, model: PreTrainedModel) -> Any:
    """Return the configuration of a narrow Llama with the target's vocabulary and positions."""
    target = model.config.get_text_config()
    return LlamaConfig(
        vocab_size=target.vocab_size,
        hidden_size=settings.hidden_size,
        intermediate_size=3 * settings.hidden_size,
        num_hidden_layers=settings.num_layers,
        num_attention_heads=settings.hidden_size // HEAD_WIDTH,
        num_key_value_heads=settings.hidden_size // HEAD_WIDTH,
        max_position_embeddings=target.max_position_embeddings,
        tie_word_embeddings=True,
        bos_token_id=target.bos_token_id,
        eos_token_id=target.eos_token_id,
        pad_token_id=target.pad_token_id,
    )


@torch.no_grad()
def _project_embeddings(draft: PreTrainedModel, model: PreTrainedModel) -> None:
    """Give a narrow draft model the target's embeddings, on as many of their principal directions as it has room for.

    Tokens that mean the same begin alike, also those that no answer holds.
    """
    narrow, wide = (cast(torch.nn.Embedding, one.get_input_embeddings()).weight for one in (draft, model))
    if narrow.shape[1] > wide.shape[1]:
        raise ValueError(
            f"training.hidden_size is {narrow.shape[1]}, and the target's is {wide.shape[1]}: lower it, or choose "
            "training.init=random"
        )
    centred = wide.float() - wide.float().mean(0)
    _, directions = torch.linalg.eigh(centred.T @ centred)
    narrow.copy_(centred @ directions[:, -narrow.shape[1] :])


def _copy_layers(draft: PreTrainedModel, model: PreTrainedModel) -> None:
    """Give a draft model the target's embeddings and norms, and layers evenly spaced from its first to its last."""
    kept, all_of = len(decoder_layers(draft)), len(decoder_layers(model))
    taken = np.linspace(0, all_of - 1, kept).round().astype(int)
    if kept == 1:
        taken = np.array([all_of - 1])
    names = {name: _LAYER.sub(lambda found: str(taken[int(found[0])]), name) for name in draft.state_dict()}
    weights = model.state_dict()
    draft.load_state_dict({name: weights[theirs] for name, theirs in names.items()})
