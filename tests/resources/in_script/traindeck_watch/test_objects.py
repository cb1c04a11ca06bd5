"""A look at all objects of the process disturbs no thread of the script."""

from __future__ import annotations

import threading

from traindeck_watch.objects import objects_of


class Model:
    pass


class Larger(Model):
    pass


def test_objects_of_a_type_and_of_derived_ones_are_found() -> None:
    made = [Model(), Larger()]
    assert {id(each) for each in made} <= {id(each) for each in objects_of(Model)}


def test_a_tuple_that_another_thread_fills_is_not_disturbed() -> None:
    """Python cannot enlarge a tuple to which something else refers.

    The look takes longer than a thread may run while others wait.
    """
    many = [[] for _ in range(1_000_000)]  # type: ignore[var-annotated]
    failures: list[BaseException] = []
    done = threading.Event()

    def fill() -> None:
        while not done.is_set():
            try:
                tuple(each for each in range(20_000))
            except SystemError as error:
                failures.append(error)

    thread = threading.Thread(target=fill)
    thread.start()
    for _ in range(6):
        objects_of(Model)
    done.set()
    thread.join()
    del many
    assert not failures
