import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.answers import extract_answer, extract_number, own_answer, without_thinking

QUESTION = "Janet has 16 eggs. How many does she sell?"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>b</think>c", "c"),
        ("a<think>b</think>c", "ac"),
        ("<think>a</think>b<think>c</think>d", "bd"),
        ("begun in the prompt</think>c", "c"),
        ("<think>maybe 18", ""),
        ("It is 18. <think>or 5", "It is 18."),
        ("<think>a</think>It is 18.<think>or 5", "It is 18."),
        ("<Thinking>a</Thinking>c", "c"),
        ("c", "c"),
    ],
)
def test_thoughts_go(text: str, left: str) -> None:
    assert without_thinking(text) == left


# The scenarios of a stop marker that cuts too much or too little.
RUN_ON = "Tom has 9 apples and eats 2. How many are left? Final Answer: 7"


@pytest.mark.parametrize(
    "text",
    [
        "Let me identify the Question first. She bakes some and sells the rest, so 18",
        "Let me write down the Question: how many does she sell? She bakes 7 of 25.\nShe sells 18",
        "#### 18 Question: Tom has 9? #### 9",
        "Final Answer: 18Question: Tom has 9 apples.Final Answer: 3",
        "Final Answer: 18 Problem: Tom has 3 apples",
        "Final Answer: 18 Q2: Tom has 3 apples",
        "She sells 18.</s>\nTom has 9 apples.\nFinal Answer: 7",
        "<|assistant|>\nFinal Answer: 18\n<|user|>\nAnd 9?\n<|assistant|>\nFinal Answer: 7",
        "<|start_header_id|>assistant<|end_header_id|>\n\nShe sells 18.<|eot_id|>\nTom has 9.",
        "Example 1: What is 2 + 3? It is 5.\nExample 2: What is 4 + 4? It is 8.\nFor Janet it is 18.",
        "Question 1. 2 + 3?\nFinal Answer: 5\nQuestion 2. 4 + 4?\nFinal Answer: 8\nJanet:\nFinal Answer: 18",
        "#### 18\n\nQuestion: Tom has 9 apples and eats none. How many are left? #### 9",
        "Final Answer: 18\n\nProblem: Tom has 9 apples.\nFinal Answer: 9",
        "**Final Answer:** 18\n\n**Question 2:** Tom has 9 apples.\n**Final Answer:** 9",
        "Final Answer: 18\nUser: and 3 more?\nFinal Answer: 21",
        "Question: 2 + 3?\n#### 5\n\nQuestion: 4 + 4?\n#### 8\n\nNow Janet's eggs: 9 * 2.\n#### 18",
        "Example 1: 2 + 3 is\nFinal Answer: 5\nExample 2: 4 + 4 is\nFinal Answer: 8\nJanet:\nFinal Answer: 18",
        f"Problem: {QUESTION}\nShe sells 9.\nFinal Answer: 18\n\nProblem: Tom has 9 apples.\nFinal Answer: 9",
        f"Question: 2 + 3?\n#### 5\n\nQuestion: {QUESTION}\n#### 18",
        f"Question: 2 + 3?\n#### 5\n\nQuestion: {QUESTION}\n#### 18\n\nQuestion: 9 + 9?\n#### 9",
        f"Final Answer: 18\n\nProblem: {QUESTION}\nShe has 16",
        "<think>Is it 5? Final Answer: 5</think>\n\nIt is 18.",
    ],
)
def test_only_the_own_answer_counts(text: str) -> None:
    assert extract_number(own_answer(text, QUESTION)) == 18


@pytest.mark.parametrize(
    "opener",
    [
        "Another problem:", "New problem:", "Next question:", "Question 2.", "Q2.", "Q2:", "Q:", "**Example 2:**",
        "## Problem 2\n", "Exercise 3)", "Task:", "</s>", "<|user|>", "<|endoftext|>", "<end_of_turn>",
        "<start_of_turn>user", "<|start_header_id|>user<|end_header_id|>", "[INST]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("own", ["Final Answer: 18", "#### 18", "The answer is 18."])
def test_an_answer_ends_where_another_question_opens(own: str, opener: str) -> None:
    assert extract_number(own_answer(f"{own}\n\n{opener} {RUN_ON}", QUESTION)) == 18


def test_a_question_is_the_prompts_own_by_its_words_and_all_of_its_numbers() -> None:
    for question, number in (("Janet has 16 eggs. How many does Janet sell?", 7), ("Janet has 20 eggs. How many?", 18)):
        text = f"Final Answer: 18\n\nProblem: {question}\n\nFinal Answer: 7"
        assert extract_number(own_answer(text, QUESTION)) == number


def test_more_than_four_fifths_of_the_words_make_a_question_the_prompts_own() -> None:
    instruction = "one two three four five six seven eight"
    for question, own in (("one two three four x", False), ("one two three four five x", True)):
        text = f"Final Answer: 1\n\nProblem: {question}\n\nFinal Answer: 2"
        assert extract_number(own_answer(text, instruction)) == (2 if own else 1)


def test_the_last_declaration_with_a_number_wins() -> None:
    assert extract_number("The answer is 5.\nFinal Answer: 18\nI hope this answer is helpful.") == 18
    assert extract_number("#### 5\n\\boxed{18}") == 18
    assert extract_number("\\boxed{18}\n#### 1. Check it") == 18


def test_words_are_taken_from_the_declaration_or_the_last_line() -> None:
    assert extract_answer("Rome\nFinal Answer: **Paris**\n\n.") == "Paris"
    assert extract_answer("Rome\n\nParis\n---\n") == "Paris"
    assert extract_answer("\\boxed{\\text{Paris}}") == "Paris"
    assert extract_answer("...") == ""


@given(st.integers(-(10**9), 10**9))
def test_every_declared_integer_is_read_back(value: int) -> None:
    assert extract_number(f"17 things\nFinal Answer: {value:,}.\nThere were 3 steps.") == value


@given(st.text(max_size=200) | st.text("Final Answer:#### 12.\n{}\\boxedQuestion?<think/>", max_size=200))
def test_any_text_is_cut_and_read_without_an_error(text: str) -> None:
    answer = own_answer(text, QUESTION)
    assert answer in without_thinking(text)
    assert isinstance(extract_number(answer), float | None)
    assert extract_answer(answer).strip() == extract_answer(answer)
