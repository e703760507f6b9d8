"""A bell wakes one at a time, and forgets no ring."""

from vulkan_orm.consumers.bell import Bell


def test_a_ring_wakes_the_one_that_waits_longest() -> None:
    bell = Bell()
    first, second = bell.enter(), bell.enter()
    bell.ring()
    assert (first.done(), second.done()) == (True, False)
    bell.ring()
    assert second.done()


def test_a_ring_that_nobody_waits_for_is_kept_for_the_next() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert bell.enter().done()
    assert not bell.enter().done()


def test_a_ring_that_is_kept_can_be_taken_once() -> None:
    bell = Bell(rung=True)
    assert bell.take()
    assert not bell.take()


def test_one_that_left_is_not_woken_in_the_place_of_one_that_waits() -> None:
    bell = Bell()
    gone, waiting = bell.enter(), bell.enter()
    bell.leave(gone)
    bell.ring()
    assert (gone.done(), waiting.done()) == (False, True)


def test_one_that_waits_cannot_be_cancelled_so_that_no_ring_is_lost_on_it() -> None:
    """As asyncio tries to, when a task that waits is cancelled."""
    bell = Bell()
    waiting = bell.enter()
    assert not waiting.cancel()
    bell.ring()
    assert waiting.done()


def test_once_open_it_keeps_nobody_waiting() -> None:
    bell = Bell()
    waiting = bell.enter()
    bell.open()
    assert waiting.done()
    assert bell.enter().done()
    assert bell.take()
    assert bell.take()
