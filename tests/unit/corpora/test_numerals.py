import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.numerals import last_number, plain, without_labels


def _read(text: str) -> float | None:
    return last_number(plain(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,080", 1080),
        ("1{,}080", 1080),
        ("1\\,080", 1080),
        ("1\u202f080", 1080),
        ("1'080", 1080),
        ("1,00,000", 100000),
        ("1,2,3", 3),
        ("2010,2015", 2015),
        (".5", 0.5),
        ("Rs.18", 18),
        ("18.", 18),
        ("50%", 50),
        ("50\\%", 50),
        ("\\$18", 18),
        ("-$5", -5),
        ("$-5", -5),
        ("\u22125", -5),
        ("(-5)", -5),
        ("3 \u00be", 3.75),
        ("-3 \u00be", -3.75),
        ("3 and \u00be", 0.75),
        ("USD18", 18),
        ("USD 1,080", 1080),
        ("-EUR18", -18),
        ("USD -18", -18),
        ("10 000", 10000),
        ("1 034 567.5", 1034567.5),
        ("10\u202f000", 10000),
        ("-10 000", -10000),
        ("10 0000", 0),
        ("2020 100", 100),
        ("1.5 100", 100),
        ("10 100-dollar bills", 100),
        ("10 20", 20),
        ("10-15", 15),
        ("10 - 4", 4),
        ("10\u20144", 4),
        ("x = - 18", -18),
        ("x = \u2212 $18", -18),
        ("x = 10 - 4", 4),
        ("\\frac{3}{-4}", -0.75),
        ("-\\frac{3}{-4}", 0.75),
        ("\\frac{-3}{4}", -0.75),
        ("x-5", 5),
        ("3/4", 0.75),
        ("-3/4", -0.75),
        ("3 / 4", 0.75),
        ("1,080/2", 540),
        ("2 1/2", 2.5),
        ("-2 1/2", -2.5),
        ("2\u00bd", 2.5),
        ("\\frac{3}{4}", 0.75),
        ("-\\tfrac34", -0.75),
        ("2\\frac{1}{2}", 2.5),
        ("12/25/2020", 2020),
        ("$12/hour", 12),
        ("5 \\times 10^{6}", 5e6),
        ("1.5e3", 1500),
        ("18 cm^2", 18),
        ("18 m\u00b2", 18),
        ("x_1 = 7, y_{2}", 7),
        ("**18**", 18),
        ("_18_", 18),
        ("18kg", 18),
        ("18 on the 2nd day", 18),
        ("the 2nd", 2),
        ("18 (9 eggs)", 18),
        ("(18)", 18),
        ("\\( 18 \\)", 18),
        ("\uff11\uff18", 18),
        ("\u0663\u066b\u0665", 3.5),
    ],
)
def test_a_number_is_read_in_any_dress(text: str, value: float) -> None:
    assert _read(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "none", "v2.5", "H2O", "x18", "$", "-", "a/b", "10\u00b2"[2:]])
def test_what_is_no_number(text: str) -> None:
    assert _read(text) is None


def test_what_is_left_as_it_is() -> None:
    assert _read("5 million") == 5
    assert _read("12,50") == 50
    assert _read("1.234,50") == 50
    assert _read("10^3") == 10
    assert _read("five") is None
    assert _read("18/0") == 18


@pytest.mark.parametrize(
    "text", ["1. **Eggs** sold", "Step 3: add", "  2) Add", "### 4. Add", "as in step 12", "Problem 2"]
)
def test_labels_of_steps_and_items_go(text: str) -> None:
    assert last_number(without_labels(text)) is None


def test_numbers_that_look_like_labels_stay() -> None:
    assert last_number(without_labels("18.")) == 18
    assert last_number(without_labels("- 18 eggs")) == 18


ZEROS = [chr(code) for code in range(0x110000) if unicodedata.decimal(chr(code), None) == 0]


@given(
    value=st.integers(-(10**12), 10**12),
    hundredths=st.integers(0, 99),
    decimals=st.booleans(),
    comma=st.sampled_from(["", ",", "{,}", "\\,", "\u202f", "\u2009"]),
    currency=st.sampled_from(["", "$", "\\$", "\u20ac", "\u00a3"]),
    minus=st.sampled_from(["-", "\u2212"]),
    zero=st.sampled_from(ZEROS),
    around=st.sampled_from(["{}", "**{}**", "\\boxed{{{}}}", "$${}$$", "\\( {} \\)", "= {}.", "{} eggs", "{}%"]),
)
def test_any_formatted_number_is_read_back(
    value: int, hundredths: int, decimals: bool, comma: str, currency: str, minus: str, zero: str, around: str
) -> None:
    digits = f"{abs(value):,}".replace(",", comma) + (f".{hundredths:02d}" if decimals else "")
    digits = "".join(chr(ord(zero) + int(letter)) if letter.isdigit() else letter for letter in digits)
    text = around.format((minus if value < 0 else "") + currency + digits)
    wanted = abs(value) + (hundredths / 100 if decimals else 0)
    assert _read(f"there were 17 things and {text}") == pytest.approx(wanted if value >= 0 else -wanted)


@given(st.integers(-999, 999), st.integers(1, 999), st.sampled_from(["{}/{}", "\\frac{{{}}}{{{}}}", "{} / {}"]))
def test_any_fraction_is_read_back(above: int, below: int, form: str) -> None:
    assert _read("it is " + form.format(above, below)) == pytest.approx(above / below)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    number = _read(without_labels(plain(text)))
    assert number is None or isinstance(number, float)
