"""A table as Markdown, as LaTeX (booktabs) and as CSV with one line a cell; the same table gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import pandas as pd

from benchmarks.paper.cells import Cell
from benchmarks.paper.table import Labels, Table

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "τ": r"$\tau$",
    "θ": r"$\theta$",
    "≥": r"$\geq$",
    "“": "``",
    "”": "''",
}
_BESIDE: Final = "A cell with a stroke is ours / the paper's (their ratio); it stands where the paper has a value."


def markdown(table: Table) -> str:
    """Return the table with its caption above and its notes and missing cells below."""
    heads = [*table.heads, *(" ".join(filter(None, column)) for column in table.columns)]
    right = len(table.columns) and not _holds_texts(table)
    rule = ["---"] * len(table.heads) + ["---:" if right else "---"] * len(table.columns)
    rows = [[*row, *(_text(table, row, column) for column in table.columns)] for row in table.rows]
    lines = [f"**{_title(table)}.** {table.caption}.", ""]
    lines += [f"| {' | '.join(map(_escaped, row))} |" for row in [heads, rule, *rows]]
    for sentence in _sentences(table):
        lines += ["", sentence]
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """Return the table as a float for the packages booktabs and graphicx."""
    kind = "l" if _holds_texts(table) else "r"
    rows: list[str] = []
    before: Labels | None = None
    for row in table.rows:
        if before is not None and len(row) > 1 and row[0] != before[0]:
            rows.append(r"\midrule")
        labels = ["" if before is not None and row[: i + 1] == before[: i + 1] else part for i, part in enumerate(row)]
        rows.append(_latex_line([*labels, *(_text(table, row, column) for column in table.columns)]))
        before = row
    return "\n".join(
        [
            r"\begin{table*}[t]",
            r"\centering",
            rf"\caption{{{_latex(table.caption)}.}}",
            rf"\label{{tab:{table.name}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{{'l' * len(table.heads)}{kind * len(table.columns)}}}",
            r"\toprule",
            *_latex_heads(table),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}}",
            *(rf"\\[2pt] {{\footnotesize {_latex(sentence)}}}" for sentence in _sentences(table)),
            r"\end{table*}",
            "",
        ]
    )


def csv(table: Table) -> str:
    """Return one line for each cell: labels, value, interval, n, outputs cut, the paper's value and ratio, runs."""
    lines = []
    shows_cut = any(cell.cut is not None for cell in table.cells.values())
    extra = [*(["cut"] if shows_cut else []), *(["published", "ratio"] if table.published is not None else [])]
    names = [*table.heads, "group", "figure", "value", "low", "high", "n", *extra, "runs"]
    for row in table.rows:
        for column in table.columns:
            cell, published = table.cell(row, column), table.published_value(row, column)
            lines.append(
                {
                    **dict(zip(table.heads, row, strict=True)),
                    **dict(zip(("group", "figure"), column if len(column) > 1 else ("", *column), strict=True)),
                    "value": _exact(cell.value),
                    "low": _exact(cell.low),
                    "high": _exact(cell.high),
                    "n": "" if cell.n is None else cell.n,
                    **({"cut": _exact(cell.cut)} if shows_cut else {}),
                    **({} if table.published is None else _beside(cell, published)),
                    "runs": " ".join(cell.runs),
                }
            )
    return str(pd.DataFrame(lines, columns=names).to_csv(index=False, lineterminator="\n"))


def _title(table: Table) -> str:
    name = table.name.rstrip("0123456789")
    return f"{name.capitalize()} {table.name[len(name) :]}".strip().replace("_", " ")


def _holds_texts(table: Table) -> bool:
    return any(isinstance(cell.value, str) for cell in table.cells.values())


def _text(table: Table, row: Labels, column: Labels) -> str:
    cell, published = table.cell(row, column), table.published_value(row, column)
    own = "" if cell.value is None else table.format(column, cell.value)
    if table.with_interval and cell.low is not None and cell.high is not None:
        own += f" [{table.format(column, cell.low)}, {table.format(column, cell.high)}]"
    if published is None:
        return own
    ratio = f" ({cell.number / published:.2f})" if cell.number is not None and published else ""
    return f"{own or '-'} / {table.format(column, published)}{ratio}"


def _sentences(table: Table) -> Iterator[str]:
    yield from table.notes
    if table.published:
        yield _BESIDE
    missing = [f"{', '.join(row)}: {', '.join(names)}" for row, names in table.missing() if table.complete]
    if missing:
        yield f"Not measured: {'; '.join(missing)}."


def _beside(cell: Cell, published: float | None) -> dict[str, str]:
    ratio = cell.number / published if cell.number is not None and published else None
    return {"published": _exact(published), "ratio": _exact(ratio)}


def _exact(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.6g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex, cells)).replace("\n", " ") + r" \\"


def _latex_heads(table: Table) -> Iterator[str]:
    """Yield a line of groups with a rule below each of them, and the line of the columns."""
    width = len(table.heads)
    if any(len(column) > 1 and column[0] for column in table.columns):
        cells, rules, place = [""] * width, [], width + 1
        for group, columns in groupby(table.columns, key=lambda column: column[0]):
            count = len(list(columns))
            cells.append(rf"\multicolumn{{{count}}}{{c}}{{{_latex(group)}}}")
            rules.append(rf"\cmidrule(lr){{{place}-{place + count - 1}}}")
            place += count
        yield " & ".join(cells) + r" \\"
        yield " ".join(rules)
    yield _latex_line([*table.heads, *(column[-1] for column in table.columns)])
