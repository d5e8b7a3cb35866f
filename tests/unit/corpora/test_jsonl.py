from pathlib import Path

import pytest

from corpora.jsonl import read_jsonl


def test_lines_end_at_newline_bytes_only(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes('\ufeff{"a": "x\u2028y\x85z"}\r\n\n{"a": "\u00e9"}'.encode())
    assert read_jsonl(path) == [{"a": "x\u2028y\x85z"}, {"a": "\u00e9"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}\n{"a": \n', "line 2 is not valid JSON"),
        ("[1]\n", "line 1 must be a JSON object, got list"),
        ("\n\n", "holds no rows"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        read_jsonl(path)
    assert str(path) in str(error.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no file"):
        read_jsonl(tmp_path / "train.jsonl")
