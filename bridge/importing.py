"""Classes of the user's own, by import path. Nothing is imported before a configuration names it."""

from __future__ import annotations

import difflib
import inspect
import sys
from importlib import import_module
from typing import Any, NoReturn

from bridge.core.errors import Refused


def parts_of(path: str) -> tuple[str, str]:
    """Module and name of `package.module:Class`; without a colon the last word is the name."""
    module, colon, name = path.partition(":")
    if colon:
        return module, name
    module, _, name = path.rpartition(".")
    return module, name


def load_class(path: str, key: str, *bases: type[Any]) -> type[Any]:
    """The class, which must inherit from one of `bases`. `key` is what the path stands behind in the configuration.

    The module must be importable by the process: installed, or in a folder on PYTHONPATH. Raises Refused with a
    sentence that says what to correct.
    """
    about = f"`{key}` {path!r}"
    module_name, name = parts_of(path)
    if not module_name or not name or not all(word.isidentifier() for word in f"{module_name}.{name}".split(".")):
        raise Refused(f"{about} is no import path: write it as package.module:Class")
    found: Any = _module(module_name, about)
    for word in name.split("."):
        found = getattr(found, word, None)
        if found is None:
            _no_such_class(about, module_name, name)
    if not inspect.isclass(found):
        raise Refused(f"{about} is not a class: it is {found!r:.80}")
    if not issubclass(found, bases):
        wanted = " or ".join(f"{base.__module__}.{base.__name__}" for base in bases)
        raise Refused(f"{about} must inherit from {wanted}")
    return found


def told(error: BaseException) -> str:
    """An error of somebody else's code, in a line."""
    return f"{type(error).__name__}: {error}"


def _module(name: str, about: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name != missing and not name.startswith(f"{missing}."):
            raise Refused(f"{about}: the module {name} imports {missing}, which is not installed") from error
        raise Refused(
            f"{about}: there is no module {missing}; install it, lay it beside the configuration, or put its folder on "
            "PYTHONPATH"
        ) from error
    except (Exception, SystemExit) as error:  # the module is somebody's code: it may do anything
        raise Refused(f"{about}: importing {name} raised {told(error)}") from error


def _no_such_class(about: str, module: str, name: str) -> NoReturn:
    there = [key for key, value in vars(sys.modules[module]).items() if inspect.isclass(value)]
    near = difflib.get_close_matches(name, there, 1)
    hint = f", did you mean {near[0]}?" if near else ""
    raise Refused(f"{about}: the module {module} has no {name}{hint}")
