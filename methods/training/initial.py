"""The head that a training begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from methods.training.settings import STARTS, TrainingSettings
from primitives.contract import Ints
from primitives.models.causal_lm import decoder_layers
from primitives.models.eagle3_head import Eagle3Head
from primitives.models.eagle_config import HeadConfig
from primitives.models.eagle_head import EagleHead
from primitives.models.eagle_loading import HeadTarget, load_head, new_head


def head_target(model: PreTrainedModel) -> HeadTarget:
    """Return what a head must know of a model."""
    loaded: Any = model
    embeddings, output = loaded.get_input_embeddings().weight, loaded.get_output_embeddings().weight
    return HeadTarget(embeddings, output, len(decoder_layers(model)))


def head_config(model: PreTrainedModel, draft_vocab_size: int) -> HeadConfig:
    """Return the sizes of a head whose layer is as large as one of the model's."""
    config: Any = model.config.get_text_config()
    keys = config.to_dict()
    keys["vocab_size"] = head_target(model).embeddings.shape[0]
    keys |= {"num_hidden_layers": 1, "draft_vocab_size": draft_vocab_size, "attention_bias": False}
    return HeadConfig.of(keys, f"model type '{config.model_type}'")


def first_head(
    settings: TrainingSettings, model: PreTrainedModel, target: HeadTarget, vocabulary: Ints | None
) -> EagleHead:
    """Return a float32 head on the model's device, ready to be trained.

    Args:
        settings: kind, seed and `init`.
        model: the target.
        target: its embeddings, in float32.
        vocabulary: int64[V_d] ascending ids that an EAGLE-3 head rates; None is all of them.
    """
    if settings.init not in STARTS:
        return load_head(Path(settings.init).expanduser(), settings.name, target).requires_grad_(True)
    full = len(target.embeddings)
    config = head_config(model, full if vocabulary is None else len(vocabulary))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        head = new_head(settings.name, config, target.embeddings, target)
    if isinstance(head, Eagle3Head) and vocabulary is not None:
        ids = torch.from_numpy(vocabulary)
        head.d2t = ids - torch.arange(len(ids))
        head.t2d = torch.zeros(full, dtype=torch.bool).index_fill(0, ids, True)
    head.to(target.embeddings.device)
    if settings.init == "target":
        _copy_target(head, model, target)
    return head


@torch.no_grad()
def _copy_target(head: EagleHead, model: PreTrainedModel, target: HeadTarget) -> None:
    """Begin as the target without the layers between the highest feature and its last one.

    The state that is handed on is the last of the features; the layer is a copy of the target's last one wherever
    their tensors fit, blind to the embedding at first; output rows and norm are the target's.
    """
    decoder: Any = model.get_decoder()
    source = {name: tensor.float() for name, tensor in decoder_layers(model)[-1].state_dict().items()}
    width = head.config.hidden_size
    if isinstance(head, Eagle3Head) and "input_layernorm.weight" in source:
        source["hidden_norm.weight"] = source.pop("input_layernorm.weight")
    for name, tensor in head.layer.state_dict().items():
        found = source.get(name)
        if found is None or found.ndim != tensor.ndim or found.shape[0] != tensor.shape[0]:
            continue
        if found.shape == tensor.shape:
            tensor.copy_(found)
        elif tensor.shape[1] == 2 * found.shape[1]:
            tensor.zero_()
            tensor[:, found.shape[1] :] = found
    fc: Any = head.fc
    if head.config.target_hidden_size == width:
        fc.weight.zero_()
        fc.weight[:, -width:] = torch.eye(width, device=fc.weight.device)
        if fc.bias is not None:
            fc.bias.zero_()
    if isinstance(head, Eagle3Head):
        columns = torch.arange(head.config.draft_vocab_size, device=target.output.device)
        if target.output.shape[1] == width:
            head.lm_head.weight.copy_(target.output[head.target_ids(columns)])
        norm = getattr(decoder, "norm", None)
        if norm is not None and norm.weight.shape == head.norm.weight.shape:
            head.norm.weight.copy_(norm.weight)
