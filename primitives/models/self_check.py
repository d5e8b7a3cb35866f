"""A model whose attention ignores mask or positions would decode wrongly without a word: found out at start."""

from __future__ import annotations

from typing import Final

import torch

from primitives.contract import DraftTree, Target

# Two forwards of one model differ by rounding alone, far below this share even in bfloat16.
TOLERANCE: Final = 0.1


def refuse_unfaithful(target: Target, model_type: str) -> None:
    """Raise ValueError if the scores after a branch of a tree are not those of the same text fed plainly.

    Covers what a configuration does not tell: recurrent layers, position biases that ignore given positions, and caches
    of a kind of their own.
    """
    text = torch.arange(1, 7).numpy() % target.vocab_size
    tree = DraftTree.from_candidates([[int(text[3]), int(text[2])], [int(text[4]), int(text[5])]])
    target.prefill(text[:3])
    try:
        view = target.verify(tree)
    except (RuntimeError, TypeError, IndexError) as error:
        raise ValueError(_sentence(model_type)) from error
    branch = tree.paths[1]
    plain = target.prefill(torch.cat([torch.from_numpy(text[:3]), torch.from_numpy(tree.tokens[branch])]).numpy())
    seen, expected = view.logits[branch[-1] + 1].float(), plain.logits[-1].float()
    if not torch.linalg.vector_norm(seen - expected) <= TOLERANCE * torch.linalg.vector_norm(expected):
        raise ValueError(_sentence(model_type))


def _sentence(model_type: str) -> str:
    return (
        f"model type '{model_type}' does not score a draft tree as it scores plain text (recurrent, local or biased "
        "attention); use a model with full attention in every layer"
    )
