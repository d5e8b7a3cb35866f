from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from corpora.settings import DatasetSettings
from methods.offline.plan import plan_store
from methods.overrides import compose
from methods.settings import problems
from methods.train_set import train_problem, train_settings

Words = Callable[..., list[str]]


def test_a_set_with_train_prompts_gives_its_own() -> None:
    dataset = compose(["dataset=gsm8k"]).dataset
    assert train_settings(dataset) is dataset


def test_another_set_gives_them_as_its_config_says(tmp_path: Path) -> None:
    dataset = compose(["dataset=prompts", f"dataset.path={tmp_path / 'mine.txt'}"]).dataset
    assert train_settings(dataset) == compose(["dataset=ultrachat"]).dataset
    (tmp_path / "train.jsonl").touch()
    chosen = train_settings(replace(dataset, train_from="gsm8k", train_path=str(tmp_path)))
    assert chosen == replace(compose(["dataset=gsm8k"]).dataset, path=str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_from": None}, "'prompts' has no train prompts: set dataset.train_from to one of codealpaca, gsm8k"),
        ({"train_from": "gsm9k"}, "dataset.train_from is 'gsm9k': did you mean 'gsm8k'"),
        ({"train_from": "prompts"}, "dataset.train_from is 'prompts'"),
        ({"train_path": "/nowhere"}, "dataset.train_path is '/nowhere', where there is no train.jsonl"),
        ({"name": "gsm8k", "train_from": None, "train_path": "/x"}, "dataset.train_from is null: say which data set"),
    ],
)
def test_what_cannot_work_is_one_sentence(changes: dict[str, str | None], message: str) -> None:
    dataset = DatasetSettings(**{"name": "prompts", "train_from": "ultrachat", **changes})  # type: ignore[arg-type]
    assert message in str(train_problem(dataset))
    with pytest.raises(ValueError, match="dataset"):
        train_settings(dataset)


def test_only_a_method_with_a_store_needs_train_prompts(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Why?")
    words = ["dataset=prompts", f"dataset.path={tmp_path / 'mine.txt'}", "dataset.train_from=null"]
    assert problems(compose(["method=pld", *words])) == []
    (problem,) = problems(compose(["method=rest", *words]))
    assert "has no train prompts" in problem


def test_a_store_is_made_of_the_other_set_and_checked_against_the_prompts(
    words: Words, rows_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("Why?\nHow?")
    chosen = [word for word in words("rest") if not word.startswith("dataset")]
    chosen += ["dataset=prompts", f"dataset.path={tmp_path / 'mine.txt'}"]
    chosen += ["dataset.train_from=gsm8k", f"dataset.train_path={rows_folder}"]
    plan = plan_store(compose(chosen))
    assert plan is not None
    assert (plan.train.name, plan.asking.template) == ("gsm8k", "problem")
    assert [example.instruction for example in plan.evaluation.examples] == ["Why?", "How?"]
    assert plan.identity["template"][0] == "problem"
