"""The gate of a worker: who may run beside whom."""

from vulkan_orm.consumers.gate import Gate


def test_ordinary_runs_go_in_side_by_side() -> None:
    gate = Gate()
    assert gate.enter("a", alone=False)
    assert gate.enter("b", alone=False)


def test_one_alone_keeps_everybody_else_out_until_it_leaves() -> None:
    gate = Gate()
    assert gate.enter("careful", alone=True)
    assert not gate.enter("ordinary", alone=False)
    assert not gate.enter("second", alone=True)
    gate.leave("careful", entered=True, alone=True)
    gate.leave("second", entered=False, alone=True)
    assert gate.enter("ordinary", alone=False)


def test_one_that_would_be_alone_waits_until_the_last_one_has_left() -> None:
    gate = Gate()
    assert gate.enter("a", alone=False)
    assert gate.enter("b", alone=False)
    assert not gate.enter("careful", alone=True)
    gate.leave("a", entered=True, alone=False)
    assert not gate.enter("careful", alone=True)
    gate.leave("b", entered=True, alone=False)
    assert gate.enter("careful", alone=True)


def test_one_that_waits_to_be_alone_keeps_newcomers_out() -> None:
    """Or a busy worker would never let it in."""
    gate = Gate()
    assert gate.enter("a", alone=False)
    assert not gate.enter("careful", alone=True)
    assert not gate.enter("newcomer", alone=False)
    gate.leave("a", entered=True, alone=False)
    assert not gate.enter("newcomer", alone=False)
    assert gate.enter("careful", alone=True)


def test_one_that_gave_up_waiting_keeps_nobody_out() -> None:
    gate = Gate()
    assert gate.enter("a", alone=False)
    assert not gate.enter("careful", alone=True)
    gate.leave("careful", entered=False, alone=True)
    assert gate.enter("newcomer", alone=False)


def test_of_two_that_wait_to_be_alone_one_goes_after_the_other() -> None:
    gate = Gate()
    assert gate.enter("a", alone=False)
    assert not gate.enter("first", alone=True)
    assert not gate.enter("second", alone=True)
    gate.leave("a", entered=True, alone=False)
    assert gate.enter("second", alone=True)
    assert not gate.enter("first", alone=True)
    gate.leave("second", entered=True, alone=True)
    assert gate.enter("first", alone=True)


def test_one_that_insists_is_content_with_company() -> None:
    gate = Gate()
    assert gate.enter("hours", alone=False)
    assert not gate.enter("careful", alone=True)
    assert gate.enter("careful", alone=True, insist=True)
    assert not gate.enter("newcomer", alone=False)
    assert gate.enter("newcomer", alone=False, insist=True)
    gate.leave("careful", entered=True, alone=True)
    assert gate.enter("another", alone=False)


def test_leaving_without_having_been_inside_makes_no_room() -> None:
    gate = Gate()
    assert gate.enter("careful", alone=True)
    gate.leave("ordinary", entered=False, alone=False)
    assert not gate.enter("ordinary", alone=False)
    assert not gate.enter("second", alone=True)
