"""EAGLE-1 and EAGLE-2: a head that extrapolates the target's final states, and a fixed or a dynamic tree.

Source: arXiv 2401.15077 (fixed tree), 2406.16858 (dynamic tree); github.com/SafeAILab/EAGLE.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import torch

from primitives.contract import TargetView
from primitives.drafting._eagle import HeadDrafter
from primitives.drafting._eagle_trees import MC_SIM_7B_63, fixed_levels
from primitives.knobs import check_choice, check_range
from primitives.registry import DRAFTERS

TREES = {"mc_sim_7b_63": MC_SIM_7B_63}


@DRAFTERS.register("eagle2")
class Eagle2Drafter(HeadDrafter):
    """Drafts with an EAGLE-1/2 head; its tokens are proposed with certainty, whatever the head's probabilities.

    Args:
        draft_folder: folder of the head.
        embeddings: [V, h'], the target's input embedding matrix.
        output_embeddings: [V, h'], its output embedding matrix.
        num_layers: its decoder layers.
        tree: "dynamic"; "mc_sim_7b_63", the fixed tree of EAGLE-1; or a fixed tree of one's own, each node by the ranks
            on its path.
        depth: levels that a dynamic tree is expanded below level 1, so that it may be one level deeper.
        top_k: children of a node, and nodes of a level that are expanded, in a dynamic tree.
        nodes: most nodes of a dynamic tree, the pending token's included.
        max_nodes: most nodes that go through the target's forward; a dynamic tree grows no more, and a fixed one needs
            room for all of its nodes.

    Raises:
        ValueError: a setting out of its range, an unfit tree, or a head that does not fit the target.
    """

    def __init__(
        self,
        draft_folder: Path,
        embeddings: torch.Tensor,
        output_embeddings: torch.Tensor,
        num_layers: int,
        tree: str | Sequence[Sequence[int]] = "dynamic",
        depth: int = 5,
        top_k: int = 10,
        nodes: int = 60,
        max_nodes: int | None = None,
    ) -> None:
        name = "drafter 'eagle2'"
        check_range(name, 0, inf, depth=depth)
        check_range(name, 1, inf, top_k=top_k)
        check_range(name, 2, inf, nodes=nodes)
        levels = None
        if isinstance(tree, str):
            check_choice(name, ("dynamic", *TREES), tree=tree)
        if tree != "dynamic":
            levels = fixed_levels(TREES[tree] if isinstance(tree, str) else tree, name)
        most = nodes if max_nodes is None else max(2, min(nodes, max_nodes))
        super().__init__(draft_folder, embeddings, output_embeddings, num_layers, depth, top_k, most, levels)

    @property
    def whole(self) -> int:
        """Nodes of a fixed tree, the pending token's included; a dynamic one grows as far as it may."""
        return 0 if self.levels is None else 1 + sum(len(level.ranks) for level in self.levels)

    def features_of(self, view: TargetView) -> torch.Tensor:
        """Return the final states."""
        return view.hidden
