import pytest

from corpora.templates import TEMPLATES, render


def _one_line(text: str) -> str:
    return " ".join(text.split())


def test_wording_is_that_of_the_papers_table_10() -> None:
    assert _one_line(TEMPLATES["problem"]) == (
        "Solve the following problem step by step. Problem: {instruction} Think through the problem carefully, then "
        "provide your final answer. Your response MUST end with “Final Answer: answer” on a new line, where answer is "
        "the final result."
    )
    assert _one_line(TEMPLATES["alpaca"]) == (
        "You are a skilled programmer. Complete the following coding task. ### Task: {instruction} ### Solution: "
        "Provide only the code implementation. Do not include explanations unless specifically requested."
    )
    assert TEMPLATES["chat"] == "{instruction}"


@pytest.mark.parametrize("instruction", ["print({x})", "{instruction}", "%s {0}", "a\u2028b"])
def test_render_keeps_the_instruction_as_it_is(instruction: str) -> None:
    assert render("chat", instruction) == instruction
    assert render("alpaca", instruction).count(instruction) == 1


def test_unknown_template_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"dataset.template 'maths' is unknown: use one of alpaca, chat, problem"):
        render("maths", "1 + 1")
