from __future__ import annotations

import csv as reader
from io import StringIO

from benchmarks.paper.cells import Cell
from benchmarks.paper.render import csv, latex, markdown
from benchmarks.paper.table import Labels, Table

SPEED, TAU = ("GSM8K", "Speed"), ("GSM8K", "τ")
ROWS: list[Labels] = [("m_1", "PLD"), ("m_1", "SENSE(ID)"), ("m_2", "PLD")]
TABLE = Table(
    "table1",
    "A caption with 2 % of it",
    ("Model", "Method"),
    ROWS,
    [SPEED, TAU],
    {
        (ROWS[0], SPEED): Cell(1.234567, 1.1, 1.3, 60, ("abc",)),
        (ROWS[0], TAU): Cell(1.5, None, None, 60, ("abc",)),
        (ROWS[2], TAU): Cell(2.0, 1.0, 3.0, 8, ("d", "e")),
    },
    notes=["A note."],
)


def lines_of(table: Table) -> list[dict[str, str]]:
    return list(reader.DictReader(StringIO(csv(table))))


def test_markdown_has_the_papers_layout_with_empty_cells_left_empty_and_listed() -> None:
    assert markdown(TABLE).splitlines() == [
        "**Table 1.** A caption with 2 % of it.",
        "",
        "| Model | Method | GSM8K Speed | GSM8K τ |",
        "| --- | --- | ---: | ---: |",
        "| m_1 | PLD | 1.23 | 1.50 |",
        "| m_1 | SENSE(ID) |  |  |",
        "| m_2 | PLD |  | 2.00 |",
        "",
        "A note.",
        "",
        "Not measured: m_1, SENSE(ID): all; m_2, PLD: GSM8K Speed.",
    ]


def test_latex_uses_booktabs_groups_columns_and_escapes() -> None:
    text = latex(TABLE)
    for piece in (
        r"\caption{A caption with 2 \% of it.}",
        r"\toprule",
        r" &  & \multicolumn{2}{c}{GSM8K} \\",
        r"\cmidrule(lr){3-4}",
        r"Model & Method & Speed & $\tau$ \\",
        r"m\_1 & PLD & 1.23 & 1.50 \\",
        r" & SENSE(ID) &  &  \\",
        "\\midrule\nm\\_2 & PLD &  & 2.00 \\\\",
        r"\bottomrule",
    ):
        assert piece in text, piece


def test_csv_has_a_line_for_each_cell_with_interval_n_and_runs() -> None:
    lines = lines_of(TABLE)
    assert len(lines) == 6
    assert lines[0] == {
        "Model": "m_1",
        "Method": "PLD",
        "group": "GSM8K",
        "figure": "Speed",
        "value": "1.23457",
        "low": "1.1",
        "high": "1.3",
        "n": "60",
        "runs": "abc",
    }
    assert [lines[2][key] for key in ("value", "low", "high", "n", "runs")] == [""] * 5
    assert lines[5]["runs"] == "d e"


def test_published_values_stand_beside_with_the_ratio_and_where_nothing_was_measured() -> None:
    table = Table(**{**vars(TABLE), "published": {(ROWS[0], SPEED): 2.469134, (ROWS[1], SPEED): 3.0}})
    rows = markdown(table).splitlines()
    assert rows[4] == "| m_1 | PLD | 1.23 / 2.47 (0.50) | 1.50 |"
    assert rows[5] == "| m_1 | SENSE(ID) | - / 3.00 |  |"
    first, _, third, *_ = lines_of(table)
    assert (first["published"], first["ratio"]) == ("2.46913", "0.5")
    assert (third["value"], third["published"], third["ratio"]) == ("", "3", "")


def test_rows_that_nobody_measured_are_listed_by_what_they_have_in_common() -> None:
    rows: list[Labels] = [("a", "0.01", "5"), ("a", "0.01", "6"), ("a", "0.05", "5"), ("b", "0.01", "5")]
    table = Table("t", "c", ("M", "t", "w"), rows, [("x",)], {(rows[2], ("x",)): Cell(1.0)})
    assert list(table.missing()) == [(("a", "0.01"), ["all"]), (("b",), ["all"])]


def test_intervals_are_shown_where_a_table_asks_for_them() -> None:
    table = Table(**{**vars(TABLE), "with_interval": True})
    assert "| 1.23 [1.10, 1.30] | 1.50 |" in markdown(table)
