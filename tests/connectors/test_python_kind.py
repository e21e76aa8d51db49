"""The kind `python`: import paths, what may stand behind them, and the sentences for what may not."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from bridge.core.errors import Refused
from bridge.shared_stream import SharedStreamProducer
from connectors.python import KIND, PythonOptions

MODULE = """
from bridge.shared_stream import SharedStreamProducer
from bridge.triggers import BaseEventTrigger

made = []


class Ticks(SharedStreamProducer):
    def __init__(self, every, label="x"):
        self.every, self.label = every, label
        made.append(self)

    async def open_stream(self):
        yield b"{}", 1

    async def advance(self, batch):
        return None


class Named(Ticks):
    source_id = "ticks/main"


class NamedByKwargs(Ticks):
    @classmethod
    def source_id(cls, kwargs):
        return f"ticks/{kwargs['every']}"


class NamedBadly(Ticks):
    source_id = 5


class NamedWithTrouble(Ticks):
    @classmethod
    def source_id(cls, kwargs):
        raise KeyError("queue")


class Outer:
    class Inner(Ticks):
        pass


class Half(SharedStreamProducer):
    async def advance(self, batch):
        return None


class Trigger(BaseEventTrigger):
    def serialize(self):
        return "shop.Trigger", {}

    async def run(self):
        yield None

    @classmethod
    def create_shared_stream_producer(cls, kwargs):
        return Ticks(**kwargs)


class Heir(Trigger):
    pass


class Wrong(Trigger):
    @classmethod
    def create_shared_stream_producer(cls, kwargs):
        return object()


class OnlyRun(BaseEventTrigger):
    def serialize(self):
        return "shop.OnlyRun", {}

    async def run(self):
        yield None


class Fast(OnlyRun):
    @classmethod
    def open_shared_stream(cls, kwargs):
        return None


class Plain:
    pass


def function():
    pass
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder on the import path, with modules good and bad; they are forgotten afterwards."""
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "hungry.py").write_text("import no_such_client\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("shop", "broken", "leaves", "hungry", "inner"):
        sys.modules.pop(name, None)


def options(path: str, source: str | None = None, **kwargs: object) -> PythonOptions:
    return PythonOptions(import_path=path, kwargs=kwargs, source=source)


def problem(path: str, **kwargs: object) -> str:
    [sentence] = KIND.check(options(path, **kwargs))
    with pytest.raises(Refused) as raised:
        KIND.build(options(path, **kwargs))
    assert str(raised.value) == sentence
    return sentence


@pytest.mark.parametrize("path", ["shop:Ticks", "shop.Ticks", "shop:Outer.Inner"])
def test_a_producer_is_made_with_its_kwargs(path):
    producer = KIND.build(options(path, every=3))
    assert isinstance(producer, SharedStreamProducer)
    assert (producer.every, producer.label) == (3, "x")  # type: ignore[attr-defined]
    assert KIND.check(options(path, every=3)) == []


@pytest.mark.parametrize("path", ["shop:Trigger", "shop:Heir"])
def test_a_trigger_makes_its_producer_from_the_kwargs(path):
    producer = KIND.build(options(path, every=3))
    assert type(producer).__name__ == "Ticks"
    assert KIND.check(options(path, every=3)) == []


def test_each_build_makes_a_fresh_producer():
    chosen = options("shop:Ticks", every=3)
    assert KIND.build(chosen) is not KIND.build(chosen)


def test_the_kwargs_of_the_options_are_not_given_away():
    chosen = options("shop:Ticks", every=3)
    KIND.build(chosen)
    KIND.check(chosen)
    assert chosen.kwargs == {"every": 3}


def test_the_option_is_called_class():
    chosen = msgspec.convert({"class": "shop:Ticks", "kwargs": {"every": 1}}, PythonOptions)
    assert chosen == options("shop:Ticks", every=1)


def test_nothing_is_imported_by_naming_a_class():
    options("shop:Ticks", every=3)
    assert "shop" not in sys.modules


# The source ----------------------------------------------------------------------------------------------------------


def test_the_source_is_made_of_the_class_and_its_kwargs():
    source = KIND.source(options("shop:Ticks", every=3, label="a"))
    assert source.startswith("python:shop:Ticks:")
    assert source == KIND.source(options("shop.Ticks", label="a", every=3))
    assert source != KIND.source(options("shop:Ticks", every=4, label="a"))
    assert len(source) == len("python:shop:Ticks:") + 16


def test_a_class_may_say_what_it_reads():
    assert KIND.source(options("shop:Named", every=3)) == "ticks/main"
    assert KIND.source(options("shop:NamedByKwargs", every=3)) == "ticks/3"


def test_the_configuration_has_the_last_word_on_the_source():
    assert KIND.source(options("shop:Named", source="mine", every=3)) == "mine"


def test_a_source_that_is_not_text_is_a_problem():
    assert "source_id must be text" in KIND.check(options("shop:NamedBadly", every=3))[0]
    assert "source_id(kwargs) raised KeyError: 'queue'" in KIND.check(options("shop:NamedWithTrouble", every=3))[0]


def test_kwargs_that_are_no_plain_data_are_a_problem():
    assert "are not plain data" in KIND.check(options("shop:Ticks", every=object()))[0]


# Problems ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["Ticks", "shop:", ":Ticks", "shop/ticks.py", "shop.:Ticks", "a b:C", "shop:Tick s"])
def test_what_is_no_import_path_is_told_how_to_look(path):
    assert "write it as package.module:Class" in problem(path)


def test_a_missing_module_is_named_with_the_part_that_is_missing():
    assert "there is no module no_such_shop" in problem("no_such_shop.sub:Ticks")
    assert "there is no module inner.missing" in problem("inner.missing:Ticks")
    assert "PYTHONPATH" in problem("no_such_shop:Ticks")


def test_a_module_that_lacks_a_package_is_told_apart_from_a_missing_module():
    assert "the module hungry imports no_such_client, which is not installed" in problem("hungry:Ticks")


def test_a_module_that_raises_or_exits_on_import_is_a_problem_and_no_crash():
    assert "importing broken raised ZeroDivisionError" in problem("broken:Ticks")
    assert "importing leaves raised SystemExit: 3" in problem("leaves:Ticks")


def test_a_misspelt_class_gets_the_nearest_name():
    assert problem("shop:Tick").endswith("the module shop has no Tick, did you mean Ticks?")
    assert problem("shop:Zzzzzzz").endswith("the module shop has no Zzzzzzz")


def test_what_is_no_class_or_the_wrong_one_is_a_problem():
    assert "is not a class" in problem("shop:function")
    assert "must inherit from bridge.shared_stream.SharedStreamProducer or" in problem("shop:Plain")


def test_a_constructor_that_raises_is_quoted():
    sentence = problem("shop:Ticks", evry=3)
    assert "shop:Ticks can't be made with the `kwargs` given: TypeError" in sentence
    assert "evry" in sentence


def test_a_producer_that_lacks_a_method_is_a_problem():
    assert "open_stream" in problem("shop:Half")


def test_a_factory_that_returns_something_else_is_a_problem():
    assert (
        "returned an instance of object, which does not inherit from bridge.shared_stream.SharedStreamProducer"
        in problem("shop:Wrong")
    )


def test_triggers_without_a_producer_are_told_that_support_comes_later():
    assert "only run(); support for such triggers comes later" in problem("shop:OnlyRun")
    assert "open_shared_stream() only: a stream without settlement; support" in problem("shop:Fast")
