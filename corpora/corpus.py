"""A sample of a data set, ready to be used."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256

from corpora.example import Example

_RARE = frozenset({"category", "followups"})


@dataclass(frozen=True)
class Corpus:
    """Examples, and where they came from.

    Attributes:
        examples: the chosen rows in their order.
        name: the name to show; "<name>-mini" for the small sets that the project ships.
        source: where the rows were found, in words.
    """

    examples: list[Example]
    name: str
    source: str

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of the examples: equal for equal content, wherever it was read from."""
        digest = sha256()
        for example in self.examples:
            # What most examples do not have is left out, so that it changes no fingerprint of theirs.
            content = {key: value for key, value in asdict(example).items() if value or key not in _RARE}
            digest.update(json.dumps(content, sort_keys=True).encode() + b"\n")
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.examples)
