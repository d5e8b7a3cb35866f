"""PLD against transformers' prompt lookup, step by step over real outputs: the same tokens at every place.

python -m benchmarks.parity.pld [key=value ...]    # dataset.num_samples=50 prompts by default
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.micro.rig import console, pipeline_and_prompts
from primitives.contract import Context, Drafter

DEFAULTS = ("dataset.num_samples=50", "decode.max_new_tokens=128")


def main() -> int:
    """Compare both drafts at each step of each greedy output; exit code 1 if one differs."""
    pipeline, prompts = pipeline_and_prompts("method=pld", *DEFAULTS, *sys.argv[1:])
    drafter, knobs = pipeline.connector.drafter, pipeline.settings.drafter
    peer = _peer(knobs, pipeline.target.eos_ids)
    steps = drafts = different = 0
    for prompt in prompts:
        text = [*prompt, *pipeline.connector.generate(prompt, pipeline.settings.decode).ids]
        for end in range(len(prompt), len(text)):
            mine = _draft(drafter, text[:end], pipeline.target.eos_ids)
            theirs, _ = peer.get_candidates(torch.tensor([text[:end]]))
            different += mine != theirs[0, end:].tolist()
            drafts += bool(mine)
            steps += 1
    console.print(
        f"pld against transformers' prompt lookup (n <= {knobs['max_ngram']}, {knobs['num_tokens']} tokens): "
        f"{steps - different:,} of {steps:,} steps alike, {drafts:,} of them with a draft, {len(prompts)} prompts"
    )
    return int(different > 0)


def _draft(drafter: Drafter, text: Sequence[int], eos_ids: frozenset[int]) -> list[int]:
    """Return what is drafted behind the pending token; a closing EOS is left out, as transformers does."""
    tree = drafter.propose(Context(np.array(text), torch.empty(0), torch.empty(0), budget=len(text)))
    tokens: list[int] = tree.tokens[1:].tolist()
    return tokens[:-1] if tokens and tokens[-1] in eos_ids else tokens


def _peer(knobs: dict[str, Any], eos_ids: frozenset[int]) -> Any:
    return transformers.generation.PromptLookupCandidateGenerator(  # type: ignore[attr-defined]
        eos_token_id=torch.tensor(sorted(eos_ids)) if eos_ids else None,
        num_output_tokens=knobs["num_tokens"],
        max_matching_ngram_size=knobs["max_ngram"],
        max_length=sys.maxsize,
    )


if __name__ == "__main__":
    sys.exit(main())
