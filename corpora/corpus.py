"""A sample of a data set, ready to be used."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256

from corpora.example import Example


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
            digest.update(json.dumps(asdict(example), sort_keys=True).encode() + b"\n")
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.examples)
