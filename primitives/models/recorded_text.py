"""What a target said while it wrote a text greedily: enough to draft against it again without the target."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from primitives.contract import Ints

# Best logits kept after each token: as many as LogitSpec looks at.
BEST: Final = 64


@dataclass(frozen=True, eq=False)
class RecordedText:
    """A prompt, its greedy continuation, and the target's states; state j is the one after j output tokens.

    Attributes:
        prompt: int64[T].
        output: int64[L].
        hidden: [T + p, h], final states of the prompt and of the p output tokens that went through a forward; p is
            L - 1, or L where the text ended inside a pass.
        best_ids: int64[1 + p, k], tokens of the best logits after the prompt and each of these tokens, best first.
        best_logits: [1 + p, k].
        features: [T + p, k h] or None, the states entering `layers` of the recording.
    """

    prompt: Ints
    output: Ints
    hidden: torch.Tensor
    best_ids: torch.Tensor
    best_logits: torch.Tensor
    features: torch.Tensor | None

    def to_bytes(self) -> bytes:
        """Return the text as a safetensors file."""
        tensors = {
            "prompt": torch.from_numpy(self.prompt),
            "output": torch.from_numpy(self.output),
            "hidden": self.hidden,
            "best_ids": self.best_ids,
            "best_logits": self.best_logits,
        }
        if self.features is not None:
            tensors["features"] = self.features
        return bytes(save({name: tensor.contiguous() for name, tensor in tensors.items()}))

    @classmethod
    def load(cls, file: Path) -> RecordedText:
        """Return the text in a file.

        Raises:
            ValueError: the file is damaged.
        """
        try:
            found = load_file(file)
            states = {name: found[name] for name in ("hidden", "best_ids", "best_logits")}
            return cls(found["prompt"].numpy(), found["output"].numpy(), **states, features=found.get("features"))
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"{file} is damaged; delete it and record again") from error


def text_name(prompt: Ints) -> str:
    """Return the file name of the text with this prompt."""
    return f"{sha256(np.ascontiguousarray(prompt, np.int64).tobytes()).hexdigest()[:20]}.safetensors"
