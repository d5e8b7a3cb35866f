"""From recorded answers to batches of one training step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from primitives.contract import Ints
from primitives.models.recording import Recording

# An answer needs a token to be drafted after its first one.
SHORTEST: Final = 2


@dataclass(frozen=True, eq=False)
class Batch:
    """Answers padded to one length: B texts of at most n pairs, of which at most W lie in the answer.

    A pair is the state after a token and the token after it; it is to predict the token after that. Chains start at
    the pairs of the answer, from the one whose token is the answer's first.

    Attributes:
        tokens: int64[B, n], the second half of each pair.
        features: float32[B, n, k h'], the target's inner states of the first half, or its final ones.
        starts: int64[B, W], which pair each chain starts at.
        inside: bool[B, W], False where a text has fewer chains.
        wanted: int64[B, W], the token that the pair at the start is to predict.
        states: float32[B, W, h'], the target's final state that has chosen it.
    """

    tokens: torch.Tensor
    features: torch.Tensor
    starts: torch.Tensor
    inside: torch.Tensor
    wanted: torch.Tensor
    states: torch.Tensor

    @classmethod
    def of(cls, recordings: Sequence[Recording], width: int, inner: bool, device: torch.device) -> Batch:
        """Return the batch of some answers.

        Args:
            recordings: none shorter than `SHORTEST` answer tokens.
            width: h', of the final state at the end of each row of `Recording.states`.
            inner: whether the features are the inner states before it, or itself.
            device: where the batch goes.
        """
        pairs = [len(recording.tokens) - 2 for recording in recordings]
        chains = [len(recording.tokens) - recording.answer - 1 for recording in recordings]
        total = recordings[0].states.shape[1]
        wide = total - width if inner else width
        shape = (len(recordings), max(pairs))
        tokens, starts = np.zeros(shape, np.int64), np.zeros((len(recordings), max(chains)), np.int64)
        features = np.zeros((*shape, wide), np.float32)
        inside, wanted = np.zeros(starts.shape, bool), np.zeros(starts.shape, np.int64)
        states = np.zeros((*starts.shape, width), np.float32)
        for row, (one, n, w) in enumerate(zip(recordings, pairs, chains, strict=True)):
            first = one.answer - 1
            tokens[row, :n] = one.tokens[1:-1]
            features[row, :n] = one.states[:n, :wide] if inner else one.states[:n, total - width :]
            starts[row, :w] = np.arange(first, first + w)
            inside[row, :w] = True
            wanted[row, :w] = one.tokens[first + 2 :]
            states[row, :w] = one.states[first + 1 :, total - width :]
        parts: tuple[NDArray[Any], ...] = (tokens, features, starts, inside, wanted, states)
        return cls(*(torch.from_numpy(part).to(device) for part in parts))


def split_off(recordings: Sequence[Recording], share: float, seed: int) -> tuple[list[Recording], list[Recording]]:
    """Return the answers to train on and, at least one, those to measure acceptance on.

    Raises:
        ValueError: fewer than two usable answers.
    """
    usable = [one for one in recordings if len(one.tokens) - one.answer >= SHORTEST]
    if len(usable) < 2:
        raise ValueError(
            f"a head cannot be trained on {len(usable)} answers: raise training.num_prompts, or "
            "training.max_prompt_tokens if most prompts are longer"
        )
    # By the prompt alone, so that a training that goes on with more answers holds the same ones out.
    draws = np.array([crc32(one.tokens[: one.answer].tobytes(), seed) for one in usable])
    held = draws < max(share * 2**32, draws.min() + 1)
    if held.all():
        held[draws.argmax()] = False
    return [usable[place] for place in np.flatnonzero(~held)], [usable[place] for place in np.flatnonzero(held)]


def batches(recordings: Sequence[Recording], tokens: int, seed: int) -> list[list[Recording]]:
    """Return the answers in batches of at most so many tokens, padding counted, in an order drawn by the seed.

    Answers of like length share a batch; which ones do is drawn anew with every seed.
    """
    rng = np.random.default_rng(seed)
    lengths = np.array([len(recording.tokens) for recording in recordings])
    order = np.argsort(lengths + rng.random(len(lengths)) * 32)
    groups = packed([recordings[place] for place in order], tokens)
    return [groups[place] for place in rng.permutation(len(groups))]


def packed(recordings: Sequence[Recording], tokens: int) -> list[list[Recording]]:
    """Return the answers, in their order, in groups of at most so many tokens, padding counted, or of one answer."""
    groups: list[list[Recording]] = [[]]
    longest = 0
    for one in recordings:
        longest = max(longest, len(one.tokens))
        if groups[-1] and longest * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            longest = len(one.tokens)
        groups[-1].append(one)
    return groups


def draft_vocabulary(
    recordings: Sequence[Recording], references: NDArray[np.int64], size: int, always: Sequence[int]
) -> Ints:
    """Return int64[size] ids in ascending order: the most frequent ones of the answers, ties to those of references.

    Args:
        recordings: the training data.
        references: int64[V], how often each id occurs in the reference answers of the data sets.
        size: of the draft vocabulary.
        always: ids that are in it whatever their frequency.
    """
    answers = np.concatenate([recording.tokens[recording.answer :] for recording in recordings])
    counts = np.bincount(answers, minlength=len(references)) + references / (references.sum() + 1)
    counts[list(always)] = np.inf
    return np.sort(np.argsort(-counts, kind="stable")[:size])
