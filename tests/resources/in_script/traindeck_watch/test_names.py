from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from traindeck_watch.names import name_of_object, planned_totals

WORDS = ("optimizers", "optimizer", "optim", "opt")


class Thing:
    pass


def name_in(variables):
    """The name that is found for `thing` in a function with these variables."""
    space = dict(variables)
    frame = SimpleNamespace(
        f_code=SimpleNamespace(co_filename="train.py", co_name="<module>"),
        f_locals=space,
        f_globals=space,
        f_back=None,
    )
    return lambda thing: name_of_object(thing, frame, WORDS)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("optimizerD", "D"),
        ("optimizer_G", "G"),
        ("opt_gen", "gen"),
        ("d_optim", "d"),
        ("generator_optimizer", "generator"),
        ("adam", "adam"),
    ],
)
def test_an_optimizer_is_called_after_its_variable(variable, name):
    thing = Thing()
    assert name_in({"x": 1, variable: thing})(thing) == name


def test_one_in_a_dict_a_list_an_attribute_or_a_wrapper():
    thing = Thing()
    assert name_in({"optimizers": {"critic": thing}})(thing) == "critic"
    assert name_in({"optimizers": [Thing(), thing]})(thing) == "1"
    assert name_in({"self": SimpleNamespace(opt_g=thing)})(thing) == "g"
    assert name_in({"opt_d": SimpleNamespace(optimizer=thing)})(thing) == "d"
    assert name_in({"optimizer": thing})(thing) == ""
    assert name_in({})(thing) == ""


def test_no_code_of_the_scripts_own_containers_and_proxies_is_run():
    """The `items` of transformers' lazy dicts imports all its models."""

    class Lazy(dict):
        def items(self):
            raise AssertionError("it imports hundreds of modules")

    class Many(list):
        def __len__(self):
            raise AssertionError("it reads a file")

        __iter__ = __len__

    class Proxy:
        @property
        def __class__(self):
            raise AssertionError("it connects to a server")

    thing = Thing()
    variables = {"lazy": Lazy(a=thing), "many": Many([Thing(), thing]), "proxy": Proxy()}
    assert name_in({"proxy": variables.pop("proxy"), **variables})(thing) == "a"
    assert name_in({"many": variables["many"]})(thing) == "1"


def test_the_totals_are_read_from_settings():
    def inner():
        return planned_totals(sys._getframe())

    assert inner() == {"epochs": None, "total_steps": None}

    def outer(args):
        return inner()

    assert outer(SimpleNamespace(epochs=14, log_interval=10)) == {"epochs": 14, "total_steps": None}

    def by_steps(max_iters, epochs_seen):
        return inner()

    assert by_steps(600, 3) == {"epochs": None, "total_steps": 600}
