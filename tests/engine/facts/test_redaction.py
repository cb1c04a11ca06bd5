"""No password, key or token stays in a text that a run keeps."""

from __future__ import annotations

import pytest

from engine.facts.redaction import remote_address, secret_values, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:secret@github.com/ada/vision.git", "https://github.com/ada/vision.git"),
        ("https://token@host/x?access_token=abc", "https://host/x"),
        ("git@github.com:ada/vision.git", "github.com:ada/vision.git"),
        ("ssh://git@host:22/x.git", "ssh://host:22/x.git"),
        ("/home/ada/vision", "/home/ada/vision"),
        ("https://[broken", ""),
    ],
)
def test_a_remote_has_no_credentials(url: str, shown: str) -> None:
    assert remote_address(url) == shown


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('+url = "https://ada:pw@host/x"', '+url = "https://***@host/x"'),
        ("+get('https://h/x?token=abcd&b=1')", "+get('https://h/x?token=***&b=1')"),
        ("+key = 'hf_abcdefghijklmnop'", "+key = '***'"),
        ("+a\n+-----BEGIN RSA PRIVATE KEY-----\n+MII\n", "+a\n+-----BEGIN RSA PRIVATE KEY-----***"),
        ("+password is s3cr3t-value", "+password is ***"),
        (
            "+mail = 'ada@example.org'  # see https://docs",
            "+mail = 'ada@example.org'  # see https://docs",
        ),
    ],
)
def test_secrets_leave_a_diff(text: str, kept: str) -> None:
    assert without_secrets(text, ["s3cr3t-value", "yes"]) == kept


def test_a_short_value_is_no_secret_that_could_be_found() -> None:
    assert without_secrets("+answer = 'yes'", ["yes"]) == "+answer = 'yes'"


def test_secret_variables_are_known_by_name_or_value() -> None:
    found = secret_values({"WANDB_API_KEY": "0123456789", "X": "hf_abcdefghijklmnop", "HOME": "/h"})
    assert found == ["0123456789", "hf_abcdefghijklmnop"]
