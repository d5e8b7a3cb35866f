r"""Sixty answers of Qwen2.5-Coder-1.5B-Instruct to GSM8K test prompts (greedy, at most 320 tokens), read by hand.

The end of each output was read by hand and judged right or wrong, with the scorer's reading in sight; here it is retold
in other words, in the same form and with the same numbers. The scorer agrees on all sixty: 26 right, 34 wrong. An
output that was cut before it said an answer is right only if the last number it came to is the answer.
"""

import pytest

from benchmarks.scoring import number_accuracy
from corpora.example import Example

# (end of the output, the right number, whether the output was read as right)
READ: list[tuple[str, float, bool]] = [
    ("So many runs are needed, rounded up:\n   \\[\n   \\frac{4590}{2250} \\approx 2.0333\n  ", 2, False),
    (
        "\\[ 500 \\text{ km} + 360 \\text{ km} = 860 \\text{ km} \\]\n\nSo he went this far:\n\\[ \\boxed{860} \\]",
        860,
        True,
    ),
    ("Both beds together:\n90 + 50 = 140 plants\n\nFinal Answer: 140", 140, True),
    (
        "   \\[\n   \\text{After 6} = 28.8 + 5.76 = 34.56\n   \\]\n\n5. **Then:**\n   \\[\n   \\text{After 8 months",
        92,
        False,
    ),
    ("   \\[\n   2 \\times 2 = 4\n   \\]\n\nSo she should take \\boxed{4} balls of it.", 6, False),
    ("6. **Cost:**\n   - Cost = 720 minutes * 1 = 720 coins\n\n7. **Turn the", 11, False),
    ("\\[\n1 \\text{ (Mon)} + 3 \\text{ (Tue)} + 0.5 + 1.5 + 2 = 8 \\text{ h}\n\\]\n\nFinal Answer: 8", 8, True),
    ("   \\text{Share} = \\left( \\frac{25}{100} \\right) \\times 100 = 25\\%\n   \\]\n\nFinal Answer: 25%", 25, True),
    ("   - After the meal there is \\(80 - 48 = 32\\) dollars.\n\nTherefore,", 32, True),
    ("Sum = $125 + $175 + $100\nSum = $400\n\nFinal Answer: 400", 400, True),
    ("     30 \\text{ minutes} + 30 \\text{ minutes} = 60 \\text{ minutes}\n     \\]\n\nFinal Answer: 60", 50, False),
    ("   - So the days are \\(\\frac{360 \\text{ in}}{30 \\text{ in/day}} = 12\\).\n\nFinal Answer: 12", 12, True),
    ("\\[\n210 \\text{ dollars} - 100 \\text{ dollars} = 110 \\text{ dollars}\n\\]\n\nFinal Answer: 110", 110, True),
    ("     S = \\frac{6}{6}S\n     \\]\n   - Then the sum:\n     \\[\n     \\frac{5}{6}S +", 15, False),
    ("\\[ 17 - 3 = 14 \\]\nSo 14 sweets are left.\n\nFinal Answer: 14", 14, True),
    (
        "     \\text{Pay of the first} = 40 \\times 2000 = 80000\n     \\]\n   - The rest:\n     \\[\n     \\text{Pay",
        224000,
        False,
    ),
    ("   45 - 28 = 17\n   \\]\n   So 17 are left after the card.\n\nFinal Answer: 17", 17, True),
    ("print(money)\n```\n```output\n131000.0\n```\nThat year it was \\(\\boxed{131000}\\).", 114200, False),
    ("\\[ \\text{Both} = 76,000 + 53,200 = 129,200 \\]\n\nSo both are worth \\(\\boxed{129200}\\).", 129200, True),
    ("\\[ \\text{A month} = \\frac{5475}{5} = 1095 \\]\n\nFinal Answer: 1095", 803, False),
    ("5. **The rest at half the speed:**\n   Half of 2 miles per hour is 1 mile per", 17, False),
    ("   20 + 13 = 33\n   \\]\n   So both sides have 33.\n\nFinal Answer: 33", 33, True),
    ("\\[ 14 \\div 2 = 7 \\]\n\nSo each of the two can have \\(\\boxed{7}\\) with what is left.", 7, True),
    ("Together:\n\\[4 + 4 + 3 + 6 = 17\\]\n\nSo she carries \\(\\boxed{17}\\) pounds.", 17, True),
    (
        "   - Cost = first + second + third\n   - Cost = $15 + $30 + $60 = $105\n\nSo it was \\(\\boxed{105}\\).",
        75,
        False,
    ),
    ("   \\text{All that she took} = 3 + 1 = 4\n   \\]\n\nFinal Answer: 4", 4, True),
    (
        "   - Boxes: \\(\\frac{\\$29}{\\$8.50} \\approx 3.33\\)\n\nOnly whole boxes are sold.",
        2,
        False,
    ),
    ("Step 5: The cost of two.\n\\[ \\frac{180.00}{2} = 90.00 \\]\n\nFinal Answer: 90.00", 2, False),
    ("The pots by the cost of one:\n\\[\n60 \\text{ pots} \\times 1.25 \\text{ dollars/pot} =", 75, False),
    (
        "   - Month 1 had $1200.\n   - So the second had \\( \\frac{3}{4} \\times 1200 \\).\n   - That is\n     \\[\n",
        2100,
        False,
    ),
    ("5. **All that the friend has:**\n   \\[\n   40 \\text{ cups} + 44 \\", 120, False),
    ("5. **Cloths:**\n   - All of them = 8 packs * $5 = $40.\n\n6. **All costs:**\n   -", 20, False),
    ("   \\text{One cup} = \\frac{34800}{480} = 75 \\text{ dollars}\n   \\]\n\nFinal Answer: 75", 145, False),
    ("   - All ways = 180 miles + 0 miles + 15 miles + 120 miles = 415 miles.\n\nFinal Answer: 415 miles", 45, False),
    ("   \\text{In all rooms} = 14 \\times 80 = 1120\n   \\]\n\nFinal Answer: 1120", 1200, False),
    ("   - She will have \\( 55h \\) dollars more.\n   - Final Answer: \\( 55h \\)", 15, False),
    (
        "   256 \\text{ in} + 180 \\text{ in} + 60 \\text{ in} = 596 \\text{ in}\n   \\]\n\n6. **In feet:**\n   \\",
        21,
        False,
    ),
    ("   - In all it was \\(450 + 150 = 600\\).\n\nFinal Answer: 600", 675, False),
    ("\\text{All} = 66 + 22 = 88\n\\]\n\nSo the number that he brings is \\boxed{88}.", 88, True),
    ("   - All = pens + pads + paper\n   - All = $6 + $8 + $20 = $44\n\nFinal Answer: $44", 34, False),
    ("   \\text{All three} = 1600 + 2000 + 1200 = 5000\n   \\]\n\nTherefore,", 4800, False),
    ("   For one evening:\n   \\[\n   \\$8 + \\$2 = \\$10\n   \\]\n\n", 1, False),
    ("50 + 60 = 110 \\text{ miles}\n\\]\n\nFinal Answer: \\(\\boxed{110}\\)", 110, True),
    ("\\[ L + 8 = 7 + 8 = 15 \\]\n\nSo they won \\(\\boxed{15}\\) times. Final Answer: 15", 15, True),
    ("So there are now:\n18 - 2 = 16\n\nFinal Answer: 16", 16, True),
    ("\\[ \\text{To be had} = 48 - 40 = 8 \\]\n\nSo \\boxed{8} more are to be had.", 9, False),
    (
        "4. **Those that ran**: 3/5 of the rest = (3/5) x 30 = 18\n5. **Those left**: 30 - 18 = 12\n\nFinal Answer: 12",
        12,
        True,
    ),
    ("   24 \\text{ cups} + 10 \\text{ spoons} = 34 \\text{ things}\n   \\]\n\nFinal Answer: 34", 34, True),
    (
        "     V = 3 \\times 4 \\times 2 = 24\n     \\]\n\n3. **All 3 of them:**\n     \\[\n     3 \\times 24 = ",
        72,
        False,
    ),
    (
        "   \\text{At first} = 40 \\text{ dollars} + 100 = 140\n   \\]\n\nSo it began with \\boxed{140}.",
        60,
        False,
    ),
    ("\\text{All 170} = 170 \\times 65 = 11050 \\text{ dollars}\n\\]\n\nFinal Answer: 11050", 11050, True),
    ("\\[ \\text{Both} = 50 + 29 = 79 \\]\n\nSo both together have:\n\\[ \\boxed{79} \\]", 79, True),
    ("5. **So:**\n   - In each tank there are 14.\n\nFinal Answer: 14", 7, False),
    ("   - All costs = $6000 + $1800 = $7800.\n\nFinal Answer: $7800", 31800, False),
    ("print(rate)\n```\n```output\n39\n```\nIn an hour the four pick \\(\\boxed{39}\\).", 29, False),
    ("$115 - $200 = -$85\n\nFinal Answer: The boy lacks $85 for the thing.", 85, True),
    ("5. **The rest:**\n   \\[\n   \\text{Rest} = 1800 - 1170 =", 315, False),
    ("\\[ \\text{Hours} = \\frac{900}{60} = 15 \\text{ h} \\]\n\nFinal Answer: 15", 15, True),
    ("   \\text{All} = 3 + 9 + 7 + 21 + 7 = 50\n   \\]\n\nFinal Answer: 50", 47, False),
    ("     \\frac{24}{4} = 6\n     \\]\n\nSo each of them will have \\boxed{6}.", 6, True),
]


def test_all_sixty_are_here() -> None:
    assert (len(READ), sum(right for *_, right in READ)) == (60, 26)


@pytest.mark.parametrize(("output", "gold", "right"), READ)
def test_the_scorer_judges_as_was_read_by_hand(output: str, gold: float, right: bool) -> None:
    example = Example("1", "How many are there?", "", answers=(str(gold),))
    assert number_accuracy(output, example) == float(right)
