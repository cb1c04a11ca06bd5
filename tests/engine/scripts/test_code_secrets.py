import ast

import pytest

from engine.scripts.code_secrets import without_secrets
from engine.scripts.secrets import HIDDEN, redacted

VALUE = "correct-horse-12"


@pytest.mark.parametrize(
    "code",
    [
        f'password = "{VALUE}"',
        f'PASSWORD = \\\n  "{VALUE}"',
        'x.secret_key = (\n  "correct-"\n  "horse-12"\n)',
        f'os.environ["MY_TOKEN"] = "{VALUE}"',
        f'os.environ.setdefault("MY_TOKEN", "{VALUE}")',
        f'user, password = "ü", "{VALUE}"',
        f'api_key: str = os.environ.get("A") or b"{VALUE}"',
        f'def f(a, password="{VALUE}", *, token: str = "{VALUE}"): ...',
        f'f(passwords=["{VALUE}"], other={{"password": "{VALUE}"}})',
        f'password = f"{{user}}-{VALUE}"',
        f'x = f"""\npassword={VALUE}\n{{a}}"""',
        f'x = """\n-----BEGIN RSA PRIVATE KEY-----\n{VALUE}\n-----END RSA PRIVATE KEY-----"""',
        f'run(["curl", "-u", "me:{VALUE}", "x.example"])',
        f"x = 1  # ü password = {VALUE}",
    ],
)
def test_texts_are_hidden_by_their_names_wherever_they_stand(code):
    found = without_secrets(f"{code}\nlast = 'x'\n", redacted, HIDDEN)
    assert "horse" not in found
    assert HIDDEN in found
    assert ast.parse(found).body[-1].lineno == code.count("\n") + 2


@pytest.mark.parametrize(
    "code",
    [
        "key = value\nself.pad_token = token\napi_keys = []\npassword = None\n",
        'batch["key"] = value\nx = {"token": token, "password": ""}\n',
        'x = "a" "b" \\\n  "ü"\nf(next_token="a", sort_key=lambda k: k)\n',
    ],
)
def test_what_is_no_secret_stays_as_it_is(code):
    assert without_secrets(code, redacted, HIDDEN) == code


def test_what_is_no_code_is_refused():
    with pytest.raises(SyntaxError):
        without_secrets("password = = 3", redacted, HIDDEN)
