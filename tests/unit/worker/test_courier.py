"""Parcels that waited together are delivered together."""

from holdfast.testing.posting import a_delivery, a_parcel
from holdfast.wire.sinks import FileSink
from holdfast.worker.courier import TOGETHER_MAX, together

ONE, OTHER = FileSink("/one"), FileSink("/other")


def numbers(parcels):
    return [[delivery.name.index for delivery in parcel.deliveries] for parcel in parcels]


def test_neighbours_with_the_same_definition_are_one_parcel():
    some = [
        a_parcel(a_delivery(1), a_delivery(2), sink=ONE),
        a_parcel(a_delivery(3), sink=ONE),
        a_parcel(a_delivery(4), sink=OTHER),
        a_parcel(a_delivery(5), sink=ONE),
    ]
    assert numbers(together(some)) == [[1, 2, 3], [4], [5]]
    assert together([]) == []


def test_a_parcel_that_is_large_enough_is_left_as_it_is():
    many = a_parcel(*[a_delivery(n) for n in range(TOGETHER_MAX)], sink=ONE)
    assert together([many, many]) == [many, many]
