"""What is wrong with the jobs of a sweep: all of it at once, and before the first one starts."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from corpora.loading import load_corpus
from methods.overrides import launcher
from methods.places import cache_folder
from methods.schema import Settings
from methods.settings import needs_store, problems

# One job after the other in one process, or each on a machine of its own; all others may run two at a time on a device.
TIMING_LAUNCHERS: Final = ("basic", "submitit_slurm")
# A sample of 128 tokens with its passes and trees takes less.
SAMPLE_MB: Final = 0.05


def preflight(jobs: Sequence[Settings], words: Sequence[str]) -> Iterator[str]:
    """Yield one sentence for each problem of the jobs beside those that their own settings have.

    Rows, models and stores are each looked at once, however many jobs share them.

    Args:
        jobs: settings of all jobs.
        words: the command line without the program's name.
    """
    yield from _launcher_problems(jobs, words)
    yield from _each(jobs, lambda job: str(Path(job.results_dir).expanduser()), _results_problems)
    yield from _each(jobs, lambda job: str(cache_folder(job)), _cache_problems)
    yield from _each(jobs, lambda job: repr(job.dataset), lambda job: load_corpus(job.dataset, "test"))
    sound = [job for job in jobs if not problems(job)]
    yield from _each(sound, _parts, _part_problems)
    yield from _each(sound, _models, _memory_problems)
    yield from _disk_problems(jobs, sound)


def _each(
    jobs: Sequence[Settings], key: Callable[[Settings], str], check: Callable[[Settings], object]
) -> Iterator[str]:
    for job in {key(job): job for job in jobs}.values():
        try:
            check(job)
        except (ValueError, OSError) as error:
            yield str(error)


def _launcher_problems(jobs: Sequence[Settings], words: Sequence[str]) -> Iterator[str]:
    if not any(job.mode == "measure" for job in jobs) or (name := launcher(words)) in TIMING_LAUNCHERS:
        return
    yield (
        f"hydra/launcher={name} runs jobs side by side, and two timing jobs on one device would measure each "
        "other: use it with mode=replay, or leave the launcher out"
    )


def _results_problems(job: Settings) -> None:
    _writable(Path(job.results_dir).expanduser(), "results_dir")


def _cache_problems(job: Settings) -> None:
    _writable(cache_folder(job), "cache_dir")


def _writable(folder: Path, key: str) -> None:
    """Raise ValueError if no file can be made in a folder, or where it would be made itself; nothing is left there."""
    there = _there(folder)
    try:
        with TemporaryFile(dir=there) as file:
            file.write(b"0")
    except OSError as error:
        raise ValueError(
            f"{key} is '{folder}', where nothing can be written ({error.strerror}): choose another"
        ) from error


def _there(folder: Path) -> Path:
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())


def _parts(job: Settings) -> str:
    store = job.datastore if needs_store(job.drafter) else None
    drafter = job.drafter["name"], job.draft_model
    return repr((job.mode, job.model, job.dataset, store, *drafter, job.verifier, job.device, job.dtype))


def _part_problems(job: Settings) -> None:
    """Raise ValueError for a store, constants or a recording that cannot be used; what is to be built is no problem."""
    # transformers takes seconds to import, and what is wrong without it is known by now.
    from methods.calibration.files import belongs_to_drafter, check_calibration
    from methods.loaded import check_models, draft_is_here
    from methods.offline.plan import plan_store
    from methods.recordings import open_recording
    from primitives.models.loading import is_here

    if job.mode == "replay":
        open_recording(job)
    elif not check_models(job) and is_here(job.model, cache_folder(job)):
        plan = plan_store(job)
        if plan is not None:
            plan.opened()
        # Whose constants they are is known only where the drafter's weights are.
        if draft_is_here(job) or not belongs_to_drafter(job):
            check_calibration(job)


def _models(job: Settings) -> str:
    return repr((job.mode == "replay", job.model, job.draft_model, job.drafter["name"], job.device, job.dtype))


def _memory_problems(job: Settings) -> None:
    """Raise ValueError if the models of a job are here and do not fit into memory."""
    from methods.loaded import models
    from methods.memory import free_mb
    from primitives.models.device import dtype_name, resolve_device, resolve_dtype
    from primitives.models.folder import weights_mb
    from primitives.models.loading import is_here, model_folder

    if job.mode == "replay":
        return
    device, cache = resolve_device(job.device), cache_folder(job)
    dtype = resolve_dtype(job.dtype, device)
    folders = {model_folder(model, cache)[0] for model in models(job) if is_here(model, cache)}
    needed, free = sum(weights_mb(folder, dtype) for folder in folders), free_mb(device)
    if needed > free:
        smaller = "a smaller model or dtype=bfloat16" if dtype_name(dtype) == "float32" else "a smaller model"
        raise ValueError(
            f"the weights of {' and '.join(model.name for model in models(job))} take {needed:,.0f} MB as "
            f"{dtype_name(dtype)}, and {device} has {free:,.0f} MB free: choose {smaller}"
        )


def _disk_problems(jobs: Sequence[Settings], sound: Sequence[Settings]) -> Iterator[str]:
    """Compare with each disk what all jobs together may write to it."""
    needed: dict[int, float] = defaultdict(float)
    places: dict[int, Path] = {}
    stores = {_parts(job): job for job in sound}
    for folder, megabytes in (*_samples(jobs), *map(_store, stores.values())):
        place = _there(folder)
        needed[place.stat().st_dev] += megabytes
        places.setdefault(place.stat().st_dev, place)
    for disk, place in places.items():
        free = shutil.disk_usage(place).free / 2**20
        if free < needed[disk]:
            yield (
                f"the disk of {place} has {free:,.0f} MB free, and samples and stores may take {needed[disk]:,.0f} MB: "
                "make room, or choose another results_dir or cache_dir"
            )


def _samples(jobs: Sequence[Settings]) -> Iterator[tuple[Path, float]]:
    """Yield where the samples of each job go and the MB that they may take."""
    prompts: dict[str, int] = {}
    for job in jobs:
        key = repr(job.dataset)
        if key not in prompts:
            try:
                prompts[key] = len(load_corpus(job.dataset, "test"))
            except (ValueError, OSError):
                prompts[key] = 0  # rows that cannot be read, which is a problem of its own
        yield Path(job.results_dir).expanduser(), prompts[key] * SAMPLE_MB


def _store(job: Settings) -> tuple[Path, float]:
    """Return where a store that is yet to be built goes and the MB that its build may take."""
    from methods.offline.plan import plan_store
    from primitives.models.loading import is_here

    cache, store = cache_folder(job), job.datastore
    if job.mode == "replay" or not needs_store(job.drafter) or not is_here(job.model, cache):
        return cache, 0.0
    try:
        plan = plan_store(job)
    except (ValueError, OSError):
        return cache, 0.0  # said above
    built = plan is None or plan.folder.is_dir()
    return cache, 0.0 if built else store.num_prompts * store.max_new_tokens * _key_bytes(store.pca_dim) / 2**20


def _key_bytes(dim: int) -> int:
    """Return the most bytes that a key takes in a build: once in its parts, once in the index, and its tokens."""
    return 2 * 4 * dim + 24
