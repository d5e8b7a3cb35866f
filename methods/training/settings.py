"""Settings of a training: the structured config behind conf/training/*.yaml."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class TrainingSettings:
    """What a draft head is trained on and how.

    Attributes:
        name: kind of the head, "eagle2" or "eagle3".
        prompts: how many train prompts of each data set the target answers; the answers are the training data.
        data_dir: folder with a folder of train.jsonl and test.jsonl for each data set; None takes the usual sources.
        held_out: data sets whose test prompts must not be among the training data.
        max_prompt_tokens: longer prompts are left out.
        max_new_tokens: longest answer, in tokens.
        answer_batch: answers generated together; also the unit in which that stage goes on after a stop.
        validation: share of the answers that is never trained on; acceptance is measured on them.
        draft_vocab_size: tokens that the head can propose, the most frequent ones of the answers; None is all of them.
        init: "target" (embeddings, output rows and layer weights begin as copies of the target's) or "random".
        depth: steps of the training-time test, the head's own states fed back in all but the first (EAGLE-3).
        decay: weight of each further step, relative to the one before it.
        noise: half the width of the uniform noise on the target's states (EAGLE-1/2).
        token_weight: weight of the cross entropy beside the regression of the states (EAGLE-1/2).
        batch_tokens: most tokens in one step; sequences are packed up to it.
        epochs: times that every answer is seen.
        learning_rate: peak, after the warm-up; it falls to a tenth along a cosine.
        warmup: share of the steps with a rising learning rate.
        betas: of AdamW.
        clip: largest norm of the gradient.
        seed: of initial weights, order and noise.
        checkpoint_minutes: minutes between checkpoints.
        output: folder of the trained head; None is a folder in the cache.
    """

    name: str = "eagle3"
    prompts: dict[str, int] = field(default_factory=lambda: {"gsm8k": 512, "ultrachat": 512})
    data_dir: str | None = None
    held_out: list[str] = field(default_factory=lambda: ["gsm8k", "ultrachat"])
    max_prompt_tokens: int = 256
    max_new_tokens: int = 256
    answer_batch: int = 32
    validation: float = 0.05
    draft_vocab_size: int | None = None
    init: str = "target"
    depth: int = 7
    decay: float = 0.8
    noise: float = 0.1
    token_weight: float = 0.1
    batch_tokens: int = 2048
    epochs: int = 10
    learning_rate: float = 5e-5
    warmup: float = 0.05
    betas: list[float] = field(default_factory=lambda: [0.9, 0.95])
    clip: float = 0.5
    seed: int = 0
    checkpoint_minutes: float = 5.0
    output: str | None = None
