"""Trees and bookkeeping of the EAGLE drafters, against naive references and whole texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from primitives.contract import Context, Drafter, DraftTree, Ints, Outcome, TargetView
from primitives.drafting._eagle_trees import MC_SIM_7B_63
from primitives.drafting.eagle2 import Eagle2Drafter
from primitives.drafting.eagle3 import Eagle3Drafter
from primitives.models.causal_lm import CausalLMTarget
from primitives.models.eagle_loading import HeadTarget
from primitives.registry import DRAFTERS
from primitives.verification.exact import ExactVerifier
from tests.eagle_rig import HIDDEN, VOCABULARY, HeadMaker, Reference, head_target
from tests.rigs import TableTarget, WatchedTarget, greedy_of, random_prompt, tiny_model

KINDS = ("eagle2", "eagle3")
WIDTH = {"eagle2": HIDDEN, "eagle3": 3 * HIDDEN}
DRAFTERS_OF: dict[str, Any] = {"eagle2": Eagle2Drafter, "eagle3": Eagle3Drafter}


def drafter_of(maker: HeadMaker, folder: Path, target: HeadTarget, **knobs: Any) -> Any:
    made = maker.write(folder)
    return DRAFTERS_OF[maker.kind](made, target.embeddings, target.output, target.num_layers, **knobs)


def text_of(kind: str, count: int) -> tuple[np.ndarray[Any, Any], torch.Tensor]:
    rng = torch.Generator().manual_seed(21)
    return torch.randint(0, VOCABULARY, (count,), generator=rng).numpy(), torch.randn(count, WIDTH[kind], generator=rng)


def view_of(kind: str, features: torch.Tensor) -> TargetView:
    hidden = features if kind == "eagle2" else torch.zeros(len(features), HIDDEN)
    return TargetView(torch.zeros(1, VOCABULARY), hidden, None if kind == "eagle2" else features)


def proposed(drafter: Drafter, kind: str, tokens: Any, features: torch.Tensor, budget: int = 100) -> DraftTree:
    """Start on all but the last token, which is pending, and propose."""
    view = view_of(kind, features)
    drafter.start(tokens[:-1], view)
    row = None if view.features is None else view.features[-1]
    return drafter.propose(Context(tokens, view.logits[0], view.hidden[-1], budget, row))


def naive_tree(
    reference: Reference, tokens: list[int], features: torch.Tensor, depth: int, top_k: int, nodes: int
) -> set[tuple[int, ...]]:
    """Return the paths below the pending token, by EAGLE-2's procedure over dictionaries, one node at a time."""
    ids = reference.ids()

    def children(path: tuple[int, ...]) -> list[tuple[float, int]]:
        log_p = reference.log_p(reference.states([*tokens[1:], *path], features)[-1])
        return [(float(log_p[c]), ids[int(c)]) for c in log_p.argsort(descending=True)[:top_k]]

    made: list[tuple[float, tuple[int, ...]]] = [(score, (token,)) for score, token in children(())]
    frontier = list(made)
    for _ in range(depth):
        level = [(above + score, (*path, token)) for above, path in frontier for score, token in children(path)]
        made += level
        frontier = sorted(level, reverse=True)[:top_k]
    return {path for _, path in sorted(made, reverse=True)[:nodes]}


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    return [tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(len(tree))]


@pytest.mark.parametrize(("depth", "top_k", "nodes"), [(3, 4, 20), (4, 3, 8), (2, 5, 60), (0, 4, 9)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_dynamic_tree_has_the_nodes_of_a_naive_one(
    tmp_path: Path, kind: str, depth: int, top_k: int, nodes: int
) -> None:
    maker, target = HeadMaker(kind), head_target()
    drafter = drafter_of(maker, tmp_path, target, depth=depth, top_k=top_k, nodes=nodes)
    tokens, features = text_of(kind, 7)
    tree = proposed(drafter, kind, tokens, features[:6])
    wanted = naive_tree(Reference(maker, target), tokens.tolist(), features[:6], depth, top_k, nodes - 1)
    assert {path[1:] for path in paths_of(tree)[1:]} == wanted
    assert tree.tokens[0] == tokens[-1]
    assert tree.log_q is None
    assert tree.q is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_scores_the_probability_of_its_path_at_every_node(tmp_path: Path, kind: str) -> None:
    maker, target = HeadMaker(kind), head_target()
    drafter, reference = drafter_of(maker, tmp_path, target, depth=3, top_k=4, nodes=20), Reference(maker, target)
    tokens, features = text_of(kind, 6)
    tree = proposed(drafter, kind, tokens, features[:5])
    assert tree.scores is not None
    ids = reference.ids()
    for path, score in zip(paths_of(tree)[1:], tree.scores[1:], strict=True):
        states = reference.states([*tokens[1:].tolist(), *path[1:-1]], features[:5])[4:]
        logs = [reference.log_p(state)[ids.index(token)] for state, token in zip(states, path[1:], strict=True)]
        assert float(np.log(score)) == pytest.approx(float(sum(logs)), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_smaller_budget_of_nodes_keeps_the_best_of_the_larger_tree(tmp_path: Path, kind: str) -> None:
    maker, target = HeadMaker(kind), head_target()
    tokens, features = text_of(kind, 6)
    large = proposed(drafter_of(maker, tmp_path, target), kind, tokens, features[:5])
    small = proposed(drafter_of(maker, tmp_path, target, max_nodes=24), kind, tokens, features[:5])
    assert len(small) == 24
    assert large.scores is not None
    best = np.argsort(-large.scores, kind="stable")[:24]
    assert set(paths_of(small)) == {paths_of(large)[node] for node in best}


def test_the_fixed_tree_takes_the_published_25_nodes(tmp_path: Path) -> None:
    maker, target = HeadMaker("eagle2"), head_target()
    drafter, reference = drafter_of(maker, tmp_path, target, tree="mc_sim_7b_63"), Reference(maker, target)
    tokens, features = text_of("eagle2", 6)
    tree = proposed(drafter, "eagle2", tokens, features[:5])
    wanted = set()
    for ranks in MC_SIM_7B_63:
        path: list[int] = []
        for rank in ranks:
            state = reference.states([*tokens[1:].tolist(), *path], features[:5])[-1]
            path.append(int(reference.log_p(state).argsort(descending=True)[rank]))
        wanted.add(tuple(path))
    assert len(MC_SIM_7B_63) == 25
    assert drafter.whole == len(tree) == 26
    assert {path[1:] for path in paths_of(tree)[1:]} == wanted
    assert proposed(drafter, "eagle2", tokens, features[:5], budget=3).depths.max() == 3


@pytest.mark.parametrize("shape", [[[0], [0, 0, 0]], [[0], [0]], [[-1]], [[]]])
def test_an_unfit_tree_is_refused_when_the_configuration_is_read(shape: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="drafter 'eagle2': tree holds the path"):
        DRAFTERS.bare({"name": "eagle2", "tree": shape})


@pytest.mark.parametrize("kind", KINDS)
def test_the_pairs_of_a_text_are_the_same_however_it_was_committed(tmp_path: Path, kind: str) -> None:
    maker, target = HeadMaker(kind), head_target()
    drafter = drafter_of(maker, tmp_path, target, depth=2, top_k=3, nodes=9)
    tokens, features = text_of(kind, 12)
    drafter.start(tokens[:5], view_of(kind, features[:5]))
    # A rival of the pending token wins, then a pass commits three tokens, then one without a draft in between.
    place = 5
    for count, silent in ((1, False), (3, False), (1, True), (1, False)):
        rival = (tokens[place] + 1) % VOCABULARY
        if not silent:
            pending = np.array([rival]) if place == 5 else tokens[place : place + 1]
            drafter.propose(context_of(kind, np.concatenate([tokens[:place], pending]), features[place - 1]))
        view = view_of(kind, features[place - 1 : place + count])
        drafter.observe(Outcome(DraftTree.chain(tokens[place : place + count]), view, np.arange(count)))
        place += count
    again = drafter.propose(context_of(kind, tokens[: place + 1], features[place - 1]))
    fresh = proposed(
        drafter_of(maker, tmp_path, target, depth=2, top_k=3, nodes=9), kind, tokens[: place + 1], features[:place]
    )
    assert paths_of(again) == paths_of(fresh)
    assert again.scores == pytest.approx(fresh.scores, rel=1e-4)


def context_of(kind: str, tokens: Any, feature: torch.Tensor) -> Context:
    three = kind == "eagle3"
    hidden = torch.zeros(HIDDEN) if three else feature
    return Context(tokens, torch.zeros(VOCABULARY), hidden, 100, feature if three else None)


def generate(drafter: Drafter, prompt: list[int], count: int, model: str = "llama") -> Generation:
    target = WatchedTarget(CausalLMTarget(tiny_model(model), eos_ids=()))
    connector = Connector(target, drafter, ExactVerifier(), lambda ids: " ".join(map(str, ids)), 24)
    return connector.generate(prompt, DecodeSettings(max_new_tokens=count))


def tiny_target() -> HeadTarget:
    model: Any = tiny_model()
    return HeadTarget(model.get_input_embeddings().weight, model.get_output_embeddings().weight, 2)


LAYERS = {"eagle_aux_hidden_state_layer_ids": [0, 1, 1]}


@pytest.mark.parametrize("length", [60, 64, 65, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_past_the_heads_positions_nothing_is_drafted(tmp_path: Path, kind: str, length: int) -> None:
    maker = HeadMaker(kind, {"max_position_embeddings": 64, **LAYERS})
    drafter = drafter_of(maker, tmp_path, tiny_target())
    prompt = random_prompt(4, length)
    done = generate(drafter, prompt, 80)
    wanted = greedy_of(tiny_model(), prompt, 80)[: 256 - length]
    assert done.ids == wanted
    assert done.finish == "length"
    committed = 0
    for record in done.trace.passes:
        # The pending token's pair stands at the position of the last token of the text.
        assert (record.proposed > 0) == (length + committed <= 64 and len(wanted) - committed > 1)
        assert length + committed + record.depth <= max(64, length + committed) + 2
        committed += record.committed


class NarrowTable(TableTarget):
    """A table target whose hidden states are as wide as the head's."""

    def prefill(self, ids: Ints) -> TargetView:
        return cut(super().prefill(ids))

    def verify(self, tree: DraftTree) -> TargetView:
        return cut(super().verify(tree))


def cut(view: TargetView) -> TargetView:
    return TargetView(view.logits, view.hidden[:, :HIDDEN])


def knowing_head() -> HeadMaker:
    """Return a head whose state is the embedding of the pair's token alone."""
    maker = HeadMaker("eagle2", {"bias": False})
    maker.tensors = {name: torch.zeros_like(tensor) for name, tensor in maker.tensors.items()}
    maker.tensors["embed_tokens.weight"] = torch.eye(VOCABULARY)[:, :HIDDEN].contiguous()
    maker.tensors["fc.weight"] = torch.cat([torch.eye(HIDDEN), torch.zeros(HIDDEN, HIDDEN)], dim=1)
    return maker


def test_a_head_that_knows_the_targets_next_choice_is_accepted_whole(tmp_path: Path) -> None:
    # Tokens 0 to 31 alone occur: the target writes t + 1 after t, and so does the head.
    maker = knowing_head()
    rows = torch.zeros(VOCABULARY, HIDDEN)
    rows[:HIDDEN] = torch.eye(HIDDEN).roll(1, 0) * 9
    target = HeadTarget(maker.tensors["embed_tokens.weight"], rows, 2)
    drafter = drafter_of(maker, tmp_path, target, depth=5)
    table = torch.zeros(VOCABULARY, VOCABULARY)
    table[torch.arange(HIDDEN), (torch.arange(HIDDEN) + 1) % HIDDEN] = 5.0
    connector = Connector(NarrowTable(table), drafter, ExactVerifier(), lambda ids: "", 24)
    done = connector.generate([3, 4], DecodeSettings(max_new_tokens=70))
    assert done.ids == [(5 + step) % HIDDEN for step in range(70)]
    # Pending token, level 1 and 5 more levels in every pass: nothing of the best path is ever rejected.
    assert [record.committed for record in done.trace.passes] == [7] * 10


@pytest.mark.parametrize("kind", KINDS)
def test_exact_verification_of_a_head_writes_the_greedy_text(tmp_path: Path, kind: str) -> None:
    drafter = drafter_of(HeadMaker(kind, LAYERS), tmp_path, tiny_target())
    for seed in (0, 1):
        prompt = random_prompt(seed)
        assert generate(drafter, prompt, 24).ids == greedy_of(tiny_model(), prompt, 24)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_prompt_is_read_in_parts(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    maker, target = HeadMaker(kind), head_target()
    tokens, features = text_of(kind, 12)
    whole = proposed(drafter_of(maker, tmp_path, target, depth=1, nodes=9), kind, tokens, features[:11])
    monkeypatch.setattr("primitives.drafting._eagle.TOGETHER", 4)
    parts = proposed(drafter_of(maker, tmp_path, target, depth=1, nodes=9), kind, tokens, features[:11])
    assert paths_of(parts) == paths_of(whole)
    assert parts.scores == pytest.approx(whole.scores, rel=1e-4)
