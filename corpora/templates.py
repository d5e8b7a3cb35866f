"""Prompt templates of the SENSE paper, Table 10.

The wording is the paper's. Its line breaks were lost in publication, so they are ours; raise `TEMPLATES_VERSION` with
any change, because prompts of different versions must not share a datastore or a table.
"""

from __future__ import annotations

TEMPLATES_VERSION = 1

_SLOT = "{instruction}"

TEMPLATES = {
    "problem": (
        "Solve the following problem step by step.\n\n"
        "Problem: {instruction}\n\n"
        "Think through the problem carefully, then provide your final answer. "
        "Your response MUST end with “Final Answer: answer” on a new line, where answer is the final result."
    ),
    "alpaca": (
        "You are a skilled programmer. Complete the following coding task.\n\n"
        "### Task:\n{instruction}\n\n"
        "### Solution:\n"
        "Provide only the code implementation. Do not include explanations unless specifically requested."
    ),
    "chat": _SLOT,
}


def render(template: str, instruction: str) -> str:
    """Return the prompt text for an instruction; ValueError if there is no template of that name."""
    if template not in TEMPLATES:
        raise ValueError(f"dataset.template '{template}' is unknown: use one of {', '.join(sorted(TEMPLATES))}")
    # Instructions hold braces of their own (code), which str.format would take for fields.
    return TEMPLATES[template].replace(_SLOT, instruction)
