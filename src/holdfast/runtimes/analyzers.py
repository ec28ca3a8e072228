"""Who recommends without knowing where children run: what was written down, and what a Prometheus
server says. Neither reads a clock or a socket: the moment and whoever asks are passed in.
"""

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.observed import Observed
from holdfast.runtimes.prometheus import Question, questions, read_answer
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import CPU, MEMORY, ODGM_REPLICAS, REPLICAS
from holdfast.runtimes.status import Recommendation

Told = Callable[[Mapping[str, Recommendation]], None]

Answered = Callable[[bytes | None, str], None]
Ask = Callable[[str, int, Answered], None]
"""Get an address within so many milliseconds; told once, its content or None and why not."""

Complain = Callable[[str, str], None]
"""Tell the people of a runtime, by its name, what is wrong."""

ASK_MS: Final = 15_000
"""So often the same is asked again."""
HEARD_MOST: Final = 10_000


class Static:
    """Says what was written down, for as long as it is."""

    def recommend(self, resource: Resource, observed: Observed, now: Instant, told: Told) -> None:
        written = resource.spec.nfr.analyzer.static
        values = {} if written is None else {
            REPLICAS: written.replicas,
            MEMORY: written.memory,
            CPU: written.cpu,
            ODGM_REPLICAS: written.odgm_replicas,
        }  # fmt: skip
        known = {key: int(value) for key, value in values.items() if value is not None}
        told(_recommended(resource, known, "static", now))


class _Heard:
    """What the server said of one generation of a runtime. `open` counts questions without an
    answer."""

    def __init__(self, of: tuple[Instant, int]) -> None:
        self.of = of
        self.asked_at = NEVER
        self.open = 0
        self.problems: dict[str, str] = {}
        self.recommendations: dict[str, Recommendation] = {}


class Prometheus:
    """Tells at once what was heard last and asks anew in the background, so that a server that is
    slow or away holds nobody up: what it does not say again grows old."""

    def __init__(self, ask: Ask, complain: Complain) -> None:
        self._ask, self._complain = ask, complain
        self._heard: dict[str, _Heard] = {}

    def recommend(self, resource: Resource, observed: Observed, now: Instant, told: Told) -> None:
        heard = self._heard.pop(resource.name, None)
        # One of the same name that is declared anew begins with the first generation again.
        of = (resource.created_at, resource.generation)
        if heard is None or heard.of != of:
            heard = _Heard(of)
        self._heard[resource.name] = heard
        if len(self._heard) > HEARD_MOST:
            # Whoever was not asked about for longest: most likely it is no more.
            del self._heard[next(iter(self._heard))]
        if not heard.open and (heard.asked_at == NEVER or now - heard.asked_at >= ASK_MS):
            self._ask_all(resource, heard, now)
        told(dict(heard.recommendations))

    def _ask_all(self, resource: Resource, heard: _Heard, now: Instant) -> None:
        settings = resource.spec.nfr.analyzer.prometheus
        if settings is None:
            return
        asked = questions(resource, settings)
        heard.asked_at, heard.open = now, len(asked)
        for question in asked:
            answered = self._reader(resource, heard, question, now)
            self._ask(question.url, int(settings.timeout), answered)

    def _reader(
        self, resource: Resource, heard: _Heard, question: Question, now: Instant
    ) -> Answered:
        """Whoever asked at `now` knows how things were then, however long the answer took."""

        def answered(content: bytes | None, why: str) -> None:
            heard.open -= 1
            problem, values = "", {}
            if content is None:
                problem = f"{question.key}: {why}"
            else:
                try:
                    values = read_answer(question.key, content)
                except ValueError as error:
                    problem = str(error)
            heard.recommendations |= _recommended(resource, values, "prometheus", now)
            if problem and problem != heard.problems.get(question.key):
                self._complain(resource.name, problem)
            heard.problems[question.key] = problem

        return answered


def _recommended(
    resource: Resource, values: Mapping[str, int], basis: str, now: Instant
) -> dict[str, Recommendation]:
    return {
        key: Recommendation(
            value=value, observed_at=now, generation=resource.generation, basis=basis
        )
        for key, value in sorted(values.items())
    }
