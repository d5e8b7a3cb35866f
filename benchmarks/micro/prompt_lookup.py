"""Our PLD against transformers' prompt lookup with the same n-grams and length: milliseconds a token, and the speedups.

python -m benchmarks.micro.prompt_lookup [key=value ...]
"""

from __future__ import annotations

import sys

from benchmarks.micro.rig import Generate, pipeline_and_prompts, race, report


def main() -> None:
    """Race both over the test prompts, and each of them against its own plain decoding."""
    pipeline, prompts = pipeline_and_prompts("method=pld", *sys.argv[1:])
    model, knobs = pipeline.model.model, pipeline.settings.drafter
    lookup = Generate(model, prompt_lookup_num_tokens=knobs["num_tokens"], max_matching_ngram_size=knobs["max_ngram"])
    report("prompt lookup, ours / transformers", list(race(pipeline, lookup, prompts)), "ms a token")
    plain = Generate(model)
    tokens = pipeline.settings.decode.max_new_tokens
    report(
        "transformers, plain / prompt lookup",
        [(plain(prompt, tokens)[1], lookup(prompt, tokens)[1]) for prompt in prompts],
        "ms a token",
    )


if __name__ == "__main__":
    main()
