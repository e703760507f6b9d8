"""The closed registry and the errors that carry its conditions."""

import copy
import pickle
import re
from pathlib import Path

import pytest

from vulkan_orm import diagnostics
from vulkan_orm.diagnostics import (
    BAD_OPTION,
    REGISTRY,
    REGISTRY_CLOSED,
    STALE_CLAIM,
    Condition,
    Kind,
    StaleClaim,
    UsageError,
    VulkanError,
    condition,
    condition_of,
)

PACKAGE = Path(diagnostics.__file__).parent
CONDITIONS = list(REGISTRY.values())


def names_of_conditions() -> dict[str, str]:
    """The code of each condition by the name it has in the module."""
    return {
        name: value.code
        for name, value in vars(diagnostics).items()
        if isinstance(value, Condition)
    }


def test_an_application_cannot_register_a_condition() -> None:
    """R4: the registry is closed, and the refusal says what to do instead."""
    with pytest.raises(UsageError) as refused:
        Condition("VK9999", Kind.PERMANENT, "mine", "Mine.", "None.")
    assert refused.value.condition is REGISTRY_CLOSED
    assert "VK9999" in str(refused.value)
    assert "Terminal" in str(refused.value)


def test_a_refused_condition_leaves_the_registry_as_it_was() -> None:
    """R4"""
    with pytest.raises(UsageError):
        Condition("VK9998", Kind.TRANSIENT, "mine", "Mine.", "None.")
    assert "VK9998" not in REGISTRY


def test_the_registry_itself_cannot_be_written_to() -> None:
    """R4"""
    with pytest.raises(TypeError):
        REGISTRY["VK9997"] = STALE_CLAIM  # type: ignore[index]


def test_a_condition_cannot_be_changed() -> None:
    """R4"""
    with pytest.raises(AttributeError):
        STALE_CLAIM.kind = Kind.PERMANENT  # type: ignore[misc]


def test_every_code_is_vk_and_four_digits() -> None:
    """R4"""
    assert [code for code in REGISTRY if not re.fullmatch(r"VK\d{4}", code)] == []


def test_every_code_leads_to_the_condition_that_carries_it() -> None:
    """R4"""
    assert [code for code, entry in REGISTRY.items() if entry.code != code] == []


def test_every_condition_has_a_name_of_its_own_in_the_module() -> None:
    """R4: no code is declared that nobody could raise, and none twice."""
    assert sorted(names_of_conditions().values()) == sorted(REGISTRY)


def test_no_two_conditions_share_a_title() -> None:
    """R4"""
    assert len({entry.name for entry in CONDITIONS}) == len(CONDITIONS)


@pytest.mark.parametrize("entry", CONDITIONS, ids=lambda entry: entry.code)
def test_a_condition_says_what_it_means_and_what_to_do(entry: Condition) -> None:
    """R4: one line of meaning, one of remedy, each a sentence."""
    for sentence in (entry.meaning, entry.remedy):
        assert re.fullmatch(r"[A-Z0-9][^\n]*\.", sentence)


def test_delivery_terminal_is_a_permanent_condition() -> None:
    """R5"""
    assert REGISTRY["VK0055"].kind is Kind.PERMANENT


def test_delivery_delayed_is_a_transient_condition() -> None:
    """R6"""
    assert REGISTRY["VK0054"].kind is Kind.TRANSIENT


def test_a_payload_that_does_not_fit_its_type_is_never_terminal_at_once() -> None:
    """R19a: a deploy may be half way."""
    assert REGISTRY["VK0022"].kind is Kind.TRANSIENT


def test_every_condition_is_used_in_the_package() -> None:
    """R4: a code that nothing raises, logs or shows is a promise nobody keeps."""
    sources = [
        path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if path.name != "diagnostics.py"
    ]
    unused = [
        f"{code} {name}"
        for name, code in names_of_conditions().items()
        if not any(re.search(rf"\b{name}\b", source) for source in sources)
    ]
    # The module itself raises this one, in the first test of this file.
    unused.remove(f"{REGISTRY_CLOSED.code} REGISTRY_CLOSED")
    assert not unused, f"declared, but used nowhere: {', '.join(unused)}"


def test_every_error_of_ours_is_a_vulkan_error() -> None:
    errors = [
        value
        for value in vars(diagnostics).values()
        if isinstance(value, type) and issubclass(value, BaseException)
    ]
    assert [error for error in errors if not issubclass(error, VulkanError)] == []


def test_an_error_tells_its_code_its_particulars_and_the_remedy() -> None:
    error = UsageError(BAD_OPTION, "lease= is shorter than a second.", option="lease")
    assert str(error) == f"VK0007 lease= is shorter than a second. {BAD_OPTION.remedy}"
    assert error.code == "VK0007"
    assert error.data == {"option": "lease"}


def test_an_error_survives_pickling_with_its_particulars() -> None:
    """C61"""
    error = pickle.loads(pickle.dumps(StaleClaim(STALE_CLAIM, "Too late.", attempt=3)))
    assert isinstance(error, StaleClaim)
    assert (error.code, error.detail, error.data) == ("VK0030", "Too late.", {"attempt": 3})


def test_an_unpickled_condition_is_the_registered_one() -> None:
    assert pickle.loads(pickle.dumps(STALE_CLAIM)) is STALE_CLAIM


def test_a_copied_condition_is_the_registered_one() -> None:
    assert copy.deepcopy(STALE_CLAIM) is STALE_CLAIM


def test_a_condition_is_found_by_its_code() -> None:
    assert condition("VK0030") is STALE_CLAIM


def test_an_error_that_is_not_ours_carries_no_condition() -> None:
    class Foreign(Exception):
        condition = REGISTRY["VK0055"]

    assert condition_of(Foreign()) is None


def test_an_error_that_replaced_its_condition_by_something_else_carries_none() -> None:
    class Odd(VulkanError):
        def __init__(self) -> None:
            self.condition = "poor"  # type: ignore[assignment]

    assert condition_of(Odd()) is None


def test_importing_the_diagnostics_needs_nothing_but_the_standard_library() -> None:
    imports = re.findall(
        r"^(?:from|import) (\w+)", (PACKAGE / "diagnostics.py").read_text(), re.MULTILINE
    )
    assert set(imports) <= {"collections", "dataclasses", "enum", "types", "typing"}
