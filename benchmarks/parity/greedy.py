"""Exact verification against transformers' greedy `generate`, token by token, in float32.

python -m benchmarks.parity.greedy [key=value ...]    # both pld and sen with the exact verifier
"""

from __future__ import annotations

import sys

import torch

from benchmarks.micro.rig import Generate, console, pipeline_and_prompts
from methods.pipeline import connect
from methods.settings import compose


def main() -> int:
    """Count the prompts on which all outputs are identical; exit code 1 if one differs."""
    words = ["dtype=float32", *sys.argv[1:]]
    pipeline, prompts = pipeline_and_prompts("method=sense_without_se", *words)
    sides = {"sen": pipeline.connector, "greedy": pipeline.baseline}
    sides["pld"] = connect(compose(["method=pld", *words]), pipeline.model, pipeline.target, None)
    generate = Generate(pipeline.model.model)
    decode = pipeline.settings.decode
    same = dict.fromkeys(sides, 0)
    for prompt in prompts:
        expected, _ = generate(prompt, decode.max_new_tokens)
        for name, side in sides.items():
            same[name] += side.generate(prompt, decode).ids == expected
    for name, count in same.items():
        console.print(f"{name} + exact: {count} of {len(prompts)} outputs identical to transformers ({torch.float32})")
    return int(min(same.values()) < len(prompts))


if __name__ == "__main__":
    sys.exit(main())
