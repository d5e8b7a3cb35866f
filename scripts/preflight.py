"""What is wrong with the jobs of a sweep: all of it at once, and before the first one starts."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    prompts: dict[str, int] = {}
    yield from _each(jobs, _rows, lambda job: prompts.update({_rows(job): len(load_corpus(job.dataset, "test"))}))
    sound = [job for job in jobs if not problems(job)]
    yield from _each(sound, _parts, _part_problems)
    yield from _each(sound, _models, _memory_problems)
    yield from _disk_problems([*_samples(jobs, prompts), *_stores(sound)])


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


def _disk_problems(written: Sequence[tuple[Path, float]]) -> Iterator[str]:
    """Compare with each disk the MB that may be written to folders on it."""
    needed: dict[int, float] = defaultdict(float)
    places: dict[int, Path] = {}
    for folder, megabytes in written:
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


def _samples(jobs: Sequence[Settings], prompts: Mapping[str, int]) -> Iterator[tuple[Path, float]]:
    """Yield where the samples of each job go and the MB that they may take; rows that cannot be read have none."""
    for job in jobs:
        yield Path(job.results_dir).expanduser(), prompts.get(_rows(job), 0) * SAMPLE_MB


def _rows(job: Settings) -> str:
    return repr(job.dataset)


def _stores(jobs: Sequence[Settings]) -> Iterator[tuple[Path, float]]:
    """Yield each store that is yet to be built, and the MB that its build may take."""
    searching = [job for job in jobs if job.mode != "replay" and needs_store(job.drafter)]
    found = {}
    for job in {_store(job): job for job in searching}.values():
        folder = _unbuilt(job)
        if folder is not None:
            keys = job.datastore.num_prompts * job.datastore.max_new_tokens
            found[folder] = keys * _key_bytes(job.datastore.pca_dim) / 2**20
    yield from found.items()


def _store(job: Settings) -> str:
    """Return what a store is made of, and who searches it: verifiers and decoding, which sweeps go over, are none."""
    store = (job.model, job.dataset, job.datastore, job.device, job.dtype, str(cache_folder(job)))
    return repr((*store, job.drafter["name"]))


def _unbuilt(job: Settings) -> Path | None:
    """Return the folder of the job's store if it is not there; None, too, where it cannot be told before a fetch."""
    from methods.offline.plan import plan_store
    from primitives.models.loading import is_here

    if not is_here(job.model, cache_folder(job)):
        return None
    try:
        plan = plan_store(job)
    except (ValueError, OSError):
        return None  # said above
    return None if plan is None or plan.folder.is_dir() else plan.folder


def _key_bytes(dim: int) -> int:
    """Return the most bytes that a key takes in a build: once in its parts, once in the index, and its tokens."""
    return 2 * 4 * dim + 24
