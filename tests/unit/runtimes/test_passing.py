"""What a pass keeps from one look to the next."""

from typing import Any, cast

from holdfast.runtimes.evaluation import DEFAULT_CONFIG
from holdfast.runtimes.passing import Surroundings
from holdfast.runtimes.tally import Tally
from holdfast.runtimes.templates import TEMPLATES
from holdfast.testing.model_runtime import a_resource, declared, function

NOBODY = cast(Any, None)


def test_one_that_took_the_name_of_another_between_two_looks_is_not_taken_for_it() -> None:
    around = Surroundings(
        store=NOBODY,
        substrate=NOBODY,
        analyzers={},
        clock=NOBODY,
        descriptors=TEMPLATES,
        config=DEFAULT_CONFIG,
        tally=Tally(),
    )
    descriptor = TEMPLATES["dev"]
    first = a_resource(declared(functions=[function("hello")]))
    (hello,) = around.workloads(first, descriptor)
    assert around.workloads(first, descriptor)[0] is hello
    # Deleted and declared anew before anybody looked: it is in its first generation again.
    second = a_resource(declared(functions=[function("other")]))
    (other,) = around.workloads(second, descriptor)
    assert (hello.name, other.name) == ("greeter--hello", "greeter--other")
