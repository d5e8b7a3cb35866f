"""Which segments mean the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError
from transformers import BertConfig, BertForSequenceClassification, BertModel

from methods.schema import ProbeSettings
from methods.training.probe_equivalence import Entailment, Equivalence, Likeness, equivalence_of
from primitives.contract import Bools, Ints
from tests.rigs import word_tokenizer

CPU = torch.device("cpu")


class SameLetter(Equivalence):
    """Texts that begin with the same letter; notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def compared(self, texts: Sequence[str]) -> Callable[[int, Ints], Bools]:
        def same(one: int, others: Ints) -> Bools:
            self.asked.append((texts[one], [texts[other] for other in others]))
            return np.array([texts[one][:1] == texts[other][:1] for other in others])

        return same


def test_a_text_joins_the_first_cluster_whose_first_text_means_the_same() -> None:
    notion = SameLetter()
    assert notion.clusters(["b1", "a1", "b2", "c", "a2", "b3"]).tolist() == [0, 1, 0, 2, 1, 0]
    assert notion.asked == [
        ("a1", ["b1"]),
        ("b2", ["b1", "a1"]),
        ("c", ["b1", "a1"]),
        ("a2", ["b1", "a1", "c"]),
        ("b3", ["b1", "a1", "c"]),
    ]


def test_texts_that_differ_in_blanks_about_them_are_asked_about_once() -> None:
    notion = SameLetter()
    assert notion.clusters(["x\n\n", " x", "y", "x"]).tolist() == [0, 0, 1, 0]
    assert notion.asked == [("y", ["x"])]


@pytest.mark.parametrize("texts", [[""], ["", " \n\n"], ["a"]])
def test_what_does_not_differ_is_one_cluster(texts: list[str]) -> None:
    assert Likeness(0.7).clusters(texts).tolist() == [0] * len(texts)


def test_likeness_goes_by_words_numbers_and_signs() -> None:
    texts = [
        "So she has 12 + 5 = 17 apples.",
        "So she has 12 + 5 = 17 apples!",
        "Let us compute the total first.",
        "so she has 12 + 5 = 17 apples",
        "First, let us compute the total.",
    ]
    clusters = Likeness(0.7).clusters(texts)
    assert clusters[0] == clusters[1] == clusters[3] == 0
    assert clusters[2] != 0 != clusters[4]
    assert Likeness(0.999).clusters(texts).max() == 4
    assert Likeness(-1).clusters(texts).max() == 0


def test_a_number_counts_as_a_whole() -> None:
    vectors = Likeness(0.7)._terms(["pi is 3.14", "pi is 3.15", "pi is 3.14"])
    assert np.array_equal(vectors[0], vectors[2])
    assert not np.array_equal(vectors[0], vectors[1])
    # Two words, the number, and two pairs each.
    assert (vectors > 0).sum(1).tolist() == [5, 5, 5]


def judge_folder(place: Path, kind: Any, **config: Any) -> Path:
    torch.manual_seed(3)
    model = kind(
        BertConfig(
            vocab_size=100,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            pad_token_id=0,
            initializer_range=1.0,
            **config,
        )
    )
    model.save_pretrained(place)
    tokenizer: Any = word_tokenizer()
    tokenizer.pad_token = "t0"
    tokenizer.save_pretrained(place)
    return place


def test_two_texts_that_entail_each_other_mean_the_same(tmp_path: Path) -> None:
    labels = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
    folder = judge_folder(tmp_path, BertForSequenceClassification, id2label=labels, num_labels=3)
    notion = equivalence_of(ProbeSettings(equivalence="nli", equivalence_model=str(folder)), CPU)
    assert isinstance(notion, Entailment)
    texts = [f"t{1 + i} t{20 + i} t{50 + i % 3}" for i in range(12)]

    def entails(first: str, second: str) -> bool:
        batch = notion._tokenizer([first], [second], return_tensors="pt")
        return int(notion._model(**batch).logits.argmax()) == 2

    compared = notion.compared(texts)
    expected = np.array([[entails(a, b) and entails(b, a) for b in texts] for a in texts])
    found = np.array([compared(one, np.arange(12)) for one in range(12)])
    assert np.array_equal(found, expected)
    one_way = np.array([[entails(a, b) for b in texts] for a in texts])
    assert expected.any()
    assert (one_way & ~expected).any()


def test_a_model_without_a_label_of_entailment_is_refused(tmp_path: Path) -> None:
    folder = judge_folder(tmp_path, BertForSequenceClassification, id2label={0: "good", 1: "bad"}, num_labels=2)
    with pytest.raises(ValueError, match="has the labels bad, good and none for entailment"):
        Entailment(folder)


def test_an_encoder_may_take_the_place_of_tf_idf(tmp_path: Path) -> None:
    folder = judge_folder(tmp_path, BertModel)
    notion = equivalence_of(ProbeSettings(equivalence_model=str(folder), threshold=0.9), CPU)
    assert isinstance(notion, Likeness)
    vectors = notion._encoded(["t5 t6 t7", "t5"])
    assert notion._encoder is not None
    tokenizer, model = notion._encoder
    alone = model(**tokenizer(["t5"], return_tensors="pt")).last_hidden_state[0].double().mean(0)
    torch.testing.assert_close(torch.from_numpy(vectors[1]), alone, rtol=0, atol=1e-5)
    assert notion.clusters(["t5 t6", "t5 t6", "t9"]).tolist()[:2] == [0, 0]


def test_a_model_that_cannot_be_had_is_named_by_its_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(HfApi, "auth_check", Mock(side_effect=RepositoryNotFoundError("404", response=Mock())))
    with pytest.raises(ValueError, match=r"probe\.equivalence_model 'org/none' is not on the hub"):
        equivalence_of(ProbeSettings(equivalence_model="org/none"), CPU)
    with pytest.raises(ValueError, match=r"probe\.equivalence_model '.*' cannot be loaded"):
        equivalence_of(ProbeSettings(equivalence="nli", equivalence_model=str(tmp_path)), CPU)
