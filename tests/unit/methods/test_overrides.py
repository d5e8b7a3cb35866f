from __future__ import annotations

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from methods.defaults import defaults
from methods.overrides import OverrideError, check, compose, groups
from methods.schema import CONF_DIR


def refusal(*argv: str) -> str:
    with pytest.raises(OverrideError) as caught:
        check(argv)
    return str(caught.value)


def test_groups_are_the_folders_of_conf_without_hydras_own() -> None:
    assert {"method", "drafter", "verifier", "model", "dataset", "datastore", "experiment"} <= groups().keys()
    assert "hydra" not in groups()
    assert groups()["datastore"] == ["id", "none", "ood"]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("method=sens", "unknown method 'sens': did you mean 'sense'? Allowed: dresd, eagle2, "),
        ("dataset=gsm", "unknown dataset 'gsm': did you mean 'gsm8k'?"),
        ("model=org/name-1.5", "a model of your own is model.path=<folder or .gguf file>"),
        ("drafter=null", "unknown drafter 'null': Allowed: dresd, eagle2, "),
        (
            "decode.max_tokens=3",
            "unknown key 'decode.max_tokens': did you mean 'decode.max_new_tokens'? Allowed: decode.",
        ),
        ("methd=pld", "unknown key 'methd': did you mean 'method'?"),
        ("num_samples=3", "unknown key 'num_samples': did you mean 'dataset.num_samples'?"),
        ("drafter.lenght=3", "unknown key 'drafter.lenght': did you mean 'drafter.length'?"),
        ("decode.seed.x=3", "unknown key 'decode.seed.x': decode.seed has no keys of its own"),
        ("+decode.foo=3", "unknown key 'decode.foo': "),
        ("model.template_kwargs.a=1", "+model.template_kwargs.a=... adds it"),
        ("decode.max_new_tokens=abc", "decode.max_new_tokens must be a whole number, got 'abc'"),
        ("decode.max_new_tokens=2.5", "decode.max_new_tokens must be a whole number, got '2.5'"),
        ("connector.max_nodes=x", "connector.max_nodes must be a whole number or null, got 'x'"),
        ("decode.temperature=hot", "decode.temperature must be a number, got 'hot'"),
        ("resume=perhaps", "resume must be true or false, got 'perhaps'"),
        ("decode.stop=end", "decode.stop must be a list such as [a,b], got 'end'"),
        ("sense", "cannot read 'sense': a setting is written key=value"),
        ("dataset.path=a{b", "cannot read 'dataset.path=a{b': a value with commas"),
        ("method=vanilla,pld", "'method=vanilla,pld' names several values: add -m"),
        ("model.embedded=false", "model 'smollm2-135m' has no source"),
    ],
)
def test_a_word_that_cannot_work_gets_one_sentence(word: str, sentence: str) -> None:
    said = refusal(word)
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_every_problem_of_a_command_line_is_said_at_once() -> None:
    assert [line.split(":")[0] for line in refusal("method=sens", "dataset=gsm").splitlines()] == [
        "unknown method 'sens'",
        "unknown dataset 'gsm'",
    ]
    assert len(refusal("resume=perhaps", "decode.top_p=x").splitlines()) == 2


def test_one_bad_value_of_a_sweep_refuses_the_sweep() -> None:
    said = refusal("-m", "method=vanilla,plt,sense")
    assert said.startswith("unknown method 'plt': did you mean 'pld'?")
    assert "decode.seed must be a whole number, got 'b'" in refusal("--multirun", "decode.seed=1,b", "method=pld")


def test_a_group_chosen_twice_is_refused() -> None:
    assert refusal("method=pld", "method=sense").startswith("method is chosen 2 times")


def test_a_sweep_gives_the_settings_of_each_job_in_order() -> None:
    jobs = check(["-m", "method=vanilla,pld", "decode.seed=range(0,2)"])
    assert [(job.method.name, job.decode.seed) for job in jobs] == [
        ("vanilla", 0),
        ("vanilla", 1),
        ("pld", 0),
        ("pld", 1),
    ]


def test_a_glob_sweeps_over_the_names_of_a_group() -> None:
    assert [job.datastore.kind for job in check(["-m", "datastore=glob(*)"])] == groups()["datastore"]


def test_an_interval_is_refused() -> None:
    assert "not interval" in refusal("-m", "decode.temperature=interval(0,1)")


@pytest.mark.parametrize("flag", ["--help", "--hydra-help", "--info"])
def test_flags_that_run_nothing_are_left_to_hydra(flag: str) -> None:
    assert check(["method=sens", flag]) == []


def test_hydras_own_keys_pass() -> None:
    (job,) = check(["hydra.run.dir=/tmp/x", "method=pld"])
    assert job.method.name == "pld"


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("dataset.path='/data/a, b = {c}% #1'", "/data/a, b = {c}% #1"),
        ("dataset.path=/data/org/name-1.5", "/data/org/name-1.5"),
        ("dataset.path='/données/ü'", "/données/ü"),
        (f"dataset.path={'x' * 300}", "x" * 300),
        ("dataset.path=null", None),
    ],
)
def test_a_quoted_value_arrives_unchanged(word: str, value: str | None) -> None:
    assert compose([word]).dataset.path == value


def test_a_list_arrives_as_a_list() -> None:
    assert compose(["decode.stop=['end, of it', 'Q:']"]).decode.stop == ["end, of it", "Q:"]


def test_an_open_dictionary_takes_new_keys() -> None:
    assert compose(["+model.template_kwargs.enable_thinking=true"]).model.template_kwargs == {"enable_thinking": True}


def test_the_command_line_wins_over_the_method() -> None:
    settings = compose(["drafter=pld", "drafter.num_tokens=4", "method=sense", "verifier=exact"])
    assert settings.method.name == "sense"
    assert settings.drafter == {"name": "pld", **defaults("drafter", "pld"), "num_tokens": 4}
    assert settings.verifier == {"name": "exact"}


def test_composing_inside_another_hydra_application_leaves_that_one_as_it_was() -> None:
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        assert compose(["method=pld"]).drafter["name"] == "pld"
        assert GlobalHydra.instance().is_initialized()
        assert hydra_compose("config").method.name == "sense"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["method=union", "model=qwen3-8b", "drafter.drafters=[sen,{name: pld, num_tokens: 5}]", "decode.temperature=1"],
        ["experiment=quickstart", "method=pld", "dataset.path=null", "dataset.num_samples=4", "results_dir=/a b"],
        ["method=sense", "datastore=ood", "verifier=fly", "drafter.alpha=0.4", "model.path='a, b'"],
    ],
)
def test_what_is_composed_is_what_hydra_composes(words: list[str]) -> None:
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        expected = OmegaConf.to_object(hydra_compose("config", overrides=words))
    # What the choices from groups make is kept, and must not change with what a job sets.
    assert [compose(words), compose(words)] == [expected, expected]
