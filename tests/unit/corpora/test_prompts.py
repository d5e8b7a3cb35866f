import json
from pathlib import Path
from typing import Any

import pytest

from corpora.checks import check_dataset, path_problem
from corpora.example import Example
from corpora.loading import load_corpus, whole_split
from corpora.prompts import read_prompts
from corpora.settings import DatasetSettings


def _file(folder: Path, *rows: Any, name: str = "mine.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def _settings(path: Path | None, **changes: Any) -> DatasetSettings:
    given = {"name": "prompts", "num_samples": None, "template": "chat", "metric": None, **changes}
    return DatasetSettings(path=None if path is None else str(path), **given)


def test_a_text_file_has_a_prompt_a_line(tmp_path: Path) -> None:
    path = _file(tmp_path, "\ufeffWhat is rain?", "", "  How deep\u2028is the sea?\r", name="mine.txt")
    assert read_prompts(_settings(path)) == [
        Example("line-00001", "What is rain?", ""),
        Example("line-00003", "How deep\u2028is the sea?", ""),
    ]


def test_rows_may_have_references_and_ids(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        {"prompt": "Sum of 2 and 3?", "reference": 5, "id": "sum"},
        "",
        {"prompt": "Capital of France?", "reference": ["Paris", "City of Paris"], "id": 7, "more": "ignored"},
        {"prompt": "Anything\nelse?", "reference": None},
    )
    assert read_prompts(_settings(path)) == [
        Example("sum", "Sum of 2 and 3?", "5", ("5",)),
        Example("7", "Capital of France?", "Paris", ("Paris", "City of Paris")),
        Example("line-00004", "Anything\nelse?", ""),
    ]


def test_columns_have_the_names_that_the_settings_say(tmp_path: Path) -> None:
    path = _file(tmp_path, {"q": "Why?", "a": "So.", "key": "x"})
    settings = _settings(path, prompt_column="q", reference_column="a", id_column="key", metric="rouge_l")
    assert read_prompts(settings) == [Example("x", "Why?", "So.", ("So.",))]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 2 is not valid JSON"),
        ("[1]", "line 2 must be a JSON object, got list"),
        ({"text": "Why?", "n": 1}, "line 2 has no column 'prompt', only text, n: set dataset.prompt_column"),
        ({"prompt": " "}, "line 2 must hold a text in column 'prompt', got ' '"),
        ({"prompt": 5}, "line 2 must hold a text in column 'prompt', got 5"),
        ({"prompt": "a", "id": "first"}, "line 2 has the id 'first' of line 1"),
        ({"prompt": "a", "id": [1]}, r"line 2 must hold a text or a whole number in column 'id', got \[1\]"),
        ({"prompt": "a", "reference": {"x": 1}}, "line 2 must hold a text, a number or a list of texts in column 'ref"),
        ({"prompt": "a", "reference": []}, "line 2 must hold a text, a number or a list of texts"),
    ],
)
def test_a_bad_line_is_named_in_one_sentence(tmp_path: Path, row: Any, message: str) -> None:
    path = _file(tmp_path, {"prompt": "fine", "id": "first"}, row)
    with pytest.raises(ValueError, match=message) as error:
        load_corpus(_settings(path), "test")
    assert str(error.value).startswith(f"dataset.path: {path}, line 2")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("reference", ["many", "1e400", "NaN", "", ["18", "many"]])
def test_a_reference_that_is_no_number_is_refused_where_numbers_are_compared(tmp_path: Path, reference: Any) -> None:
    path = _file(
        tmp_path, {"prompt": "a", "reference": "$1,080"}, {"prompt": "b"}, {"prompt": "c", "reference": reference}
    )
    assert len(read_prompts(_settings(path, metric="rouge_l"))) == 3
    if reference:
        with pytest.raises(
            ValueError, match=r"mine\.jsonl, line 3 must hold a number in column 'reference' for .*, got '"
        ):
            read_prompts(_settings(path, metric="number_accuracy"))


@pytest.mark.parametrize("reference", ["NaN", "-Infinity", "1e400", "[1, NaN]"])
def test_a_reference_that_is_not_finite_is_refused(tmp_path: Path, reference: str) -> None:
    path = _file(tmp_path, f'{{"prompt": "a", "reference": {reference}}}')
    with pytest.raises(ValueError, match="line 1 must hold a text, a number or a list of texts in column 'reference'"):
        read_prompts(_settings(path))


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("mine.json", '[{"prompt": "a"}]', "one JSON document and no rows"),
        ("mine.json", '[\n  {"prompt": "a"}\n]', "one JSON document and no rows"),
        ("mine.json", '{\n  "prompt": "a"\n}', "one JSON document and no rows"),
        ("mine.csv", "prompt\na", r"a table \(.csv\), which is not read"),
        ("mine.TSV", "prompt\na", r"a table \(.tsv\), which is not read"),
        ("mine.parquet", "PAR1", r"a table \(.parquet\), which is not read"),
    ],
)
def test_other_kinds_of_files_are_refused_with_what_is_allowed(
    tmp_path: Path, name: str, content: str, what: str
) -> None:
    path = _file(tmp_path, content, name=name)
    with pytest.raises(ValueError, match=f"dataset.path: .*{name} is {what}: give a .jsonl file .* or a text file"):
        load_corpus(_settings(path), "test")


def test_bad_files_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "latin.txt"
    broken.write_bytes("fine\ncaf\u00e9\n".encode("latin-1"))
    for path, message in (
        (tmp_path / "none.txt", "there is no file"),
        (_file(tmp_path, "\n\n", name="empty.txt"), "holds no rows"),
        (broken, "line 2 is not valid UTF-8"),
    ):
        with pytest.raises(ValueError, match=message):
            load_corpus(_settings(path), "test")
    with pytest.raises(
        ValueError, match=r"dataset=prompts is read from disk alone: give dataset\.path=<\.jsonl or text file"
    ):
        check_dataset(_settings(None))
    assert "which is no file: give a .jsonl or text file" in str(path_problem(_settings(tmp_path)))
    assert path_problem(_settings(broken)) is None


def test_a_metric_needs_a_reference(tmp_path: Path) -> None:
    path = _file(tmp_path, "Why?", name="mine.txt")
    with pytest.raises(
        ValueError, match=r"metric is 'rouge_l', but no prompt of .*mine.txt has a reference in a column"
    ):
        load_corpus(_settings(path, metric="rouge_l"), "test")


def test_all_prompts_come_in_their_order_or_a_sample_of_them(tmp_path: Path) -> None:
    path = _file(tmp_path, *(f"prompt {i}" for i in range(20)), name="mine.txt")
    corpus = load_corpus(_settings(path), "test")
    assert [example.instruction for example in corpus.examples] == [f"prompt {i}" for i in range(20)]
    assert (corpus.name, corpus.source) == ("prompts-mine", f"file {path}")
    assert whole_split(_settings(path), "test").examples == corpus.examples
    sample = load_corpus(_settings(path, num_samples=5), "test").examples
    assert len({example.id for example in sample}) == 5
    assert sample == load_corpus(_settings(path, num_samples=8), "test").examples[:5]
    with pytest.raises(ValueError, match=r"num_samples is 21, but .* has only 20 prompts .* for all by null"):
        load_corpus(_settings(path, num_samples=21), "test")


def test_there_are_no_train_prompts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dataset 'prompts' has no train prompts: set dataset\.train_from"):
        load_corpus(_settings(_file(tmp_path, "Why?", name="mine.txt")), "train")
