"""Settings of a data set: the structured config behind conf/dataset/*.yaml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DatasetSettings:
    """Which rows to use and how to read, render and score them.

    Attributes:
        name: data set name; selects the column mapping and names the result folder.
        hub_id: id on the Hugging Face hub; None if it is only read from `path`.
        hub_config: the hub's configuration name, if the set has several.
        train_split: hub split for datastores.
        test_split: hub split for benchmarks; the same as `train_split` if the hub has no other one, then a fixed part
            of that split is held out for testing.
        path: folder with train.jsonl and test.jsonl in the hub's columns, which goes before the hub; for `prompts`
            the file.
        num_samples: how many test prompts to use, a fixed shuffled sample; a larger number extends a smaller sample,
            and None takes all of them in their order.
        template: name of the prompt template.
        metric: name of the quality metric; None where there is nothing to compare an output with.
        train_from: name of the data set that gives the train prompts of a set that has none.
        train_path: its `path`.
        prompt_column, reference_column, id_column: where a JSON row of `prompts` has its text, what its answer is
            compared with, and its name; a row may go without the last two.
    """

    name: str = "gsm8k"
    hub_id: str | None = None
    hub_config: str | None = None
    train_split: str = "train"
    test_split: str = "test"
    path: str | None = None
    num_samples: int | None = 16
    template: str = "problem"
    metric: str | None = "number_accuracy"
    train_from: str | None = None
    train_path: str | None = None
    prompt_column: str = "prompt"
    reference_column: str = "reference"
    id_column: str = "id"
