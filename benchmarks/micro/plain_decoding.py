"""Our plain greedy decoding against transformers' `generate`: milliseconds a token, same model, dtype and threads.

python -m benchmarks.micro.plain_decoding [key=value ...]
"""

from __future__ import annotations

import sys

from benchmarks.micro.rig import Generate, pipeline_and_prompts, race, report


def main() -> None:
    """Race both over the test prompts."""
    pipeline, prompts = pipeline_and_prompts("method=vanilla", *sys.argv[1:])
    pairs = list(race(pipeline, Generate(pipeline.model.model), prompts))
    report("plain decoding, ours / transformers", pairs, "ms a token")


if __name__ == "__main__":
    main()
