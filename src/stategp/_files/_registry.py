"""The classes that a file may name.

Nothing else is ever made when a file is read: a name that is not in this table is an error, and
no name is ever imported.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

FORMAT = 2
Fields = dict[str, Any]
Class = TypeVar("Class")

_REGISTERED = "registered."  # how the names of users' classes begin
# In files of format 1 names had no package; of equal names the last of these was meant.
_PACKAGES = ("priors.", "means.", "likelihoods.", "kernels.", "")

_classes: dict[str, type] = {}
_names: dict[type, str] = {}
_answers: list[type] = []
_outside: dict[type, frozenset[str]] = {}
_checks: dict[type, Callable[[Any], None]] = {}
_upgrades: dict[tuple[str, int], Callable[[Fields], Fields]] = {}


def allow(
    *classes: type,
    within: str = "",
    answers: Iterable[type] = (),
    outside: Iterable[str] = (),
) -> None:
    """Let files name these classes of the package, and hold `answers` as what was saved.

    `within` begins their names in files. `outside` are fields which a file need not hold: they can
    be functions of the user's, and are given to `load` by name.
    """
    for cls in (*classes, *answers):
        name = within + cls.__name__
        if _classes.setdefault(name, cls) is not cls:
            raise ValueError(f"two classes are called {name!r} in files")
        _names[cls] = name
        _outside[cls] = frozenset(outside)
    _answers.extend(answers)


def check_when_read(checks: dict[type, Callable[[Any], None]]) -> None:
    """What is called with every object of a class that comes from a file; it raises ValueErrors."""
    _checks.update(checks)


def check(value: object) -> None:
    """Refuse, in words, an object whose parts do not fit together."""
    if type(value) in _checks:
        _checks[type(value)](value)


def register(cls: Class) -> Class:
    """Let files hold objects of your own class: a kernel, likelihood, mean function or prior.

    A file holds the name of the class and the values of its fields, not its code. The class must
    therefore also be defined and registered before such a file is loaded. It must be a dataclass
    (as subclasses of `sg.kernels.Kernel`, `sg.likelihoods.Likelihood` and `sg.means.Mean` are), a
    named tuple or an enumeration. Loading sets its fields and does not call its constructor.

    >>> import stategp as sg
    >>> @sg.register
    ... class Ramp(sg.means.Mean):
    ...     slope: float
    ...
    ...     def __call__(self, x):
    ...         return self.slope * x
    """
    if not isinstance(cls, type):
        raise ValueError(f"sg.register takes a class, not {cls!r}")
    if field_names(cls) is None and not issubclass(cls, enum.Enum):
        raise ValueError(
            f"{cls.__name__} cannot be saved: make it a dataclass (or a subclass of "
            "sg.kernels.Kernel, sg.likelihoods.Likelihood or sg.means.Mean)"
        )
    if cls in _names and not _names[cls].startswith(_REGISTERED):
        return cls  # one of the package, which files know
    name = _REGISTERED + cls.__name__
    if any(known.split(".")[-1] == cls.__name__ for known in _classes if known != name):
        raise ValueError(
            f"{cls.__name__} is the name of a class of stategp: give your class another name"
        )
    other = _classes.get(name)
    if other is not None and _address(other) != _address(cls):
        raise ValueError(
            f"another class called {cls.__name__} is registered ({'.'.join(_address(other))}): "
            "give one of them another name"
        )
    # A cell that is run again defines the class anew: objects of both can be saved.
    _classes[name] = cls
    _names[cls] = name
    return cls


def _address(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def upgrade(name: str, written: int) -> Callable[[Callable[[Fields], Fields]], Any]:
    """Decorates what turns the fields of a class, as format `written` had them, into the next's."""

    def enter(function: Callable[[Fields], Fields]) -> Callable[[Fields], Fields]:
        _upgrades[name, written] = function
        return function

    return enter


def upgraded(name: str, fields: Fields, written: int) -> Fields:
    """The fields as this version has them."""
    for number in range(written, FORMAT):
        if (name, number) in _upgrades:
            fields = _upgrades[name, number](fields)
    return fields


def name_in_files(cls: type) -> str | None:
    """The name of a class in files; None for one that they do not know."""
    return _names.get(cls)


def class_of(name: str, written: int) -> type:
    """The class that a file of some format means by a name."""
    known = name
    if written == 1:
        known = next((p + name for p in _PACKAGES if p + name in _classes), name)
    if known in _classes:
        return _classes[known]
    if name.startswith(_REGISTERED):
        short = name.removeprefix(_REGISTERED)
        raise ValueError(
            f"it holds a {short}, a user-defined class that is not registered here: define "
            f"the class, call sg.register({short}), then load"
        )
    raise ValueError(f"no class is called {name!r} in files that this version of stategp reads")


def may_be_missing(cls: type) -> frozenset[str]:
    """Fields that are given to `load` where the file does not have them."""
    return _outside.get(cls, frozenset())


def is_answer(value: object) -> bool:
    """Whether this is something that `save` writes and `load` returns."""
    return isinstance(value, tuple(_answers))


def is_registered(name: str) -> bool:
    """Whether this names a class of a user's."""
    return name.startswith(_REGISTERED)


def field_names(cls: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass or named tuple, in order; None for anything else."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return None


def defaults(cls: Any) -> Fields:
    """The fields that have a default, with it."""
    if not dataclasses.is_dataclass(cls):
        return dict(cls._field_defaults)
    defaults_by_name: Fields = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults_by_name[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults_by_name[field.name] = field.default_factory()
    return defaults_by_name
