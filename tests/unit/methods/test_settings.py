from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from methods.settings import Settings, SettingsError, check_pairing, compose, problems, validate
from primitives.contract import Context, Drafter, DraftTree, TargetView, Verdict, Verifier
from primitives.registry import DRAFTERS, VERIFIERS


def only_problem(*words: str) -> str:
    (problem,) = problems(compose(words))
    return problem


def test_the_defaults_can_run() -> None:
    validate(compose([]))


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("decode.max_new_tokens=0", "decode.max_new_tokens is 0; it must be at least 1"),
        ("decode.temperature=-1", "decode.temperature is -1.0; it must be 0 (greedy decoding), or at least 1e-30"),
        ("decode.temperature=nan", "decode.temperature is nan"),
        ("decode.top_p=0", "decode.top_p is 0.0; it must be above 0 and at most 1"),
        ("decode.top_p=1.5", "decode.top_p is 1.5"),
        ("decode.top_k=-1", "decode.top_k is -1; it must be at least 1, or 0 for all tokens"),
        ("decode.min_p=2", "decode.min_p is 2.0; it must lie between 0 and 1"),
        ("decode.repetition_penalty=0", "decode.repetition_penalty is 0.0; it must be above 0, and 1 for none"),
        ("+decode.logit_bias={-3: 1.0}", "decode.logit_bias names token -3; token ids are at least 0"),
        ("decode.seed=-1", "decode.seed is -1"),
        ("decode.stop=['']", "decode.stop holds an empty string"),
        ("connector.max_nodes=0", "connector.max_nodes is 0; it must be at least 1, or null"),
        ("connector.layout=batches", "did you mean 'batch'? Allowed: batch, tree"),
        ("dataset.num_samples=0", "dataset.num_samples must be at least 1, got 0"),
        ("dataset.template=alpacca", "alpaca"),
        ("dataset.path=/nowhere/at/all", "dataset.path is '/nowhere/at/all', where there is no test.jsonl"),
        ("model.path=/nowhere/at/all", "model.path is '/nowhere/at/all', which does not exist"),
        ("datastore.num_prompts=0", "datastore.num_prompts is 0; it must be at least 1"),
        ("datastore.path=/nowhere/at/all", "datastore.path is '/nowhere/at/all', which is no folder"),
        ("datastore.pca_dim=0", "datastore.pca_dim is 0"),
        ("datastore.index=ivfpq", "datastore.index is 'ivfpq': did you mean 'ivf_pq'?"),
        ("datastore.leaks=dorp", "datastore.leaks is 'dorp': did you mean 'drop'?"),
        ("datastore.layer=-1", "datastore.layer is -1; it must be at least 0, or null for the state after the last"),
        ("datastore.shards=0", "datastore.shards is 0; it must be at least 1"),
        ("datastore.shard=1", "datastore.shard is 1; with datastore.shards=1 it must lie between 0 and 0"),
        ("datastore.shard=-1", "datastore.shard is -1"),
        ("datastore.kind=odd", "datastore.kind is 'odd': did you mean 'ood'? Allowed: id, none, ood"),
        ("device=gpu", "device 'gpu' is unknown"),
        ("dtype=half", "dtype 'half' is unknown"),
        ("drafter.name=sem", "unknown drafter 'sem': did you mean 'sen'?"),
        ("drafter.length=long", "drafter.length must be a whole number, got 'long'"),
        ("drafter.static=1", "drafter.static must be true or false, got 1"),
        ("+drafter.lengths=3", "drafter 'sen' has no setting 'lengths': did you mean 'length'?"),
        ("verifier.theta_e=2", "theta_e=2 is out of range"),
        ("verifier.theta_e=low", "verifier.theta_e must be a number, got 'low'"),
        ("verifier.border=mach", "did you mean 'match'?"),
        ("datastore=none", "drafter 'sen' searches a datastore, but datastore=none: set datastore=id"),
        ("draft_model=org/small", "draft_model is 'org/small', but drafter 'sen' uses no draft model"),
    ],
)
def test_what_cannot_work_is_named_with_what_is_allowed(word: str, part: str) -> None:
    assert part in only_problem(word)


def test_a_fixed_tree_needs_room_for_all_of_its_nodes() -> None:
    words = ["method=eagle2", "draft_model=org/head"]
    for fitting in (["connector.max_nodes=8"], ["drafter.tree=mc_sim_7b_63"], ["drafter.tree=[[0],[1],[0,0]]"]):
        assert problems(compose([*words, *fitting])) == []
    fixed = [*words, "drafter.tree=mc_sim_7b_63"]
    assert problems(compose([*fixed, "connector.max_nodes=26"])) == []
    (problem,) = problems(compose([*fixed, "connector.max_nodes=25"]))
    assert problem == (
        "connector.max_nodes is 25, but a draft of drafter 'eagle2' has up to 26 nodes and must not be cut: raise it, "
        "leave it null, or set the drafter to a smaller draft"
    )
    assert "has up to 4 nodes" in only_problem(*words, "drafter.tree=[[0],[1],[0,0]]", "connector.max_nodes=3")


def test_a_gpu_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert "sees no CUDA GPU" in only_problem("device=cuda")


def test_a_method_without_retrieval_needs_no_store() -> None:
    assert problems(compose(["method=pld", "datastore=none"])) == []


def test_all_problems_are_said_at_once() -> None:
    settings = compose(["decode.max_new_tokens=0", "dataset.num_samples=0", "verifier.k=0"])
    with pytest.raises(SettingsError) as caught:
        validate(settings)
    assert len(str(caught.value).splitlines()) == 3


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results"
    file.touch()
    (problem,) = problems(replace(compose([]), results_dir=str(file)))
    assert problem.endswith("which is a file: give a folder")


def test_a_primitive_without_a_name_is_refused() -> None:
    settings: Settings = replace(compose([]), drafter={"length": 3})
    assert problems(settings)[0].startswith("drafter.name is missing")


class Silent(Drafter):
    def propose(self, context: Context) -> DraftTree:
        return DraftTree.empty()


class Sampling(Silent):
    provides = frozenset({"q"})


class Ratio(Verifier):
    guarantee = "distribution"
    needs = frozenset({"q", "lookahead", "hidden"})

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        raise NotImplementedError


def test_a_pairing_that_lacks_something_names_both_sides() -> None:
    with pytest.raises(SettingsError, match=r"verifier 'Ratio' needs q of a draft, which drafter 'Silent'"):
        check_pairing(Silent(), Ratio)


def test_a_pairing_that_fits_passes() -> None:
    check_pairing(Sampling(), Ratio)
    check_pairing(DRAFTERS.bare("none"), VERIFIERS.get("soft_gated"))


def test_processors_are_read_from_the_command_line() -> None:
    words = ["decode.temperature=0.7", "decode.top_k=5", "decode.min_p=0.1", "+decode.logit_bias={198: -5, 7: 2.5}"]
    settings = compose(["verifier=tree_sampling", *words])
    assert problems(settings) == []
    assert settings.decode.logit_bias == {198: -5.0, 7: 2.5}
    assert not settings.decode.greedy


def test_greedy_matching_of_a_draft_is_refused_where_tokens_are_drawn() -> None:
    (problem,) = problems(compose(["method=pld", "decode.temperature=0.7"]))
    assert problem == (
        "verifier 'exact' accepts only what greedy decoding writes, but decode.temperature is 0.7 and drafter 'pld' "
        "drafts: choose verifier=tree_sampling, which keeps the distribution, or set decode.temperature=0"
    )
    for word in ("verifier=tree_sampling", "verifier=speculative_sampling", "drafter=none", "decode.temperature=0"):
        assert problems(compose(["method=pld", "decode.temperature=0.7", word])) == []


@pytest.mark.parametrize("verifier", ["speculative_sampling", "block"])
def test_a_rule_for_chains_takes_only_drafters_of_chains(verifier: str) -> None:
    for drafter in ("pld", "none"):
        check_pairing(DRAFTERS.bare(drafter), VERIFIERS.get(verifier))
    message = rf"verifier '{verifier}' needs a single branch of a draft, which drafter 'sen' does not provide"
    with pytest.raises(SettingsError, match=message):
        check_pairing(DRAFTERS.bare("sen"), VERIFIERS.get(verifier))
    assert "needs a single branch" in only_problem(f"verifier={verifier}")


SPS = ("method=sps", "draft_model=smollm2-135m")
EASD = ("verifier=easd", "verifier.theta_t=0.1", "verifier.theta_d=0.1")


@pytest.mark.parametrize(
    "words",
    [
        (*SPS, "drafter.tokenizers=retokenise", *EASD),
        (*SPS, "drafter=pruned", "drafter.drafter=sps", *EASD),
        (*SPS, "drafter=union", "drafter.drafters=[sps]", *EASD),
    ],
)
def test_a_drafter_whose_settings_leave_no_q_is_not_paired_with_a_rule_that_needs_it(words: tuple[str, ...]) -> None:
    problem = only_problem(*words)
    assert problem.startswith("verifier 'easd' needs q of a draft, which drafter '")
    assert problem.endswith("does not provide with these settings: change them, or choose another drafter or verifier")
    assert problems(compose([*SPS, *EASD])) == []


@pytest.mark.parametrize(
    ("drafter", "words"),
    [
        ("pruned", "drafter.drafter=pld"),
        ("pruned", "drafter.drafter={name:sps,tokenizers:retokenise}"),
        ("union", "drafter.drafters=[pld]"),
    ],
)
def test_a_chain_of_a_drafter_within_a_drafter_is_a_chain(drafter: str, words: str) -> None:
    draft = ["draft_model=smollm2-135m"] if "sps" in words else []
    assert problems(compose(["method=pld", f"drafter={drafter}", words, "verifier=block", *draft])) == []


def test_branches_within_a_drafter_are_no_chain() -> None:
    for words in (("drafter=pruned", "drafter.drafter=sam"), ("drafter=union", "drafter.drafters=[pld,lookahead]")):
        found = problems(compose(["method=pld", *words, "verifier=block"]))
        assert any("needs a single branch of a draft" in problem for problem in found)
