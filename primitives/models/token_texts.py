"""The text of single tokens, as something that can be shown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

_BROKEN = "\ufffd"
_BYTE_OF = {letter: byte for byte, letter in bytes_to_unicode().items()}
_BYTE_NAME = re.compile(r"<0x[0-9A-F]{2}>")
_WORD_START = "\u2581"


def token_texts(tokenizer: PreTrainedTokenizerBase, ids: Iterable[int]) -> dict[int, str]:
    """Return the text of each token by its id: special tokens by their name, parts of a character by their bytes.

    A token alone has less to say than inside a text: SentencePiece drops the space that begins a text, and a byte-level
    token may hold a piece of a character only, which is shown as its bytes, "<F0 9F>".
    """
    known = sorted(set(ids))
    names = tokenizer.convert_ids_to_tokens(known)
    return {token: _text(tokenizer, token, name) for token, name in zip(known, names, strict=True)}


def _text(tokenizer: PreTrainedTokenizerBase, token: int, name: str | None) -> str:
    if name is None:
        # Rows of a padded vocabulary stand for no token; a drafter may still propose them.
        return f"<{token}>"
    text = str(tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False))
    if _BROKEN in text and _BROKEN not in name:
        return _bytes(name)
    return f" {text}" if name.startswith(_WORD_START) and not text.startswith(" ") else text


def _bytes(name: str) -> str:
    """Return the bytes behind the name of a byte-level token, or of SentencePiece's "<0xF0>"."""
    if _BYTE_NAME.fullmatch(name):
        return f"<{name[3:5]}>"
    if all(letter in _BYTE_OF for letter in name):
        return f"<{' '.join(f'{_BYTE_OF[letter]:02X}' for letter in name)}>"
    return name
