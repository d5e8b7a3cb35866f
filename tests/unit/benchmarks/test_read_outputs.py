r"""Outputs in the manner of a 1.5B model, with the answer that a person reads in each; the scorer must read the same.

All texts were written for this test. None is a model's output or a data set's text.
"""

import pytest

from benchmarks.answers import extract_number, own_answer
from benchmarks.scoring import normalise, words_given
from corpora.example import Example

EGGS = (
    "A farm collects 16 eggs a day. 3 are eaten for breakfast and 4 go into muffins. "
    "The rest are sold for 2 dollars each. How many dollars does the farm make a day?"
)

# (output, what a person reads as its answer)
NUMBERS: list[tuple[str, float | None]] = [
    # Plain declarations.
    ("The farm sells 16 - 3 - 4 = 9 eggs.\nThat makes 9 * 2 = 18 dollars.\nFinal Answer: 18", 18),
    ("We have 9 eggs left to sell, each for $2.\n\nFinal Answer: $18", 18),
    ("16 - 7 = 9, and 9 x 2 = 18.\n\n**Final Answer:** 18", 18),
    ("16 - 7 = 9, and 9 x 2 = 18.\n\n**Final Answer**: 18 dollars per day.", 18),
    ("So the money is 18.\n\n### Final Answer\n\n18", 18),
    ("So the money is 18.\n\n### Final Answer:\n\n**$18**", 18),
    ("final answer: eighteen dollars, that is 18", 18),
    ("Final Answer: The farm makes $18 every day.", 18),
    ("Final Answer: The farm makes **$18** every day from its 9 eggs.", 18),
    ("Final Answer: 18 dollars (9 eggs at $2 each)", 18),
    ("Final Answer: (16 - 3 - 4) * 2 = 9 * 2 = 18", 18),
    ("“Final Answer: 18”", 18),
    ("Final Answer: answer = 18", 18),
    ("Final Answer: 5\n\nWait, the muffins were forgotten.\n\nFinal Answer: 18", 18),
    # Sentences that say the answer, with others behind them.
    ("Each egg costs 2 dollars. Therefore, the answer is 18.", 18),
    ("Therefore, the answer is $18. The other 7 eggs are not sold.", 18),
    ("The final answer is: 18\n\nI hope this helps! Let me know about the other 2 problems.", 18),
    ("The answer to the problem is 18 dollars, because 9 eggs are sold.\nFinal Answer: 18 dollars", 18),
    ("Answer: 18\nExplanation: 16 eggs less 7 eggs are 9 eggs.", 18),
    ("Hence the answer is:\n\n18", 18),
    # Remarks behind the answer that speak of it.
    ("Final Answer: 18\n\nNote: The answer is correct for 16 eggs.", 18),
    ("#### 18\nPlease note that this answer is based on 9 eggs.", 18),
    ("Thus it is \\(\\boxed{18}\\). Let me know if the answer is useful for the other 7.", 18),
    ("The final answer is 18.\nI believe this answer is right for 2 dollars.", 18),
    ("Final Answer: unknown\n\nPerhaps the answer is 18.", 18),
    ("Final Answer: The answer is 18. It is for 9 eggs.", 18),
    # LaTeX.
    ("\\[ 16 - 3 - 4 = 9 \\]\n\\[ 9 \\times 2 = 18 \\]\nFinal Answer: \\( \\boxed{18} \\)", 18),
    ("Thus the farm makes $\\boxed{\\$18}$ dollars from 9 eggs.", 18),
    ("Thus \\(\\boxed{18 \\text{ dollars}}\\), as 9 eggs are sold.", 18),
    ("The volume is 2 times 9 cubes.\n\nFinal Answer: $18 \\, \\text{cm}^3$", 18),
    ("The share left is\n\\[\n\\boxed{\\frac{3}{4}}\n\\]\nof the 16 eggs.", 0.75),
    ("Final Answer: \\(\\dfrac{9}{2}\\)", 4.5),
    ("So it costs \\[ \\$1{,}250.50 \\]", 1250.5),
    ("The profit in percent is \\( \\boxed{12.5\\%} \\).", 12.5),
    # The shapes of numbers.
    ("Final Answer: 1,080 eggs", 1080),
    ("Final Answer: $1,234,567.89", 1234567.89),
    ("Final Answer: -5 degrees", -5),
    ("The account shows \u2212$40 at the end.\nFinal Answer: \u2212$40", -40),
    ("Final Answer: 35%", 35),
    ("Final Answer: 3/4", 0.75),
    ("Final Answer: 2 1/2 cups of flour", 2.5),
    ("Final Answer: 7\u00bd hours", 7.5),
    ("Final Answer: .5", 0.5),
    ("Final Answer: 18.00", 18),
    ("Final Answer: \u20ac18", 18),
    ("Final Answer: 18\u20ac", 18),
    ("Final Answer: 18kg", 18),
    ("Final Answer: 60 km/h", 60),
    ("Final Answer: \uff11\uff18", 18),
    ("\u0627\u0644\u062c\u0648\u0627\u0628\nFinal Answer: \u0661\u0668", 18),
    ("Final Answer: 10 \u2013 4 = 6", 6),
    ("Final Answer: x = 18", 18),
    # Signs apart from their numbers.
    ("Final Answer: - 18", -18),
    ("Final Answer: \u2212 18", -18),
    ("Final Answer: - $5", -5),
    ("Final Answer: - $ 5", -5),
    ("Final Answer: \u20145", -5),
    ("Final Answer: $- 18$", -18),
    ("9 - 27 = -18\n#### - 18\nThat is 1 loss.", -18),
    ("Final Answer: **- 18**", -18),
    ("**Final Answer:** - 18 dollars", -18),
    ("So it is \\boxed{- 18}", -18),
    ("So it is \\(\\boxed{- \\frac{3}{4}}\\).", -0.75),
    ("Final Answer: $\\frac{3}{-4}$", -0.75),
    ("The answer is \u2212 18.", -18),
    ("Final Answer: 10 - 4 = - 18", -18),
    ("Final Answer: 10 - 4", 4),
    ("Final Answer:\n\n- 18 dollars", 18),
    ("- 16 eggs\n- 18 dollars", 18),
    # Other marks behind "Final Answer", other dresses of numbers.
    ("Final Answer\uff1a18\nThere are 9 eggs.", 18),
    ("Final Answer \u2013 18\nThere are 9 eggs.", 18),
    ("Final Answer - $18\nThere are 9 eggs.", 18),
    ("Final Answer: 3 \u00be cups", 3.75),
    ("Final Answer: USD18", 18),
    ("Final Answer: 10 000 dollars", 10000),
    # Steps, headings and lists, no declaration.
    ("1. **Eggs eaten**: 3\n2. **Eggs sold**: 9\n3. **Money**: 9 * 2 = 18 dollars", 18),
    ("Step 1: 16 - 7 = 9 eggs are left.\nStep 2: 9 * 2 = 18 dollars.\n\nSo this is the result of Step 2.", 18),
    ("#### 1. Count the eggs\n16 - 7 = 9\n\n#### 2. Count the money\n9 * 2 = 18", 18),
    ("She sells 9 eggs a day. So on the 2nd day it is another $18.", 18),
    ("She makes 18 dollars (9 eggs, 2 dollars each).", 18),
    ("print(9 * 2)\n# Output: 18", 18),
    # GSM8K's own mark.
    ("16 - 7 = 9\n9 * 2 = 18\n#### 18", 18),
    ("9 * 2 = 18\n#### $18\nThat was question 1 of 3.", 18),
    # Text that goes on with a question of its own.
    ("Final Answer: 18\n\nProblem: A shop has 40 pens and sells 15.\n\nFinal Answer: 25", 18),
    ("#### 18\n\nQuestion: Tom has 12 cards and buys 7. How many has he? #### 19", 18),
    ("**Final Answer:** 18\n\n---\n\n**Problem 2:** A train goes 60 miles in 2 hours.\n**Final Answer:** 30", 18),
    ("Final Answer: 18\n\n## Problem 2\n\nA train goes 60 miles in 2 hours.\n\nFinal Answer: 30", 18),
    ("Final Answer: 18<|im_end|>\n<|im_start|>user\nAnd for 20 eggs?<|im_end|>\n26", 18),
    ("Final Answer: 18\nHuman: And with 20 eggs?\nAssistant: Then it is 26.\nFinal Answer: 26", 18),
    ("They make 9 * 2 = 18 dollars.\n\nQuestion: A bus has 40 seats, 12 are free. How many are taken?\n28", 18),
    (
        "Problem: A farm collects 16 eggs, eats 3 and bakes with 4, each sold for 2 dollars.\nFinal Answer: 18\n\n"
        "Problem: A farm collects 30 eggs. How many dollars does the farm make a day?\nFinal Answer: 46",
        18,
    ),
    (f"Problem: {EGGS}\n\n9 eggs are sold for 2 dollars each.\n\nFinal Answer: 18", 18),
    (f"Final Answer: 7\n\nLet me read it again.\n\nProblem: {EGGS}\n\n9 * 2 = 18\n\nFinal Answer: 18", 18),
    ("Example 1: 2 + 3 eggs.\nFinal Answer: 5\nExample 2: 4 + 4 eggs.\nFinal Answer: 8\nNow:\nFinal Answer: 18", 18),
    # Thoughts.
    ("<think>\nIs it 16 * 2 = 32? No, the answer is 18.\n</think>\n\nThe farm makes 18 dollars.", 18),
    ("It could be 32.\n</think>\n\nFinal Answer: 18", 18),
    ("<think>\nFirst 16 - 7 = 9, then", None),
    # Cut off by the budget.
    ("To solve this, we:\n1. Count the eggs: 16.\n2. Take away those eaten: 16 - 3 = 13.\n3. Take away", 13),
    ("9 * 2 = 18.\n\nFinal Answer:", 18),
    ("Thus the farm makes \\boxed{18", 18),
    # No answer.
    ("", None),
    ("I am sorry, but I cannot solve this without more information.", None),
    ("Final Answer: answer", None),
    ("Let us define the variables e, m and s. Then the income is s times the price.", None),
]

WORDS: list[tuple[str, str | None]] = [
    ("The capital of France is well known.\n\nFinal Answer: Paris", "Paris"),
    ("**Final Answer:** Paris", "Paris"),
    ("Final Answer: **Paris**.", "Paris"),
    ("### Final Answer:\n\nParis", "Paris"),
    ("Final Answer: \\(\\boxed{\\text{Paris}}\\)", "Paris"),
    ("Thus it is $\\boxed{\\text{the Seine}}$.", "Seine"),
    ("The answer is Paris. It lies on the Seine.", "Paris"),
    ("The answer is J. R. R. Tolkien.", "J. R. R. Tolkien"),
    ("It was the seat of government.\nFinal Answer: Washington, D.C.", "Washington, D.C."),
    ("Final Answer: `Paris`", "Paris"),
    ("Final Answer: Paris\n\nProblem: What is the capital of Italy?\n\nFinal Answer: Rome", "Paris"),
    ("Final Answer: Rome\nNo, that is Italy.\nFinal Answer: Paris", "Paris"),
    ("I believe it was\n\nAda Lovelace", "Ada Lovelace"),
    ("<think>Rome? No.</think>Final Answer: Paris", "Paris"),
    ("Final Answer: 1066", "1066"),
    ("Final Answer: Paris\n\nPlease note that this answer is based on my knowledge.", "Paris"),
    ("Final Answer: Paris\nNote: The answer is correct.", "Paris"),
    ("Final Answer: Paris\n\nI hope it helps. Let me know if the answer is useful.", "Paris"),
    ("**Final Answer**\nParis\n\nThe final answer is well known.", "Paris"),
    ("\\boxed{\\text{Paris}}\n\nThis answer is certain.", "Paris"),
    ("Answer: Paris\nThis answer is certain.", "Paris"),
    ("Final Answer: The answer is Paris. It lies on the Seine.", "Paris"),
    ("Final Answer:\n\nSo the final answer to the question is: **Paris**", "Paris"),
    ("Final Answer: Paris\nThe final answer is Paris.", "Paris"),
    ("Final Answer: Paris Question: What is the capital of Italy? Final Answer: Rome", "Paris"),
    ("Final Answer: The Three-Body Problem", "Three-Body Problem"),
    ("Final Answer\uff1aParis\nIt lies on the Seine.", "Paris"),
    ("Final Answer \u2013 Paris\nIt lies on the Seine.", "Paris"),
    ("**Final Answer** \u2014 Paris\nIt lies on the Seine.", "Paris"),
    ("Final Answer: V. I. Lenin", "V. I. Lenin"),
    ("Final Answer: P. I. Tchaikovsky", "P. I. Tchaikovsky"),
    ("The answer is J. I. Packer. He was a theologian.", "J. I. Packer"),
    ("Final Answer: Kill Bill Vol. I", "Kill Bill Vol. I"),
    ("Final Answer: Oh! The Places You'll Go", "Oh! The Places You'll Go"),
    ("It is a book.\n\nOh! The Places You'll Go", "Oh! The Places You'll Go"),
    ("<think>Perhaps Paris", None),
    ("", None),
]


@pytest.mark.parametrize(("output", "read"), NUMBERS)
def test_the_scorer_reads_the_number_that_a_person_reads(output: str, read: float | None) -> None:
    assert extract_number(own_answer(output, EGGS)) == read


@pytest.mark.parametrize(("output", "read"), WORDS)
def test_the_scorer_reads_the_words_that_a_person_reads(output: str, read: str | None) -> None:
    example = Example("1", "Which city is the capital of France?", "")
    assert words_given(output, example) == (None if read is None else normalise(read))
