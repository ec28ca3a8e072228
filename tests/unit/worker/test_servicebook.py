"""The book of services: what is told, when, and how often."""

from holdfast.core.ids import LeaseId, WorkerId
from holdfast.wire.exchange import Capacity, Exchange, PartitionNews, Sample, ServiceNews
from holdfast.wire.servicing import PartitionClaim
from holdfast.worker.servicebook import ServiceBook

ONE, TWO = LeaseId(1), LeaseId(2)


def told(book: ServiceBook, *, everything: bool = False, now_ms: int = 0) -> Exchange:
    """The exchange in which the book says what it has to say."""
    news, samples, partitions = book.tell(now_ms, everything=everything)
    return Exchange(
        WorkerId("w"), 1, 1, 0, Capacity(1, 0, 0, 0), (), (), (), (), (), 0, False,
        services=news, samples=samples, partitions=partitions,
    )  # fmt: skip


def states(exchange: Exchange) -> list[tuple[int, str]]:
    return [(news.lease_id, news.state) for news in exchange.services]


def test_news_are_told_until_they_were_answered() -> None:
    book = ServiceBook()
    assert not book.has_news()
    assert book.note(ServiceNews(ONE, "starting"))
    first = told(book)
    assert book.note(ServiceNews(ONE, "ready", "here:1"))
    book.answered(first)
    assert not book.is_said(ONE)
    second = told(book)
    assert states(second) == [(1, "ready")]
    assert states(told(book)) == [(1, "ready")]
    book.answered(second)
    assert book.is_said(ONE)
    assert not book.has_news()
    assert states(told(book)) == []


def test_the_same_again_is_no_news() -> None:
    book = ServiceBook()
    assert book.note(ServiceNews(ONE, "starting", why="x"))
    assert not book.note(ServiceNews(ONE, "starting", why="x"))
    assert book.note(ServiceNews(ONE, "starting", why="y"))


def test_whoever_asks_hears_of_all_of_them() -> None:
    book = ServiceBook()
    for lease in (ONE, TWO):
        book.note(ServiceNews(lease, "ready"))
    book.answered(told(book))
    again = told(book, everything=True)
    assert states(again) == [(1, "ready"), (2, "ready")]
    book.answered(again)
    assert not book.has_news()


def test_what_is_stopping_is_not_ready_again() -> None:
    book = ServiceBook()
    book.note(ServiceNews(ONE, "stopping"))
    assert not book.note(ServiceNews(ONE, "ready"))
    assert book.state_of(ONE) == "stopping"


def test_a_sample_is_told_once_and_how_old_it_is() -> None:
    book = ServiceBook()
    book.note(ServiceNews(ONE, "ready"))
    book.answered(told(book))
    book.add(Sample(ONE, 10, 20), at_ms=1_000)
    book.add(Sample(ONE, 11, 21), at_ms=6_000)
    assert book.has_news()
    (sample,) = told(book, now_ms=6_250).samples
    assert sample == Sample(ONE, 11, 21, ago_ms=250)
    assert not book.has_news()


def test_partitions_are_told_once_and_how_old_that_is() -> None:
    book = ServiceBook()
    book.note(ServiceNews(ONE, "ready"))
    book.answered(told(book))
    book.add_partitions(PartitionNews(ONE, problem="silent"), at_ms=1_000)
    book.add_partitions(PartitionNews(ONE, turn_ms=5), at_ms=6_000)
    assert book.has_news()
    assert told(book, now_ms=6_250).partitions == (PartitionNews(ONE, turn_ms=5, ago_ms=250),)
    assert not book.has_news()


def test_more_partitions_than_one_exchange_carries_go_with_the_next() -> None:
    book = ServiceBook()
    claims = tuple(PartitionClaim(str(n), 1, 1) for n in range(600))
    for lease in (ONE, TWO):
        book.note(ServiceNews(lease, "ready"))
        book.add_partitions(PartitionNews(lease, claims), at_ms=0)
    assert [news.lease_id for news in told(book).partitions] == [ONE]
    assert book.has_news()
    assert [news.lease_id for news in told(book).partitions] == [TWO]


def test_of_what_is_over_nothing_is_told() -> None:
    book = ServiceBook()
    book.note(ServiceNews(ONE, "ready"))
    book.add_partitions(PartitionNews(ONE), at_ms=0)
    book.add(Sample(ONE, 1, 1), at_ms=0)
    book.scrape((ONE,))
    book.forget(ONE)
    book.add(Sample(ONE, 1, 1), at_ms=0)
    book.add_partitions(PartitionNews(ONE), at_ms=0)
    assert not book.has_news()
    assert book.state_of(ONE) == ""
    assert book.scraped == frozenset()
    assert states(told(book, everything=True)) == []


def test_an_order_to_scrape_may_come_before_the_replica_is_up() -> None:
    book = ServiceBook()
    book.scrape((TWO,))
    book.note(ServiceNews(TWO, "starting"))
    assert book.scraped == {TWO}
