"""Our plain greedy decoding against transformers `generate`: time per token, same model, dtype and threads.

python -m benchmarks.micro.plain_decoding [key=value ...]
"""

from __future__ import annotations

import sys
from dataclasses import replace

import torch

from benchmarks.micro.rig import milliseconds, pipeline_and_prompts, report


def main() -> None:
    """Time both on each prompt, in turn, prefill taken off."""
    pipeline, prompts = pipeline_and_prompts("method=vanilla", *sys.argv[1:])
    model, settings = pipeline.model.model, pipeline.settings.decode
    ours, theirs = [], []
    for turn, prompt in enumerate(prompts):
        ids = torch.tensor([prompt], device=model.device)
        mask = torch.ones_like(ids)

        def generate(tokens: int, ids: torch.Tensor = ids, mask: torch.Tensor = mask) -> torch.Tensor:
            out: torch.Tensor = model.generate(  # type: ignore[operator]
                input_ids=ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False
            )
            return out

        length = generate(settings.max_new_tokens).shape[1] - len(prompt)
        limited = replace(settings, max_new_tokens=length)

        def time_ours(limited=limited, prompt=prompt) -> float:  # type: ignore[no-untyped-def]
            return pipeline.connector.generate(prompt, limited).trace.decode_ms

        def time_theirs(length: int = length, generate=generate) -> float:  # type: ignore[no-untyped-def]
            whole = milliseconds(lambda: generate(length))
            return whole - milliseconds(lambda: generate(1))

        first, second = (time_ours, time_theirs) if turn % 2 else (time_theirs, time_ours)
        a, b = first(), second()
        ours.append((a if turn % 2 else b) / (length - 1))
        theirs.append((b if turn % 2 else a) / (length - 1))
    report("plain decoding, ours / transformers generate, ms a token", ours, theirs)


if __name__ == "__main__":
    main()
