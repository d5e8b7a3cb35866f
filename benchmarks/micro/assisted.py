"""SpS beside transformers' assisted generation: the same target, draft model, prompts and draft length, in one run.

python -m benchmarks.micro.assisted draft_model=... [key=value ...]

Both go first in turn, plain decoding beside them. Times are milliseconds a token after the first one: prefills, the
draft model's too, are left out. tau is tokens by target forward on both sides; transformers' first forward reads the
prompt and verifies a draft at once, and counts as one.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

import torch

from benchmarks.micro.rig import Generate, console, ours, pipeline_and_prompts, report
from methods.loaded import loaded_draft
from methods.pipeline import Pipeline
from primitives.models.loading import LoadedModel


class Assisted(Generate):
    """transformers' assisted generation, timed without either prefill.

    Args:
        target: the model.
        draft: its assistant.
        drafter: settings of our drafter, which the assistant gets too.

    Attributes:
        forwards: of the target, in all runs with an assistant.
        written: tokens written in them.
    """

    def __init__(self, target: LoadedModel, draft: LoadedModel, drafter: dict[str, Any]) -> None:
        assistant: Any = draft.model
        config = assistant.generation_config
        config.num_assistant_tokens = drafter["num_tokens"]
        config.num_assistant_tokens_schedule = drafter["schedule"]
        config.assistant_confidence_threshold = drafter["confidence"]
        options: dict[str, Any] = {"assistant_model": assistant}
        if drafter["tokenizers"] == "retokenise":
            options |= {"tokenizer": target.tokenizer, "assistant_tokenizer": draft.tokenizer}
        super().__init__(target.model, **options)
        self.assistant = assistant
        self.forwards = self.written = 0

    def __call__(self, prompt: list[int], tokens: int) -> tuple[list[int], float]:
        """Return the output ids, and the milliseconds a token after the first one."""
        _, first = self._run(prompt, 1, {})
        handle = self.model.register_forward_hook(self._count)
        try:
            ids, whole = self._run(prompt, tokens, self.options)
        finally:
            handle.remove()
        self.written += len(ids)
        return ids, (whole - first - self._draft_prefill(prompt)) / max(len(ids) - 1, 1)

    @torch.inference_mode()
    def _draft_prefill(self, prompt: list[int]) -> float:
        begun = perf_counter()
        self.assistant(torch.tensor([prompt], device=self.assistant.device), logits_to_keep=1)
        return (perf_counter() - begun) * 1e3

    def _count(self, *_: object) -> None:
        self.forwards += 1


def plain(pipeline: Pipeline, prompt: list[int]) -> float:
    """Return the milliseconds a token after the first one of plain decoding."""
    generation = pipeline.baseline.generate(prompt, pipeline.settings.decode)
    return generation.trace.decode_ms / max(len(generation.ids) - 1, 1)


def main() -> None:
    """Print the ratios and both values of tau."""
    pipeline, prompts = pipeline_and_prompts("method=sps", *sys.argv[1:])
    settings = pipeline.settings
    draft = loaded_draft(settings)
    if draft is None or draft.model is pipeline.model.model:
        raise ValueError("the draft model must be another one than the target, whose forwards are counted")
    theirs = Assisted(pipeline.model, draft, settings.drafter)
    tokens = settings.decode.max_new_tokens
    ours(pipeline, prompts[0])
    theirs(prompts[0], tokens)
    theirs.forwards = theirs.written = 0
    pairs, bases, passes, committed, same = [], [], 0, 0, 0
    for turn, prompt in enumerate(prompts):
        base = plain(pipeline, prompt)
        assisted = theirs(prompt, tokens) if turn % 2 == 0 else None
        generation = pipeline.connector.generate(prompt, settings.decode)
        ids, milliseconds = theirs(prompt, tokens) if assisted is None else assisted
        mine = generation.trace.decode_ms / max(len(generation.ids) - 1, 1)
        pairs.append((mine, milliseconds))
        bases.append((base, mine))
        passes += len(generation.trace.passes)
        committed += sum(record.committed for record in generation.trace.passes)
        same += generation.ids == ids
        console.print(
            f"prompt {turn + 1} of {len(prompts)}: {mine:.1f}, assisted {milliseconds:.1f}, plain {base:.1f} ms"
        )
    report("sps / assisted generation", pairs, "ms a token")
    report("plain decoding / sps (speedup)", bases, "ms a token")
    console.print(
        f"tau: sps {committed / passes:.3f}, assisted generation {theirs.written / theirs.forwards:.3f}; "
        f"{same} of {len(prompts)} outputs are the same"
    )


if __name__ == "__main__":
    main()
