"""The filter of system calls, run as the kernel runs it."""

import struct

import pytest

from holdfast.children.system_calls import ARCHITECTURES, filter_program

PID = 4321
ALLOWED, REFUSED, KILLED = 0x7FFF0000, 0x00050001, 0x80000000
# read, write, mmap, exit_group; openat, socket, clone, execve, open_by_handle_at, ptrace, mount
CALLS = {
    "x86_64": ([0, 1, 9, 231], [257, 41, 56, 59, 304, 101, 165]),
    "aarch64": ([63, 64, 222, 94], [56, 198, 220, 221, 265, 117, 40]),
}
TGKILL = {"x86_64": 234, "aarch64": 131}
PRLIMIT = {"x86_64": 302, "aarch64": 261}
FCNTL = {"x86_64": 72, "aarch64": 25}

pytestmark = pytest.mark.parametrize("machine", ARCHITECTURES)


def decide(machine, number, *arguments, architecture=None):
    """Return what the program answers to a call."""
    words = [number, architecture or ARCHITECTURES[machine], 0, 0]
    for argument in (*arguments, 0, 0):
        words += [argument, 0]
    steps = list(struct.iter_unpack("=HBBI", filter_program(machine, PID)))
    at, value = 0, 0
    while True:
        code, if_so, if_not, operand = steps[at]
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            value = words[operand // 4]
            continue
        holds = value == operand if code == 0x15 else value >= operand
        at += if_so if holds else if_not


def test_calls_of_the_table_are_allowed_and_all_others_refused(machine):
    allowed, refused = CALLS[machine]

    assert {decide(machine, number) for number in allowed} == {ALLOWED}
    assert {decide(machine, number) for number in refused} == {REFUSED}
    assert sum(decide(machine, number) == ALLOWED for number in range(1000)) < 60


def test_numbers_of_another_architecture_end_the_child(machine):
    assert decide(machine, CALLS[machine][0][0], architecture=0x40000003) == KILLED


def test_the_second_numbering_of_x86_is_refused(machine):
    assert decide(machine, 0x40000000) == REFUSED


def test_a_signal_may_go_to_itself_alone(machine):
    assert decide(machine, TGKILL[machine], PID) == ALLOWED
    assert decide(machine, TGKILL[machine], 1) == REFUSED


def test_the_limits_of_other_processes_cannot_be_set(machine):
    assert decide(machine, PRLIMIT[machine], 0) == ALLOWED
    assert decide(machine, PRLIMIT[machine], PID) == ALLOWED
    assert decide(machine, PRLIMIT[machine], 1) == REFUSED


def test_a_file_cannot_be_made_to_signal_another_process(machine):
    duplicate, set_owner = 1030, 8

    assert decide(machine, FCNTL[machine], 3, duplicate) == ALLOWED
    assert decide(machine, FCNTL[machine], 3, set_owner) == REFUSED
