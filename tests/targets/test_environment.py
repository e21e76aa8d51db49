from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.core.errors import Refused
from bridge.ports import Claim
from bridge.targets.environment import LONGEST, MOST, environment_of, problems_of, startup_problems, variable_name

MakeClaim = Callable[..., Claim]


def params_of(claim: MakeClaim, **params: object) -> dict[str, str]:
    return environment_of(claim(params=msgspec.json.encode(params)))


def test_a_run_knows_its_key_watcher_asset_and_job(claim: MakeClaim) -> None:
    told = environment_of(claim())
    assert told["HEADRACE_RUN_KEY"] == "orders/src/0-17/0"
    assert (told["HEADRACE_WATCHER"], told["HEADRACE_ASSET"], told["HEADRACE_JOB"]) == (
        "orders",
        "eu_orders",
        "process",
    )
    assert told["HEADRACE_PARAMS"] == '{"order":"o-1","amount":12.5}'


def test_scalar_params_are_variables(claim: MakeClaim) -> None:
    told = params_of(claim, **{"order-id": "o 1", "count": 3, "rate": 0.5, "ok": True, "ünit": "x"})
    assert told["HEADRACE_PARAM_ORDER_ID"] == "o 1"
    assert told["HEADRACE_PARAM_COUNT"] == "3"
    assert told["HEADRACE_PARAM_RATE"] == "0.5"
    assert told["HEADRACE_PARAM_OK"] == "true"
    assert told["HEADRACE_PARAM__NIT"] == "x"


def test_what_is_no_scalar_is_in_the_json_only(claim: MakeClaim) -> None:
    told = params_of(claim, none=None, items=[1], inner={"a": 1}, nul="a\0b")
    assert not [name for name in told if name.startswith("HEADRACE_PARAM_")]
    assert msgspec.json.decode(told["HEADRACE_PARAMS"])["nul"] == "a\0b"


def test_two_params_of_one_name_have_none(claim: MakeClaim) -> None:
    told = params_of(claim, **{"a-b": 1, "a.b": 2, "A_B": 3, "c": 4})
    assert [name for name in told if name.startswith("HEADRACE_PARAM_")] == ["HEADRACE_PARAM_C"]


def test_what_is_too_long_for_a_variable_is_left_out(claim: MakeClaim) -> None:
    told = params_of(claim, long="x" * (LONGEST + 1), short="y")
    assert "HEADRACE_PARAMS" not in told
    assert "HEADRACE_PARAM_LONG" not in told
    assert told["HEADRACE_PARAM_SHORT"] == "y"


def test_all_params_together_stay_within_what_a_process_may_get(claim: MakeClaim) -> None:
    told = params_of(claim, **{f"p{i}": "x" * (LONGEST - 1) for i in range(20)})
    assert sum(map(len, told.values())) < MOST + 1000


@pytest.mark.parametrize("params", [b"[1]", b"null", b"{", b"", b"\xff"])
def test_params_that_are_no_object_are_refused(claim: MakeClaim, params: bytes) -> None:
    with pytest.raises(Refused, match="not a JSON object"):
        environment_of(claim(params=params))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(params=st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=20)))
def test_whatever_the_params_a_process_can_be_started_with_them(claim: MakeClaim, params: dict[str, object]) -> None:
    for name, value in params_of(claim, **{"": 1, **params}).items():
        assert name.isascii()
        assert not set(name) & {"=", "\0"}
        assert b"\0" not in os.fsencode(value)


def test_names_that_came_with_odd_characters_reach_the_environment(claim: MakeClaim) -> None:
    told = environment_of(claim(run_key="a\0b/\ud800/x", job="ü"))
    assert b"\0" not in os.fsencode(told["HEADRACE_RUN_KEY"])
    assert told["HEADRACE_JOB"] == "ü"


@pytest.mark.parametrize("name", ["order", "Order", "ORDER"])
def test_variable_names_are_capitals(name: str) -> None:
    assert variable_name(name) == "HEADRACE_PARAM_ORDER"


# Before anything runs ------------------------------------------------------------------------------------------------


def test_what_no_system_takes_is_a_problem() -> None:
    assert problems_of(["run", "-x"], {"A": "b"}) == []
    assert "needs a program" in problems_of([" "], {})[0]
    assert "NUL" in problems_of(["run", "a\0b"], {})[0]
    assert "'A=B'" in problems_of(["run"], {"A=B": "c"})[0]
    assert problems_of(["run"], {"": "c"})


def test_a_program_on_the_path_is_no_problem() -> None:
    assert startup_problems(["sh"], None, os.environ) == []


def test_a_missing_program_is_a_problem_with_a_remedy() -> None:
    (problem,) = startup_problems(["no-such-program-anywhere"], None, os.environ)
    assert "no-such-program-anywhere is not found on PATH" in problem


def test_the_path_is_that_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    assert startup_problems(["tool"], None, {"PATH": str(tmp_path)}) == []
    assert startup_problems(["tool"], None, {"PATH": "/nowhere"})


def test_a_relative_program_starts_at_its_folder(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    assert f"there is no file {script}" in startup_problems(["./tool"], str(tmp_path), {})[0].replace("/./", "/")
    script.write_text("#!/bin/sh\n")
    script.chmod(0o644)
    (problem,) = startup_problems(["./tool"], str(tmp_path), {})
    assert "is not executable: chmod +x" in problem
    script.chmod(0o755)
    assert startup_problems(["./tool"], str(tmp_path), {}) == []


def test_a_missing_folder_is_a_problem() -> None:
    assert startup_problems(["sh"], "/no/such/folder", os.environ) == ["`cwd`: /no/such/folder is not a folder"]
