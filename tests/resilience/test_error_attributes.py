import pytest

from holdfast.resilience.error_attributes import (
    attribute,
    driver_result,
    group_members,
    inner_errors,
    is_a,
    is_plain,
    own_attributes,
    text,
)


class _Trap(Exception):
    @property
    def status(self) -> int:
        raise RuntimeError("not set")

    def __str__(self) -> str:
        raise ValueError("no words")


def with_attribute(name: str) -> Exception:
    error = Exception("x")
    vars(error)[name] = 1
    return error


def test_an_attribute_that_is_missing_or_raises_is_none():
    assert attribute(_Trap(), "status") is None
    assert attribute(_Trap(), "nothing") is None
    assert attribute(None, "status") is None
    assert attribute(with_attribute("status"), "status") == 1


def test_a_message_is_read_in_lower_case_and_only_from_its_start():
    assert text(ValueError("Connection RESET")) == "connection reset"
    assert len(text(ValueError("x" * 100_000))) == 1000
    assert text(_Trap()) == ""


def test_the_real_type_decides_over_a_pretended_one():
    class Pretending:
        __class__ = int  # type: ignore[assignment]

    assert isinstance(Pretending(), int)
    assert is_a(Pretending(), int) is False
    assert is_a(True, int) is True


def test_a_drivers_result_is_found_by_the_end_of_its_name():
    assert driver_result(with_attribute("any_errorcode")) == 1
    assert driver_result(with_attribute("errorcodes")) is None
    assert driver_result(ValueError()) is None


def test_a_missing_dictionary_is_empty():
    class Odd(Exception):
        __dict__ = None  # type: ignore[assignment]

    assert own_attributes(Odd()) == {}
    assert own_attributes(with_attribute("a")) == {"a": 1}


def test_wrapped_errors_come_in_order_and_interruptions_are_left_out():
    cause, carried, reason, argument = (ValueError(name) for name in "abcd")
    error = RuntimeError("x", argument, KeyboardInterrupt())
    vars(error).update(orig=carried, reason=reason)
    error.__cause__ = cause
    assert list(inner_errors(error)) == [cause, carried, reason, argument]
    error.__cause__ = KeyboardInterrupt()
    vars(error).update(orig="text", reason=None)
    assert list(inner_errors(error)) == [argument]


def test_arguments_that_are_not_a_tuple_are_none():
    class Odd(Exception):
        args = 3  # type: ignore[assignment]

    assert list(inner_errors(Odd())) == []


def test_only_a_group_has_members():
    member = ValueError()
    assert group_members(ExceptionGroup("g", [member])) == (member,)
    assert group_members(member) == ()


@pytest.mark.parametrize("name", ["response", "code", "errno", "retry_after", "any_errorcode"])
def test_an_error_with_something_to_read_is_not_plain(name):
    assert is_plain(with_attribute(name)) is False


def test_an_error_with_a_message_and_no_more_is_plain():
    assert is_plain(RuntimeError("x"))
    assert is_plain(with_attribute("colour"))
    assert is_plain(RuntimeError("x", 3, None))


def test_an_error_that_wraps_another_is_not_plain():
    caused = RuntimeError("x")
    caused.__cause__ = ValueError()
    assert not is_plain(caused)
    assert not is_plain(RuntimeError("x", ValueError()))
    assert not is_plain(ExceptionGroup("g", [ValueError()]))


@pytest.mark.parametrize(
    "body",
    [
        {"code": 1},
        {"__slots__": ("status",)},
        {"__getattr__": lambda self, name: None},
        {"__getattribute__": lambda self, name: None},
        {"__cause__": None},
    ],
    ids=lambda body: next(iter(body)),
)
def test_a_class_with_something_to_read_makes_no_plain_errors(body):
    assert is_plain(type("Telling", (Exception,), body)("x")) is False
