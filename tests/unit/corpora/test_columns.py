from typing import Any

import pytest

from corpora.columns import COLUMNS, MULTI_TURN, Fields, columns_of


def test_gsm8k_drops_calculator_marks_and_takes_the_gold_number() -> None:
    row = {"question": "How many?", "answer": "She sold 48/2 = <<48/2=24>>24 in May.\n#### 1,024"}
    assert COLUMNS["gsm8k"].read(row) == Fields("How many?", "She sold 48/2 = 24 in May.\n#### 1,024", ("1024",))


def test_codealpaca_joins_instruction_and_input() -> None:
    row = {"instruction": "Sort the list.", "input": "3, 1", "output": "1, 3"}
    assert COLUMNS["codealpaca"].read(row) == Fields("Sort the list.\n3, 1", "1, 3")
    assert COLUMNS["codealpaca"].read({**row, "input": " "})[0] == "Sort the list."


def test_ultrachat_takes_the_first_answer() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "Bye."},
    ]
    assert COLUMNS["ultrachat"].read({"prompt": "Hi", "messages": messages}) == Fields("Hi", "Hello.")


def test_triviaqa_accepts_value_and_aliases_once() -> None:
    row = {"question": "Who?", "answer": {"value": "Ada", "aliases": ["Ada Lovelace", "Ada"]}}
    assert COLUMNS["triviaqa"].read(row) == Fields("Who?", "Ada", ("Ada", "Ada Lovelace"))


def test_spec_bench_is_read_in_its_own_columns_and_in_ours() -> None:
    read = COLUMNS["spec_bench"].read
    own = {"question_id": 81, "category": "writing", "turns": ["Write a post.", "Rewrite it."]}
    assert read(own) == Fields("Write a post.", "", (), MULTI_TURN, ("Rewrite it.",), "81")
    ours = {"id": "sb-81", "category": "stem", "prompt": "What is it?", "followups": ["Why?"]}
    assert read(ours) == Fields("What is it?", "", (), MULTI_TURN, ("Why?",), "sb-81")
    assert read({"category": "translation", "prompt": "Translate: a"}) == Fields("Translate: a", "", (), "translation")
    assert read({"category": "rag", "turns": ["Say."]}).category == "retrieval-augmented generation"


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("gsm8k", {"question": "q", "answer": "18"}, "must end with '#### <number>'"),
        ("gsm8k", {"question": 7, "answer": "#### 18"}, "column 'question' must hold text, got int"),
        ("ultrachat", {"prompt": "p", "messages": [{"role": "user", "content": "p"}]}, "role 'assistant'"),
        ("triviaqa", {"question": "q", "answer": "Paris"}, "'value' and 'aliases'"),
        ("spec_bench", {"category": "qa"}, "must hold the texts of the user"),
        ("spec_bench", {"category": "qa", "turns": ["a", " "]}, "must hold the texts of the user"),
        ("spec_bench", {"category": 1, "turns": ["a"]}, "column 'category' must hold text"),
    ],
)
def test_unfit_content_is_refused(name: str, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        COLUMNS[name].read(row)


def test_unknown_dataset_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="'gsm9k' has no column mapping: use one of codealpaca, gsm8k, spec_bench, triviaqa, ultrachat"
    ):
        columns_of("gsm9k")
