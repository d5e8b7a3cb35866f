"""EAGLE-3: a head over three layers of the target, trained on its own states, and a dynamic tree.

Source: arXiv 2503.01840; github.com/SafeAILab/EAGLE.
"""

from __future__ import annotations

from math import inf
from pathlib import Path

import torch

from primitives.contract import TargetView
from primitives.drafting._eagle import HeadDrafter
from primitives.knobs import check_range
from primitives.registry import DRAFTERS


@DRAFTERS.register("eagle3")
class Eagle3Drafter(HeadDrafter):
    """Drafts with an EAGLE-3 head; its tokens are proposed with certainty, whatever the head's probabilities.

    Args:
        draft_folder: folder of the head.
        embeddings: [V, h'], the target's input embedding matrix.
        output_embeddings: [V, h'], its output embedding matrix.
        num_layers: its decoder layers.
        depth: levels that are expanded below level 1, so that the tree may be one level deeper.
        top_k: children of a node, and nodes of a level that are expanded.
        nodes: most nodes of the tree, the pending token's included.
        max_nodes: most nodes that go through the target's forward; more are not grown.

    Raises:
        ValueError: a setting out of its range, or a head that does not fit the target.
    """

    def __init__(
        self,
        draft_folder: Path,
        embeddings: torch.Tensor,
        output_embeddings: torch.Tensor,
        num_layers: int,
        depth: int = 7,
        top_k: int = 10,
        nodes: int = 60,
        max_nodes: int | None = None,
    ) -> None:
        check_range("drafter 'eagle3'", 0, inf, depth=depth)
        check_range("drafter 'eagle3'", 1, inf, top_k=top_k)
        check_range("drafter 'eagle3'", 2, inf, nodes=nodes)
        most = nodes if max_nodes is None else max(2, min(nodes, max_nodes))
        super().__init__(draft_folder, embeddings, output_embeddings, num_layers, depth, top_k, most)

    def features_of(self, view: TargetView) -> torch.Tensor:
        """Return the states entering the head's layers."""
        assert view.features is not None
        return view.features
