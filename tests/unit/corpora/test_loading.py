import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import loading
from corpora.checks import check_dataset, path_problem
from corpora.hub import HubError
from corpora.loading import HELD_OUT, MINI, load_corpus, whole_split
from corpora.settings import DatasetSettings


def _gsm8k(n: int) -> list[dict[str, Any]]:
    return [{"question": f"question {i}", "answer": f"so it is {i}\n#### {i}"} for i in range(n)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in _gsm8k(20)))
    return tmp_path


def _settings(folder: Path, **changes: Any) -> DatasetSettings:
    return DatasetSettings(**{"path": str(folder), "num_samples": 4, **changes})


def _no_hub(*args: Any) -> Any:
    raise HubError("openai/gsm8k is not in the hub's cache, and https://hub does not answer")


def test_a_smaller_sample_begins_a_larger_one(folder: Path) -> None:
    large = load_corpus(_settings(folder, num_samples=16), "test")
    small = load_corpus(_settings(folder, num_samples=8), "test")
    assert len(large) == 16
    assert len({example.id for example in large.examples}) == 16
    assert large.examples[:8] == small.examples
    assert [example.id for example in small.examples] != sorted(example.id for example in small.examples)


def test_a_whole_split_is_in_the_order_of_the_source(folder: Path) -> None:
    examples = whole_split(_settings(folder), "test").examples
    assert [example.id for example in examples] == [f"test-{i:05d}" for i in range(20)]


def test_examples_keep_the_number_of_their_row(folder: Path) -> None:
    for example in load_corpus(_settings(folder), "test").examples:
        number = int(example.id.removeprefix("test-"))
        assert (example.instruction, example.answers) == (f"question {number}", (str(number),))


def test_train_gives_everything_or_at_most_so_many(folder: Path) -> None:
    assert len(load_corpus(_settings(folder), "train")) == 20
    assert len(load_corpus(_settings(folder), "train", at_most=7)) == 7
    assert len(load_corpus(_settings(folder), "train", at_most=512)) == 20


def test_asking_for_more_prompts_than_there_are_says_how_many(folder: Path) -> None:
    with pytest.raises(ValueError, match="num_samples is 21, but the test part of gsm8k has only 20 prompts"):
        load_corpus(_settings(folder, num_samples=21), "test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_samples": 0}, "dataset.num_samples must be at least 1, got 0"),
        ({"num_samples": -3}, "got -3"),
        ({"name": "gsm9k"}, "dataset.name 'gsm9k'"),
        ({"template": "maths"}, "dataset.template 'maths'"),
    ],
)
def test_unfit_settings_are_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_dataset(_settings(folder, **changes))


def test_missing_folder_file_and_column_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"dataset.path: there is no folder .*nowhere"):
        load_corpus(_settings(folder / "nowhere"), "test")
    (folder / "test.jsonl").write_text('{"question": "q"}\n')
    with pytest.raises(ValueError, match=r"test.jsonl, row 1 has no column 'answer'; needed: question, answer"):
        load_corpus(_settings(folder, num_samples=1), "test")
    (folder / "test.jsonl").unlink()
    with pytest.raises(ValueError, match=r"dataset.path: there is no file .*test.jsonl"):
        load_corpus(_settings(folder), "test")


def test_fingerprint_follows_the_content_only(folder: Path, tmp_path: Path) -> None:
    before = load_corpus(_settings(folder), "test")
    other = tmp_path / "copy"
    other.mkdir()
    (other / "test.jsonl").write_bytes((folder / "test.jsonl").read_bytes() + b"\n")
    assert load_corpus(_settings(other), "test").fingerprint == before.fingerprint
    (other / "test.jsonl").write_text((folder / "test.jsonl").read_text().replace("so it is", "thus it is"))
    assert load_corpus(_settings(other), "test").fingerprint != before.fingerprint
    assert load_corpus(_settings(folder, num_samples=5), "test").fingerprint != before.fingerprint


def test_mini_set_steps_in_with_a_notice(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(loading, "load_rows", _no_hub)
    with caplog.at_level(logging.WARNING):
        corpus = load_corpus(DatasetSettings(hub_id="openai/gsm8k", num_samples=3), "test")
    assert corpus.name == "gsm8k-mini"
    assert "own writing" in corpus.source
    assert "does not answer" in corpus.source
    assert corpus.source in caplog.text
    assert "dataset.path=<folder>" in caplog.text


def test_the_mini_folder_is_called_mini_also_when_asked_for() -> None:
    assert load_corpus(_settings(MINI / "gsm8k"), "test").name == "gsm8k-mini"


def test_without_any_source_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loading, "load_rows", _no_hub)
    monkeypatch.setattr(loading, "MINI", tmp_path)
    with pytest.raises(ValueError, match=r"has no source: .* does not answer; give dataset.path="):
        load_corpus(DatasetSettings(hub_id="openai/gsm8k"), "test")


def test_hub_rows_are_read_from_the_named_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def rows(hub_id: str, config: str | None, split: str) -> tuple[list[dict[str, Any]], str]:
        asked.append((hub_id, config, split))
        return _gsm8k(10), "hub cache"

    monkeypatch.setattr(loading, "load_rows", rows)
    settings = DatasetSettings(hub_id="a/b", hub_config="main", test_split="validation", num_samples=2)
    corpus = load_corpus(settings, "test")
    load_corpus(settings, "train")
    assert asked == [("a/b", "main", "validation"), ("a/b", "main", "train")]
    assert (corpus.name, corpus.source) == ("gsm8k", "hub cache a/b (validation)")


def test_a_hub_without_test_split_gets_a_fixed_disjoint_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every prompt occurs twice, so a split by row alone would leak.
    raw = [{"instruction": f"task {i // 2}", "input": "", "output": f"{i}"} for i in range(4 * HELD_OUT)]
    monkeypatch.setattr(loading, "load_rows", lambda *args: (raw, "hub"))
    settings = DatasetSettings(
        "codealpaca", hub_id="a/b", train_split="train", test_split="train", num_samples=HELD_OUT, template="alpaca"
    )
    test, train = load_corpus(settings, "test"), load_corpus(settings, "train")
    assert load_corpus(settings, "test").fingerprint == test.fingerprint
    tested = {example.instruction for example in test.examples}
    assert not tested & {example.instruction for example in train.examples}
    assert len(train) == sum(row["instruction"] not in tested for row in raw)


@pytest.mark.parametrize("name", sorted(path.name for path in MINI.iterdir() if path.is_dir()))
def test_mini_sets_are_whole(name: str) -> None:
    template = {"codealpaca": "alpaca", "ultrachat": "chat"}.get(name, "problem")
    settings = DatasetSettings(name, path=str(MINI / name), num_samples=30, template=template)
    test, train = load_corpus(settings, "test"), load_corpus(settings, "train")
    assert len(train) >= 90
    assert not {example.instruction for example in test.examples} & {example.instruction for example in train.examples}
    assert all(example.instruction.strip() and example.reference.strip() for example in test.examples + train.examples)


@given(st.integers(1, 60), st.integers(1, 60))
def test_samples_are_nested_and_without_repeats(size: int, wanted: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_rows", lambda *args: (_gsm8k(size), "hub"))
        settings = DatasetSettings(hub_id="a/b", num_samples=min(size, wanted))
        chosen = load_corpus(settings, "test").examples
        whole = load_corpus(DatasetSettings(hub_id="a/b", num_samples=size), "test").examples
    assert whole[: len(chosen)] == chosen
    assert len({example.id for example in whole}) == size


def _spec_bench(path: Path | None, **changes: Any) -> DatasetSettings:
    given = {"name": "spec_bench", "template": "chat", "metric": None, "num_samples": 6, **changes}
    return DatasetSettings(path=None if path is None else str(path), **given)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """20 rows of one category, 3 of another, 1 with two turns."""
    rows = [{"question_id": i, "category": "qa", "turns": [f"q{i}"]} for i in range(20)]
    rows += [{"question_id": i, "category": "rag", "turns": [f"r{i}"]} for i in range(20, 23)]
    rows += [{"question_id": 23, "category": "writing", "turns": ["Write.", "Again."]}]
    path = tmp_path / "question.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_sample_takes_from_the_categories_in_turns(questions: Path) -> None:
    corpus = load_corpus(_spec_bench(questions, num_samples=9), "test")
    short = [str(example.category).split()[0] for example in corpus.examples]
    assert (sorted(short[:3]), sorted(short[3:5]), sorted(short[5:7]), short[7:]) == (
        ["multi-turn", "question", "retrieval-augmented"],
        ["question", "retrieval-augmented"],
        ["question", "retrieval-augmented"],
        ["question", "question"],
    )
    assert load_corpus(_spec_bench(questions, num_samples=4), "test").examples == corpus.examples[:4]
    assert (corpus.name, corpus.source) == ("spec_bench", f"file {questions}")
    (talk,) = [example for example in corpus.examples if example.followups]
    assert (talk.id, talk.instruction, talk.followups) == ("23", "Write.", ("Again.",))


def test_spec_bench_is_read_from_a_file_or_a_folder_alone(questions: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dataset=spec_bench is read from disk alone: give dataset\.path=<question"):
        check_dataset(_spec_bench(None))
    assert path_problem(_spec_bench(questions)) is None
    assert "where there is no test.jsonl: give a question.jsonl of" in str(path_problem(_spec_bench(tmp_path)))
    (tmp_path / "test.jsonl").write_bytes(questions.read_bytes())
    assert path_problem(_spec_bench(tmp_path)) is None
    assert (
        load_corpus(_spec_bench(tmp_path), "test").fingerprint
        == load_corpus(_spec_bench(questions), "test").fingerprint
    )
    with pytest.raises(ValueError, match="dataset 'spec_bench' has no train prompts"):
        load_corpus(_spec_bench(questions), "train")


def test_what_an_example_does_not_have_changes_no_fingerprint(folder: Path) -> None:
    # Stores and finished runs are found by it, so it must stay what it was before examples had categories.
    assert load_corpus(_settings(folder), "test").fingerprint.startswith("1e006d72101628f1")
