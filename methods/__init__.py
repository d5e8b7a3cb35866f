"""Published methods: their settings, their offline stages, and the pipeline put together from primitives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from methods.pipeline import load_pipeline

__all__ = ["load_pipeline"]


def __getattr__(name: str) -> Any:
    """Import the pipeline on first use: it brings in transformers, and settings are checked without it."""
    if name == "load_pipeline":
        from methods.pipeline import load_pipeline

        return load_pipeline
    raise AttributeError(f"module 'methods' has no attribute '{name}'")
