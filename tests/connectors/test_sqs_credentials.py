"""Who we are: found when it is first needed, and found anew when AWS has refused it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from botocore.exceptions import NoCredentialsError, ProfileNotFound

from connectors.sqs import SqsOptions
from connectors.sqs.credentials import Found, calm_down
from connectors.sqs.options import Credentials


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A credentials file, and nothing else that AWS's chain could find."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return path


def write(file: Path, key: str, profile: str = "default") -> None:
    file.write_text(f"[{profile}]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")


async def key_of(found: Found) -> str:
    return str((await found.get_frozen_credentials()).access_key)


async def test_keys_that_were_rotated_in_a_file_are_found_once_the_old_ones_are_refused(file: Path) -> None:
    write(file, "first")
    clock = Clock()
    found = Found(SqsOptions(queue="orders"), clock)
    assert await key_of(found) == "first"
    write(file, "second")
    assert await key_of(found) == "first"
    found.doubt()
    clock.time += 10
    assert await key_of(found) == "second"


async def test_keys_that_stay_refused_are_not_looked_for_at_every_call(file: Path) -> None:
    write(file, "first")
    clock = Clock()
    found = Found(SqsOptions(queue="orders"), clock)
    assert await key_of(found) == "first"
    found.doubt()
    write(file, "second")
    clock.time += 1
    assert await key_of(found) == "first"


async def test_a_chain_that_ends_without_any_is_asked_again(file: Path) -> None:
    found = Found(SqsOptions(queue="orders"), Clock())
    with pytest.raises(NoCredentialsError):
        await key_of(found)
    write(file, "late")
    assert await key_of(found) == "late"


async def test_a_profile_is_that_of_the_options(file: Path) -> None:
    write(file, "mine", profile="mine")
    assert await key_of(Found(SqsOptions(queue="orders", profile="mine"), Clock())) == "mine"
    with pytest.raises(ProfileNotFound):
        await key_of(Found(SqsOptions(queue="orders", profile="other"), Clock()))


async def test_keys_that_are_written_down_are_used_as_they_are(file: Path) -> None:
    given = Credentials(access_key_id="a", secret_access_key="b", session_token="c")
    frozen = await Found(SqsOptions(queue="orders", credentials=given), Clock()).get_frozen_credentials()
    assert (frozen.access_key, frozen.secret_key, frozen.token) == ("a", "b", "c")


def test_the_client_never_logs_whole_requests() -> None:
    names = ("botocore", "aiobotocore", "botocore.credentials")
    before = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.DEBUG)
        calm_down()
        assert not logging.getLogger("botocore.endpoint").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("botocore.credentials").isEnabledFor(logging.WARNING)
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
