"""From the words of a command line to settings, with one clear sentence for each word that cannot work.

Hydra would refuse the same words, but some of them only after other jobs of a sweep have run, and none with the nearest
name. So every job of a command line is composed here before Hydra starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import lru_cache
from itertools import product
from typing import Any, cast

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType, ValueType
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, Node, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from methods.schema import CONF_DIR, Settings
from primitives.registry import nearest

ERRORS = (HydraException, OmegaConfBaseException, ValueError)
OPTIONAL_GROUPS = frozenset({"experiment"})
OWN_HINT = {
    "model": "; a model of your own is model.path=<folder or .gguf file>",
    "dataset": "; prompts of your own are dataset=prompts dataset.path=<file>, other rows dataset.path=<folder>",
}
TYPE_NAMES = {
    "IntegerNode": "a whole number",
    "FloatNode": "a number",
    "BooleanNode": "true or false",
    "ListConfig": "a list such as [a,b]",
}
QUOTING = (
    "a value with commas, spaces, brackets, braces, =, # or letters outside ASCII needs quotes of its own inside "
    """those of the shell, as in "key='a, b'\""""
)


class OverrideError(ValueError):
    """Words that cannot be turned into settings: one sentence a line."""


def check(argv: Sequence[str]) -> list[Settings]:
    """Return the settings of every job that a command line asks for, in the order in which they would run.

    The list is empty for flags that run nothing (--help), and where --config-dir, --config-name or --config-path bring
    in configurations of the user's own, which only Hydra can judge.

    Args:
        argv: the command line without the program's name.

    Raises:
        OverrideError: unknown names or values of a wrong type, all of them at once.
    """
    args = get_args_parser().parse_args(list(argv))
    if args.help or args.hydra_help or args.shell_completion or args.info or args.experimental_rerun:
        return []
    if args.config_dir or args.config_name or args.config_path:
        return []
    overrides = [_parse(word) for word in args.overrides]
    swept = _own_sweep(overrides)
    sweeps = (
        args.multirun or swept or any(o.key_or_group == "hydra.mode" and o.value() == "MULTIRUN" for o in overrides)
    )
    if not sweeps:
        _refuse(_sweep_problem(override) for override in overrides if override.is_sweep_override())
    _refuse(_twice(overrides))
    return _settings(_over(swept, overrides))


def launcher(argv: Sequence[str]) -> str:
    """Return the name of the Hydra launcher that a command line chooses, by itself or by an experiment."""
    overrides = [_parse(word) for word in given(argv)]
    named = [str(override.value()) for override in overrides if override.key_or_group == "hydra/launcher"]
    if named:
        return named[-1]
    # Hydra, too, leaves what is swept over out of the configuration that its launcher is taken from.
    words = [str(override.input_line) for override in overrides if not override.is_sweep_override()]
    return str(_composed(words, with_hydra=True).hydra.runtime.choices["hydra/launcher"])


def given(argv: Sequence[str]) -> list[str]:
    """Return the key=value words of a command line, without its flags."""
    return list(get_args_parser().parse_args(list(argv)).overrides)


def compose(words: Sequence[str]) -> Settings:
    """Return the settings of one job from words such as "method=pld" and "decode.max_new_tokens=64".

    Raises:
        OverrideError: see :func:`check`; also words that name several values.
    """
    overrides = [_parse(word) for word in words]
    _refuse(_sweep_problem(override) for override in overrides if override.is_sweep_override())
    return _settings(overrides)[0]


def groups() -> dict[str, list[str]]:
    """Return the names of the choices of every group under conf/."""
    folders = sorted(folder for folder in CONF_DIR.iterdir() if folder.is_dir() and folder.name != "hydra")
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


def _own_sweep(overrides: Sequence[Override]) -> list[Override]:
    """Return what the chosen experiment sweeps over by itself, under hydra.sweeper.params.

    Raises:
        OverrideError: several experiments at once, one of them with a sweep of its own; Hydra would do none of them.
    """
    names = [name for o in overrides if o.key_or_group == "experiment" for name in _choices(o)]
    sweeps = {name: _params(name) for name in names if (CONF_DIR / "experiment" / f"{name}.yaml").is_file()}
    own = [name for name, params in sweeps.items() if params]
    if own and len(names) > 1:
        raise OverrideError(f"experiment '{own[0]}' is a sweep of its own: give one experiment at a time")
    return [override for params in sweeps.values() for override in params]


def _params(experiment: str) -> list[Override]:
    params = OmegaConf.select(OmegaConf.load(CONF_DIR / "experiment" / f"{experiment}.yaml"), "hydra.sweeper.params")
    return [_parse(f"{key}={value}") for key, value in (params or {}).items()]


def _over(swept: Sequence[Override], overrides: Sequence[Override]) -> list[Override]:
    """Put the words of the command line over those of an experiment, in the order in which Hydra takes them."""
    given = {override.get_key_element(): override for override in overrides}
    merged = {override.get_key_element(): override for override in swept}
    kept = [given.get(key, override) for key, override in merged.items()]
    return [*kept, *(override for override in overrides if override.get_key_element() not in merged)]


def _settings(overrides: Sequence[Override]) -> list[Settings]:
    overrides = [override for override in overrides if not override.is_hydra_override()]
    _refuse(problem for override in overrides for problem in _choice_problems(override))
    _refuse(_twice(overrides))
    parts = {override.get_key_element(): _values(override) for override in overrides}
    composed = []
    problems: list[str | None] = []
    for job in product(*parts.values()):
        try:
            composed.append(_compose(job))
        except ERRORS as error:
            problems += _diagnose(job, error)
        else:
            problems += _misplaced_additions(job)
    _refuse(problems)
    return composed


def _refuse(problems: Iterator[str | None] | list[str | None] | Iterator[str]) -> None:
    found = dict.fromkeys(problem for problem in problems if problem)
    if found:
        raise OverrideError("\n".join(found))


@lru_cache(maxsize=4096)
def _parse(word: str) -> Override:
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException as error:
        if "=" not in word:
            raise OverrideError(f"cannot read '{word}': a setting is written key=value") from error
        raise OverrideError(f"cannot read '{word}': {QUOTING}") from error


def _raw(words: Sequence[str]) -> DictConfig:
    chosen, keyed = _split(words)
    if not all(_sets_a_key(override) for override in keyed):
        return _composed(words)
    config = deepcopy(_base(tuple(chosen)))
    try:
        for override in keyed:
            OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
    except OmegaConfBaseException:
        return _composed(words)  # for the error that Hydra makes of it
    return config


@lru_cache(maxsize=256)
def _base(chosen: tuple[str, ...]) -> DictConfig:
    """Return what some choices from groups make; the jobs of a sweep share it, and Hydra takes a fifth of a second."""
    return _composed(chosen)


def _sets_a_key(override: Override) -> bool:
    """Tell whether an override does no more than give a value to a key, which Hydra does last and by OmegaConf."""
    plain = override.type == OverrideType.CHANGE and not override.is_sweep_override()
    return plain and override.package is None and not override.is_hydra_override()


def _composed(words: Sequence[str], with_hydra: bool = False) -> DictConfig:
    # Hydra keeps one application for the whole process; a caller may be inside its own.
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            return hydra.compose("config", overrides=list(words), return_hydra_config=with_hydra)
    finally:
        GlobalHydra.instance().hydra = outer


def _compose(words: Sequence[str]) -> Settings:
    return cast(Settings, OmegaConf.to_object(_raw(words)))


def _values(override: Override) -> list[str]:
    """Return the override once for each of its values."""
    key = override.get_key_element()
    if override.value_type == ValueType.GLOB_CHOICE_SWEEP:
        return [f"{key}={name}" for name in _choices(override)]
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        raise OverrideError(f"'{override.input_line}': the sweeper takes lists and range(...), not interval(...)")
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def _sweep_problem(override: Override) -> str:
    return (
        f"'{override.input_line}' names several values: add -m to run one job for each; if it is one value, {QUOTING}"
    )


def _is_group(override: Override) -> bool:
    return override.package is None and (CONF_DIR / override.key_or_group).is_dir()


def _choices(override: Override) -> list[str]:
    """Return the names that the override chooses from its group."""
    value: Any = override.value()
    if isinstance(value, Glob):
        return value.filter(groups()[override.key_or_group])
    values = list(override.sweep_iterator()) if override.is_sweep_override() else [value]
    flat = [item for entry in values for item in (entry if isinstance(entry, list) else [entry])]
    return ["null" if item is None else str(item) for item in flat]


def _choice_problems(override: Override) -> Iterator[str]:
    if not _is_group(override) or override.is_delete():
        return
    group = override.key_or_group
    allowed = groups()[group]
    for name in _choices(override):
        if name not in allowed and not (name == "null" and group in OPTIONAL_GROUPS):
            yield f"unknown {group} '{name}': {nearest(name, allowed)}{OWN_HINT.get(group, '')}"


def _twice(overrides: Sequence[Override]) -> Iterator[str]:
    chosen = [override.key_or_group for override in overrides if _is_group(override)]
    for group in dict.fromkeys(name for name in chosen if chosen.count(name) > 1):
        yield f"{group} is chosen {chosen.count(group)} times: give it once; -m {group}=a,b runs several"


def _diagnose(words: Sequence[str], error: Exception) -> list[str | None]:
    """Say what is wrong with a job that does not compose."""
    chosen, keyed = _split(words)
    base = _raw(chosen)
    unknown = [_unknown_key(base, override) for override in keyed]
    if any(unknown):
        return [problem for problem in unknown if problem]
    wrong = [_wrong_value(base, chosen, override) for override in keyed]
    return [problem for problem in wrong if problem] or [_first_line(error)]


def _misplaced_additions(words: Sequence[str]) -> list[str | None]:
    """Refuse +key=value where a key of that name means nothing; Hydra would let it pass in silence."""
    chosen, keyed = _split(words)
    added = [override for override in keyed if override.is_add()]
    base = _raw(chosen) if added else DictConfig({})
    return [_unknown_key(base, override) for override in added]


def _split(words: Sequence[str]) -> tuple[list[str], list[Override]]:
    """Return the words that choose from a group, and the overrides of single keys."""
    overrides = [_parse(word) for word in words]
    chosen = [word for word, override in zip(words, overrides, strict=True) if _is_group(override)]
    return chosen, [override for override in overrides if not _is_group(override)]


def _unknown_key(base: DictConfig, override: Override) -> str | None:
    key = override.key_or_group
    node: Any = base
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if isinstance(node, ListConfig) or (isinstance(node, DictConfig) and part in node):
            node = node[int(part)] if isinstance(node, ListConfig) else node._get_node(part)
            continue
        if not isinstance(node, DictConfig):
            return f"unknown key '{key}': {'.'.join(parts[:depth])} has no keys of its own"
        if OmegaConf.get_type(node) is dict and override.is_add():
            return None
        if OmegaConf.get_type(node) is dict and not node:
            return f"unknown key '{key}': nothing is set there yet, +{key}=... adds it"
        prefix = "".join(f"{above}." for above in parts[:depth])
        return f"unknown key '{key}': {_hint(key, parts[-1], base, [prefix + str(name) for name in node])}"
    return None


def _hint(key: str, last: str, base: DictConfig, siblings: list[str]) -> str:
    """Name the key that was meant: of the same last part elsewhere (a forgotten prefix), else the nearest sibling."""
    twins = [full for full in _leaves(base) if full.rpartition(".")[2] == last]
    if not twins:
        return nearest(key, siblings)
    meant = " or ".join(f"'{twin}'" for twin in sorted(twins))
    return f"did you mean {meant}? Allowed: {', '.join(sorted(siblings))}"


def _leaves(node: DictConfig, prefix: str = "") -> Iterator[str]:
    for name in map(str, node):
        child = node._get_node(name)
        yield prefix + name
        if isinstance(child, DictConfig) and not child._is_none():
            yield from _leaves(child, f"{prefix}{name}.")


def _wrong_value(base: DictConfig, chosen: Sequence[str], override: Override) -> str | None:
    try:
        _compose([*chosen, str(override.input_line)])
    except ERRORS as error:
        if not isinstance(error.__cause__ or error, HydraException | OmegaConfBaseException):
            return _first_line(error)
        key = override.key_or_group
        parent = OmegaConf.select(base, key.rpartition(".")[0]) if "." in key else base
        node = parent._get_node(key.rpartition(".")[2]) if isinstance(parent, DictConfig) else None
        expected = TYPE_NAMES.get(type(node).__name__)
        if not isinstance(node, Node) or expected is None:
            return f"{override.input_line}: {_first_line(error)}"
        null = " or null" if node._is_optional() else ""
        return f"{key} must be {expected}{null}, got '{override.get_value_element_as_str()}'"
    return None


def _first_line(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    return str(cause).splitlines()[0]
