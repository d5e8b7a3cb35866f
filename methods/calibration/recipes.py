"""The recipe of each verifier that takes constants from a calibration."""

from __future__ import annotations

from typing import Final

from methods.calibration.arc import ArcRecipe
from methods.calibration.easd import EasdRecipe
from methods.calibration.judge import JudgeRecipe
from methods.calibration.recipe import Recipe

RECIPES: Final[dict[str, Recipe]] = {"arc": ArcRecipe(), "easd": EasdRecipe(), "judge": JudgeRecipe()}
