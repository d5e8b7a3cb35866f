"""Names of primitives: registry name = file name = config name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from primitives.contract import Drafter, Verifier

T = TypeVar("T", bound=Drafter | Verifier)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the end of an error sentence: the nearest allowed name, if any is near, and all allowed ones."""
    names = sorted(allowed)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}Allowed: {', '.join(names)}"


class Registry(Generic[T]):
    """Primitives of one kind, found by name.

    The modules of `package` are imported on the first look-up, so that a new primitive is one new file.

    Args:
        kind: what the errors call an entry ("drafter").
        package: dotted name of the package whose modules register themselves.
        base: what every entry is.
    """

    def __init__(self, kind: str, package: str, base: type[T]) -> None:
        self.kind = kind
        self.base = base
        self.package = package
        self._classes: dict[str, type[T]] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Return a class decorator that enters the class as `name`; ValueError if the name is taken."""

        def enter(cls: type[T]) -> type[T]:
            if name in self._classes:
                other = self._classes[name]
                raise ValueError(
                    f"{self.kind} '{name}' is registered twice: by {other.__module__} and by {cls.__module__}"
                )
            self._classes[name] = cls
            cls.name = name
            return cls

        return enter

    def names(self) -> list[str]:
        """Return all names in alphabetical order."""
        self._load()
        return sorted(self._classes)

    def get(self, name: str) -> type[T]:
        """Return the class entered as `name`; ValueError names the nearest one if there is none."""
        self._load()
        if name not in self._classes:
            raise ValueError(f"unknown {self.kind} '{name}': {nearest(name, self._classes)}")
        return self._classes[name]

    def build(self, name: str, knobs: Mapping[str, Any], resources: Mapping[str, Any]) -> T:
        """Return an instance of `name` made with its knobs and with those resources that its constructor names.

        Where the constructor takes a primitive of this kind, or a sequence of them, the knob is a name, or a mapping of
        "name" and knobs, and is built likewise.

        Args:
            name: registry name.
            knobs: values from the configuration; each must be a parameter of the constructor.
            resources: what the house can provide ("vector_store", "eos_ids", ...); only what is asked for is passed on.

        Raises:
            ValueError: an unknown name or knob, or a value that the primitive refuses.
        """
        cls = self.get(name)
        parameters = inspect.signature(cls).parameters
        for knob in knobs:
            if knob not in parameters or knob in resources:
                allowed = [p for p in parameters if p not in resources]
                raise ValueError(f"{self.kind} '{name}' has no setting '{knob}': {nearest(knob, allowed)}")
        parts = self._parts(name)
        made = {
            key: _each(value, lambda part: self.build(*named(part), resources)) if key in parts else value
            for key, value in knobs.items()
        }
        given = {**made, **{key: value for key, value in resources.items() if key in parameters}}
        missing = [key for key, part in parameters.items() if part.default is part.empty and key not in given]
        if missing:
            raise ValueError(f"{self.kind} '{name}' needs {', '.join(missing)}, and nothing provides it")
        return cls(**given)

    def bare(self, config: str | Mapping[str, Any]) -> T:
        """Return an instance made of knobs alone, which is all that constructors look at; resources are None.

        Raises:
            ValueError: an unknown name or knob, or a value that the primitive refuses.
        """
        absent = {
            key: None
            for name, knobs in self.within(config)
            for key, parameter in inspect.signature(self.get(name)).parameters.items()
            if parameter.default is parameter.empty and key not in knobs
        }
        return self.build(*named(config), absent)

    def asks_for(self, config: str | Mapping[str, Any], resource: str) -> bool:
        """Return whether the constructor of a configured primitive, or of one within it, takes the resource."""
        return any(resource in inspect.signature(self.get(name)).parameters for name, _ in self.within(config))

    def within(self, config: str | Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield name and knobs of a configured primitive, then of those that it is made of."""
        name, knobs = named(config)
        yield name, knobs
        for key in self._parts(name) & knobs.keys():
            found: list[str | Mapping[str, Any]] = []
            _each(knobs[key], found.append)
            for part in found:
                yield from self.within(part)

    def _parts(self, name: str) -> set[str]:
        """Return the parameters of a constructor that are primitives of this kind themselves."""
        hints = get_type_hints(self.get(name).__init__)
        return {key for key, hint in hints.items() if key != "return" and self.base in {hint, *get_args(hint)}}

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            for module in iter_modules(import_module(self.package).__path__):
                import_module(f"{self.package}.{module.name}")


def named(config: Any) -> tuple[str, dict[str, Any]]:
    """Return name and knobs of a configured primitive: a bare name has no knobs.

    Raises:
        ValueError: neither a name nor a mapping with one.
    """
    if isinstance(config, str):
        return config, {}
    if not isinstance(config, Mapping) or not isinstance(config.get("name"), str):
        raise ValueError(f"a primitive is configured by its name, or by a mapping with 'name' in it, not by {config!r}")
    return config["name"], {key: value for key, value in config.items() if key != "name"}


def _each(value: Any, do: Callable[[Any], Any]) -> Any:
    """Apply a function to a configured primitive, or to each of a sequence of them; None stays None."""
    if value is None or isinstance(value, str | Mapping):
        return None if value is None else do(value)
    return [do(part) for part in value]


# mypy takes a class with abstract methods for no type to pass on, though nothing is made of it here.
DRAFTERS: Registry[Drafter] = Registry("drafter", "primitives.drafting", Drafter)  # type: ignore[type-abstract]
VERIFIERS: Registry[Verifier] = Registry("verifier", "primitives.verification", Verifier)  # type: ignore[type-abstract]
