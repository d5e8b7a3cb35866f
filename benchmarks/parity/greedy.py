"""Exact verification against transformers' greedy `generate`, token by token, in float32.

python -m benchmarks.parity.greedy [drafter ...] [key=value ...]

Without names, every drafter that needs no draft model.
"""

from __future__ import annotations

import sys

from benchmarks.micro.rig import Generate, console, pipeline_and_prompts
from methods.drafts import HEAD, MODEL
from methods.pipeline import connect
from methods.settings import compose
from primitives.registry import DRAFTERS


def main() -> int:
    """Count the prompts on which all outputs are identical; exit code 1 if one differs."""
    words = ["dtype=float32", *(word for word in sys.argv[1:] if "=" in word)]
    weightless = [name for name in DRAFTERS.names() if not any(DRAFTERS.asks_for(name, part) for part in (MODEL, HEAD))]
    names = [word for word in sys.argv[1:] if "=" not in word] or weightless
    # The union asks for every kind of store, so that all drafters find theirs.
    pipeline, prompts = pipeline_and_prompts("method=union", *words)
    sides = {
        name: connect(
            compose(["method=union", f"drafter={name}", *words]), pipeline.model, pipeline.target, pipeline.store
        )
        for name in names
    }
    generate = Generate(pipeline.model.model)
    decode = pipeline.settings.decode
    same = dict.fromkeys(sides, 0)
    for turn, prompt in enumerate(prompts):
        expected, _ = generate(prompt, decode.max_new_tokens)
        for name, side in sides.items():
            same[name] += side.generate(prompt, decode).ids == expected
        console.print(f"prompt {turn + 1} of {len(prompts)}: {sum(same.values())} identical outputs so far")
    for name, count in same.items():
        console.print(f"{name} + exact: {count} of {len(prompts)} outputs identical to transformers (float32)")
    return int(min(same.values()) < len(prompts))


if __name__ == "__main__":
    sys.exit(main())
