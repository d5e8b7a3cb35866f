from __future__ import annotations

from benchmarks.differences import told_apart


def test_runs_of_one_name_are_told_apart_by_what_differs_alone() -> None:
    configs = [
        {"decode": {"seed": 0, "stop": ["a, b"]}, "resume": True},
        {"decode": {"seed": 1, "stop": ["a, b"]}, "resume": True},
        {"decode": {"seed": 7, "stop": []}, "resume": True},
    ]
    assert told_apart(configs, ["pld", "pld", "sense"]) == [("decode.seed=0",), ("decode.seed=1",), ()]
    assert told_apart(configs, ["pld"] * 3)[0] == ("decode.seed=0", "decode.stop=['a, b']")


def test_a_setting_that_one_run_does_not_know_is_told_of_the_others() -> None:
    assert told_apart([{"a": {"b": 1}}, {"a": {}}], ["x", "x"]) == [("a.b=1",), ()]
