from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from primitives.models.token_texts import token_texts


def byte_level() -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")


def sentence_piece() -> PreTrainedTokenizerFast:
    vocabulary = [("<unk>", 0.0), ("\u2581the", -1.0), ("cat", -1.0), ("<0xF0>", -1.0)]
    inner = Tokenizer(models.Unigram(vocabulary, 0, byte_fallback=True))
    inner.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")


def test_byte_level_tokens_keep_their_space_and_show_parts_of_characters_as_bytes() -> None:
    tokenizer = byte_level()
    places = tokenizer.get_vocab()
    space, letter, part, end = (places[name] for name in ("\u0120", "a", "\u00f0", "<end>"))
    assert token_texts(tokenizer, [space, letter, part, end]) == {space: " ", letter: "a", part: "<F0>", end: "<end>"}


def test_sentence_piece_tokens_keep_the_space_that_begins_a_word() -> None:
    assert token_texts(sentence_piece(), [1, 2, 3]) == {1: " the", 2: "cat", 3: "<F0>"}


def test_an_id_without_a_token_is_shown_by_its_number() -> None:
    assert token_texts(byte_level(), [5000]) == {5000: "<5000>"}


def test_no_token() -> None:
    assert token_texts(byte_level(), []) == {}
