from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from primitives.models.settings import ModelSettings

CONF = Path(__file__).parents[4] / "conf" / "model"


@pytest.mark.parametrize("file", sorted(CONF.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_configured_model_fits_the_settings(file: Path) -> None:
    settings = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelSettings), OmegaConf.load(file)))
    assert isinstance(settings, ModelSettings)
    assert settings.name == file.stem
    assert settings.chat_template
    assert settings.embedded == (settings.hub_id is None)


def test_qwen3_does_not_think_by_default() -> None:
    for name in ("qwen3-8b", "qwen3-14b"):
        assert OmegaConf.load(CONF / f"{name}.yaml").template_kwargs == {"enable_thinking": False}


def test_a_model_without_any_source_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model 'mine' has no source: set model\.path"):
        ModelSettings(name="mine")


def test_template_variables_without_template_are_refused() -> None:
    with pytest.raises(ValueError, match=r"need the chat template: set model\.chat_template=true"):
        ModelSettings(name="mine", path="x", chat_template=False, template_kwargs={"enable_thinking": False})
