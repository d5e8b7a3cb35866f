"""What packed weights (primitives/models/packing.py) gain in passes of every size, beside the layers of torch.

python -m benchmarks.micro.packing device=cpu [key=value ...]
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
from transformers import AutoModelForCausalLM

from benchmarks.micro.pass_cost import tree_of
from benchmarks.micro.rig import pipeline_and_prompts, report
from primitives.contract import DraftTree
from primitives.models.causal_lm import CausalLMTarget

SIZES = (1, 4, 8, 16, 24, 64)
ROUNDS = 20


def main() -> None:
    """Time forwards of both models over the same trees in turn, and print the ratios."""
    pipeline, prompts = pipeline_and_prompts("method=vanilla", "dataset.num_samples=1", *sys.argv[1:])
    packed = pipeline.target
    plain = AutoModelForCausalLM.from_pretrained(
        pipeline.model.folder, dtype=pipeline.dtype, attn_implementation="sdpa"
    )
    targets = [packed, CausalLMTarget(plain.requires_grad_(False))]
    for target in targets:
        target.prefill(np.array(prompts[0]))
    for size in SIZES:
        tree = tree_of(size, packed.vocab_size)
        times = [(_pass(targets[0], tree), _pass(targets[1], tree)) for _ in range(ROUNDS)]
        report(f"{size} nodes, packed / plain", times[2:], "ms")


def _pass(target: CausalLMTarget, tree: DraftTree) -> float:
    start = perf_counter()
    target.verify(tree)
    return (perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
