"""SemanticSpec's probes: sampling, labels, the fit, and the whole way from the command line to a decoded text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from methods.pipeline import assemble, load_pipeline
from methods.schema import ProbeSettings
from methods.settings import SettingsError, compose, problems
from methods.training import probe_fit, probe_labels, probe_stage
from methods.training.probe_equivalence import Equivalence
from methods.training.probe_files import ProbeError, read_probes
from methods.training.probe_fit import fit_probe
from methods.training.probe_labels import Labeller, mean_states
from methods.training.probe_stage import train_probes
from primitives.contract import Bools, Ints
from primitives.models import segments
from primitives.models.causal_lm import CausalLMTarget
from primitives.models.sampling import sampled
from primitives.models.segments import SegmentEnds
from tests.rigs import random_prompt, tiny_draft, tiny_model
from tests.unit.methods.building import Counted
from tests.unit.primitives.drafting.test_semanticspec import BREAKS, TOKENIZER, drafter_of

Words = Callable[..., list[str]]
ENDS = SegmentEnds(TOKENIZER, 100)


class FirstWord(Equivalence):
    """Texts that begin with the same word."""

    def compared(self, texts: Sequence[str]) -> Callable[[int, Ints], Bools]:
        return lambda one, others: np.array([texts[one].split()[:1] == texts[other].split()[:1] for other in others])


def draws(model: Any, seed: int, ends: SegmentEnds | None = None, count: int = 200, most: int = 12) -> list[list[int]]:
    prompt = np.array(random_prompt(3))
    return [row.tolist() for row in sampled(model, prompt, count, most, {7}, 1.0, 1.0, seed, ends)]


def test_a_drawn_segment_ends_with_its_end_or_the_texts() -> None:
    drawn = draws(tiny_model(), 0, ENDS)
    for row in drawn:
        assert not (BREAKS | {7}) & set(row[:-1])
        assert row[-1] in BREAKS | {7} or len(row) == 12
    assert {row[-1] == 7 for row in drawn} == {True, False}
    assert any(set(row[:-1]) & BREAKS for row in draws(tiny_model(), 0))


def test_the_same_seed_draws_the_same_whatever_was_drawn_before() -> None:
    first = draws(tiny_model(), 5, ENDS, 4)
    state = torch.get_rng_state()
    torch.rand(3)
    assert draws(tiny_model(), 5, ENDS, 4) == first
    assert draws(tiny_model(), 6, ENDS, 4) != first
    torch.set_rng_state(state)
    expected = torch.rand(2)
    torch.set_rng_state(state)
    draws(tiny_model(), 5, ENDS, 4)
    assert torch.equal(torch.rand(2), expected)


def test_first_tokens_are_drawn_by_the_models_law() -> None:
    law = CausalLMTarget(tiny_model(), eos_ids=()).prefill(np.array(random_prompt(3))).logits[0].double().softmax(-1)
    found = np.bincount([row[0] for row in draws(tiny_model(), 1, count=4000, most=1)], minlength=100) / 4000
    assert np.abs(found - law.numpy()).max() < 0.03


def test_mean_states_are_those_of_a_whole_forward() -> None:
    prefix = np.array(random_prompt(3))
    rows = [np.array(row) for row in ([1, 2, 3], [4], [5, 6])] * 4
    found = mean_states(tiny_model(), prefix, rows)
    target = CausalLMTarget(tiny_model(), eos_ids=())
    for row, states in zip(rows, found, strict=True):
        whole = target.teacher_forced(np.concatenate([prefix, row])).hidden[len(prefix) :].mean(0)
        torch.testing.assert_close(torch.from_numpy(states), whole, rtol=0, atol=1e-4)


def loaded(model: Any) -> Any:
    return SimpleNamespace(model=model, tokenizer=TOKENIZER, embeddings=model.get_input_embeddings().weight)


def labeller(place: Path, **changes: Any) -> Any:
    model, draft = (loaded(each) for each in (tiny_model(), tiny_draft().model))
    knobs = {"max_tokens": 12, "answer_after": changes.pop("answer_after", "")}
    settings = ProbeSettings(**{"samples": 6, "max_new_tokens": 40, "temperature": 1.0, "top_p": 1.0, **changes})
    place.mkdir(exist_ok=True)
    return Labeller(settings, model, draft, drafter_of(tiny_draft().model, **knobs), FirstWord(), place)


def test_labels_are_shares_of_each_models_samples_in_the_cluster(tmp_path: Path) -> None:
    prompt = np.array(random_prompt(3))
    parts = labeller(tmp_path)(prompt, "one", 0)
    assert len(parts) == 4
    answer = sampled(tiny_model(), prompt, 1, 40, (), 1.0, 1.0, 0)[0]
    places = [place + 1 for place, token in enumerate(answer[:-1].tolist()) if token in BREAKS]
    chosen = [places[round(at)] for at in np.linspace(0, len(places) - 1, 4)]
    for place, part in zip(chosen, parts, strict=True):
        prefix = np.concatenate([prompt, answer[:place]])
        models = tiny_model(), tiny_draft().model
        own, other = (sampled(model, prefix, 6, 12, (), 1.0, 1.0, len(prefix), ENDS) for model in models)
        first = [int(row[0]) for row in [*own, *other]]
        for side, sample in (("target", first[:6]), ("draft", first[6:])):
            assert part[f"{side}_shares"].tolist() == pytest.approx([sample.count(word) / 6 for word in first])
        for side, model in zip(("target", "draft"), models, strict=True):
            np.testing.assert_array_equal(part[f"{side}_states"], mean_states(model, prefix, [*own, *other]))


def test_a_prompt_whose_answer_has_no_second_segment_teaches_nothing(tmp_path: Path) -> None:
    assert labeller(tmp_path, max_new_tokens=1)(np.array(random_prompt(3)), "one", 0) == []


def test_no_prefix_reaches_behind_the_string_that_ends_the_drafts(tmp_path: Path) -> None:
    prompt = np.array(random_prompt(3))
    whole = labeller(tmp_path / "whole", prefixes=20)
    whole(prompt, "one", 0)
    kept = load_file(tmp_path / "whole" / "one.safetensors")
    answer, places = kept["answer"], kept["places"].tolist()
    mark = TOKENIZER.decode([answer[places[2] + 1]])
    cut = labeller(tmp_path / "cut", prefixes=20, answer_after=mark)(prompt, "one", 0)
    assert len(cut) == sum(mark not in TOKENIZER.decode(answer[:place]) for place in places) < len(places)


def test_labels_that_were_made_are_kept_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = np.array(random_prompt(3))
    expected = labeller(tmp_path / "whole")(prompt, "one", 0)
    stopped = Counted(mean_states, fails_at=4)
    monkeypatch.setattr(probe_labels, "mean_states", stopped)
    with pytest.raises(KeyboardInterrupt):
        labeller(tmp_path / "parts")(prompt, "one", 0)
    again = Counted(mean_states)
    monkeypatch.setattr(probe_labels, "mean_states", again)
    found = labeller(tmp_path / "parts")(prompt, "one", 0)
    assert again.calls == 6
    for part, truth in zip(found, expected, strict=True):
        assert part.keys() == truth.keys()
        assert all(np.array_equal(part[key], truth[key]) for key in part)


def separable(seed: int, count: int = 600, prompts: int = 20) -> tuple[Any, Any, Any]:
    """States two of whose coordinates tell the label, on very different scales."""
    rng = np.random.default_rng(seed)
    states = (rng.normal(size=(count, 6)) * [1, 50, 1, 0.1, 1, 1] + [0, 300, 0, 0, 0, 5]).astype(np.float32)
    labels = 1 / (1 + np.exp(-2 * states[:, 0] - (states[:, 1] - 300) / 50))
    return states, labels.astype(np.float32), rng.integers(0, prompts, count)


def test_a_probe_learns_what_can_be_learned() -> None:
    fit = fit_probe(*separable(0), ProbeSettings(epochs=20))
    assert fit.facts["mse"] < 0.1 * fit.facts["mse_of_the_mean"]
    assert fit.facts["correlation"] > 0.95
    assert fit.facts["mse"] == pytest.approx(min(fit.held_out), rel=1e-4)
    states, labels, _ = separable(1)
    assert float(((fit.probe(torch.from_numpy(states)).numpy() - labels) ** 2).mean()) < 0.01
    assert not fit.probe.training


def test_the_seed_decides_about_the_fit() -> None:
    fits = [fit_probe(*separable(0, 100), ProbeSettings(epochs=2, seed=seed)) for seed in (0, 0, 1)]
    weights = [fit.probe.state_dict()["layers.0.weight"] for fit in fits]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_training_ends_when_the_error_has_not_fallen_for_some_epochs() -> None:
    states, _, owner = separable(0, 200)
    noise = np.random.default_rng(5).random(200).astype(np.float32)
    fit = fit_probe(states, noise, owner, ProbeSettings(patience=3))
    assert len(fit.losses) == int(np.argmin(fit.held_out)) + 1 + 3 < 50
    assert fit.facts["best_epoch"] == int(np.argmin(fit.held_out)) + 1


def test_no_prompt_is_trained_on_and_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    states, labels, owner = separable(0, 200, 10)
    seen: list[Any] = []

    plain = probe_fit._epochs

    def watched(*parts: Any) -> Any:
        seen.append(parts)
        return plain(*parts)

    monkeypatch.setattr(probe_fit, "_epochs", watched)
    fit_probe(states, labels, owner, ProbeSettings(epochs=1, validation=0.3))
    rows = {tuple(row): prompt for row, prompt in zip(states.tolist(), owner.tolist(), strict=True)}
    _, training, held, _ = seen[0]
    prompts = [{rows[tuple(row)] for row in part[0].tolist()} for part in (training, held)]
    assert not prompts[0] & prompts[1]
    assert (len(prompts[0]), len(prompts[1])) == (7, 3)


@pytest.mark.parametrize("prompts", [0, 1])
def test_too_few_prompts_are_refused(prompts: int) -> None:
    count = 4 * prompts
    empty = np.zeros((count, 3), np.float32), np.zeros(count, np.float32), np.zeros(count, np.int64)
    with pytest.raises(
        ValueError, match=rf"{count} labelled segments of {prompts} prompts are too few .* raise probe\."
    ):
        fit_probe(*empty, ProbeSettings())


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("probe.equivalence=nlp", "probe.equivalence is 'nlp': did you mean 'nli'"),
        ("probe.samples=0", "probe.samples is 0; it must be at least 1"),
        ("probe.temperature=0", "probe.temperature is 0.0; it must be above 0"),
        ("probe.top_p=1.5", "probe.top_p is 1.5; it must be above 0 and at most 1"),
        ("probe.seed=-1", "probe.seed is -1; it must be at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(word: str, words: str) -> None:
    (problem,) = problems(compose(["method=vanilla", word]))
    assert problem.startswith(words)


def small(words: Words, draft: Path, *changes: str) -> list[str]:
    sizes = ("probe.num_prompts=4", "probe.samples=3", "probe.max_new_tokens=24", "probe.epochs=3", "probe.prefixes=2")
    return words("semanticspec", f"draft_model={draft}", "drafter.max_tokens=6", *sizes, *changes)


@pytest.fixture
def many_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that end where a tiny model's random bytes are no character, as half of them are not."""
    monkeypatch.setattr(segments, "BLANK_LINE", "\ufffd")


@pytest.mark.usefixtures("many_ends")
def test_probes_are_trained_and_used_from_the_command_line_on(
    words: Words, other_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = small(words, other_folder)
    with pytest.raises(ProbeError, match="needs probes for model 'tiny' and draft_model") as caught:
        assemble(compose(line))
    command = re.search(r"run `(.*)`", str(caught.value))
    assert command is not None
    assert command[1].startswith("python -m scripts.train_semantic_probe method=semanticspec model.path=")
    named = compose(command[1].replace("'", "").split()[3:])
    assert (named.draft_model, named.dataset.path) == (str(other_folder), compose(line).dataset.path)

    settings = compose(line)
    found = train_probes(settings)
    assert (found.folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert found.facts["target"]["segments"] == 2 * 3 * found.facts["prefixes"]
    assert found.facts["prefixes"] > 2
    monkeypatch.setattr(probe_stage, "_labels", None)
    assert train_probes(settings).fingerprint == found.fingerprint

    pipeline = load_pipeline(*line, "verifier.top_k=0")
    assert pipeline.manifest()["probes"] == found.fingerprint
    assert pipeline.connector.max_nodes == 24
    done = pipeline.generate("a b c", max_new_tokens=40)
    assert len(done.ids) == 40
    assert max(record.nodes for record in done.trace.passes) > 1
    assert [*done.ids] == pipeline.generate("a b c", max_new_tokens=40).ids
    neutral = assemble(compose(small(words, other_folder, "verifier.rule=none", "verifier.top_k=0")))
    assert neutral.manifest().keys() == {"model", "tokenizer", "draft_model"}
    assert neutral.generate("a b c").ids == neutral.baseline.generate(neutral.encode("a b c"), settings.decode).ids


@pytest.mark.usefixtures("many_ends")
def test_other_settings_train_again_on_the_labels_that_are_there(
    words: Words, other_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = train_probes(compose(small(words, other_folder)))
    counted = Counted(mean_states)
    monkeypatch.setattr(probe_labels, "mean_states", counted)
    second = train_probes(compose(small(words, other_folder, "probe.epochs=2", "probe.learning_rate=0.01")))
    assert counted.calls == 0
    assert second.folder == first.folder
    assert second.fingerprint != first.fingerprint
    assert second.facts["target"]["epochs"] == 2
    weights = first.folder / "probes.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(ProbeError, match=r"are damaged .* delete them and train again"):
        read_probes(first.folder)


@pytest.mark.usefixtures("many_ends")
def test_memory_that_ends_names_the_setting_and_keeps_the_labels(
    words: Words, other_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    settings = compose(small(words, other_folder))
    with monkeypatch.context() as patched:
        patched.setattr(probe_labels, "sampled", full)
        with pytest.raises(ValueError, match=r"^probe.samples=3 segments at once are too much .* finished labels"):
            train_probes(settings)
    with monkeypatch.context() as patched:
        patched.setattr(probe_fit, "_epochs", full)
        with pytest.raises(ValueError, match=r"^probe.batch_size=128 is too much .* lower it, .* labels are kept$"):
            train_probes(settings)
    counted = Counted(mean_states)
    monkeypatch.setattr(probe_labels, "mean_states", counted)
    assert train_probes(compose(small(words, other_folder, "probe.batch_size=8"))).facts["target"]["epochs"] == 3
    assert counted.calls == 0


def test_what_asks_no_probes_is_refused(words: Words, other_folder: Path) -> None:
    with pytest.raises(ValueError, match="verifier 'exact' asks no probes with these settings: use method="):
        train_probes(compose(words("pld")))
    with pytest.raises(ValueError, match="verifier 'semantic' asks no probes"):
        train_probes(compose(small(words, other_folder, "verifier.rule=none")))


@pytest.mark.parametrize("drafter", ["pld", "sps", "union"])
def test_a_drafter_without_states_is_refused_when_the_run_is_composed(drafter: str) -> None:
    words = ["method=semanticspec", "draft_model=org/draft", f"drafter={drafter}"]
    (problem, *_) = problems(compose(words))
    assert problem.startswith("verifier 'semantic' needs ")
    assert f"the draft model's hidden states of a draft, which drafter '{drafter}' does not provide" in problem


def test_a_node_budget_that_would_cut_a_segment_is_refused_with_both_settings() -> None:
    words = ["method=semanticspec", "draft_model=org/draft"]
    assert problems(compose([*words, "connector.max_nodes=500"])) == []
    (problem,) = problems(compose([*words, "connector.max_nodes=24"]))
    assert problem == (
        "connector.max_nodes is 24, but a draft of drafter 'semanticspec' has up to 500 nodes and must not be cut: "
        "raise it, leave it null, or set the drafter to a smaller draft"
    )
    with pytest.raises(SettingsError, match=r"connector\.max_nodes is 24"):
        load_pipeline(*words, "connector.max_nodes=24")
