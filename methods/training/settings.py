"""Settings of a training: the structured config behind conf/training/*.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from primitives.registry import nearest

HEADS = ("eagle2", "eagle3")
DRAFT_LM = "draft_lm"
KINDS = (*HEADS, DRAFT_LM)
HEAD_WIDTH = 16
PROJECTED = "projected"
STARTS = ("target", "random", PROJECTED)
PRECISIONS = ("float32", "bfloat16")


@dataclass
class TrainingSettings:
    """What a draft head, or a draft language model, is trained on and how.

    Attributes:
        name: what is trained, "eagle2", "eagle3" or "draft_lm".
        datasets: data sets whose train prompts the target answers; the answers are the training data.
        num_prompts: how many prompts of each.
        data_dir: folder with a folder of train.jsonl and test.jsonl for each data set; None takes the usual sources.
        held_out: data sets whose test prompts must not be among the training data.
        max_prompt_tokens: longer prompts are left out.
        max_new_tokens: longest answer, in tokens.
        answer_batch: answers kept together: the unit in which that stage goes on after a stop.
        answer_micro_batch: answers generated together, a part of them; None generates all of a batch at once.
        validation: share of the answers that is never trained on; acceptance is measured on them.
        draft_vocab_size: tokens that the head can propose, the most frequent ones of the answers; None is all of them.
        init: "target" (output rows and layer weights begin as copies of the target's), "random", "projected" (a draft
            language model of hidden_size whose embeddings are the target's on their principal directions), or the
            folder of a head to be trained further, which brings its draft vocabulary.
        depth: steps of the training-time test, the head's own states fed back in all but the first (EAGLE-3).
        decay: weight of each further step, relative to the one before it.
        noise: half the width of the uniform noise on the target's states (EAGLE-1/2).
        token_weight: weight of the cross entropy beside the regression of the states (EAGLE-1/2).
        batch_tokens: most tokens in one step; sequences are packed up to it.
        micro_batch_tokens: most of them that go through the model at once; the step is the same up to rounding. None
            takes the whole step at once.
        precision: "float32", or "bfloat16" for products in bfloat16, over weights and sums in float32 all the same.
        epochs: times that every answer is seen.
        learning_rate: peak, after the warm-up; it falls to a tenth along a cosine.
        warmup: share of the steps with a rising learning rate.
        betas: of AdamW.
        clip: largest norm of the gradient.
        seed: of initial weights, order and noise.
        checkpoint_minutes: minutes between checkpoints.
        output: folder of the trained head; None is a folder in the cache.
        num_layers: layers of a draft language model.
        hidden_size: width of one that begins random or projected; one that begins as the target has the target's.
    """

    name: str = "eagle3"
    datasets: list[str] = field(default_factory=lambda: ["gsm8k", "ultrachat"])
    num_prompts: int = 512
    data_dir: str | None = None
    held_out: list[str] = field(default_factory=lambda: ["gsm8k", "ultrachat"])
    max_prompt_tokens: int = 256
    max_new_tokens: int = 256
    answer_batch: int = 32
    answer_micro_batch: int | None = None
    validation: float = 0.05
    draft_vocab_size: int | None = None
    init: str = "target"
    depth: int = 7
    decay: float = 0.8
    noise: float = 0.1
    token_weight: float = 0.1
    batch_tokens: int = 2048
    micro_batch_tokens: int | None = None
    precision: str = "float32"
    epochs: int = 10
    learning_rate: float = 5e-5
    warmup: float = 0.05
    betas: list[float] = field(default_factory=lambda: [0.9, 0.95])
    clip: float = 0.5
    seed: int = 0
    checkpoint_minutes: float = 5.0
    output: str | None = None
    num_layers: int = 2
    hidden_size: int = 256


def training_problems(training: TrainingSettings) -> Iterator[str]:
    """Yield one sentence for each setting of a training that is out of range."""
    if training.name not in KINDS:
        yield f"training.name is '{training.name}': {nearest(training.name, KINDS)}"
    if training.hidden_size < 1 or training.hidden_size % HEAD_WIDTH:
        yield f"training.hidden_size is {training.hidden_size}; it must be a multiple of {HEAD_WIDTH}"
    if training.init not in STARTS and not Path(training.init).expanduser().is_dir():
        yield f"training.init is '{training.init}': {nearest(training.init, STARTS)}; or give the folder of a head"
    if training.init == PROJECTED and training.name != DRAFT_LM:
        yield f"training.init is '{PROJECTED}', which only training={DRAFT_LM} knows: choose target or random"
    if training.precision not in PRECISIONS:
        yield f"training.precision is '{training.precision}': {nearest(training.precision, PRECISIONS)}"
    for key in (
        "num_prompts",
        "max_prompt_tokens",
        "max_new_tokens",
        "answer_batch",
        "depth",
        "batch_tokens",
        "epochs",
        "num_layers",
    ):
        if getattr(training, key) < 1:
            yield f"training.{key} is {getattr(training, key)}; it must be at least 1"
    for key in ("answer_micro_batch", "micro_batch_tokens"):
        value = getattr(training, key)
        if value is not None and value < 1:
            yield f"training.{key} is {value}; it must be at least 1, or null for the whole batch"
    for key in ("learning_rate", "clip", "decay"):
        if not getattr(training, key) > 0:
            yield f"training.{key} is {getattr(training, key)}; it must be above 0"
    for key in ("noise", "token_weight", "checkpoint_minutes", "seed"):
        if getattr(training, key) < 0:
            yield f"training.{key} is {getattr(training, key)}; it must be at least 0"
    for key in ("validation", "warmup"):
        if not 0 <= getattr(training, key) < 1:
            yield f"training.{key} is {getattr(training, key)}; it must be at least 0 and below 1"
    if training.draft_vocab_size is not None and training.draft_vocab_size < 1:
        yield f"training.draft_vocab_size is {training.draft_vocab_size}; it must be at least 1, or null for all tokens"
    if len(training.betas) != 2 or not all(0 <= beta < 1 for beta in training.betas):
        yield f"training.betas is {training.betas}; it must be two numbers from 0 to below 1"
    if not training.datasets:
        yield "training.datasets names no data set; name at least one"
