"""Detects, by its bytecode, which columns of its records a function reads.

A function that uses its record only by `record.column` cannot see whether the other columns are there. So they need not
be read, sent to the workers, or made Python objects.
"""

import dis
from collections.abc import Collection
from functools import lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

_LOOKS_AT_FRAMES = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack"})


def columns_read(method: Any, names: Collection[str]) -> frozenset[str] | None:
    """Returns the columns that a method reads of its first argument; None where the bytecode does not clearly show it.

    Args:
        method: A bound method, such as `process_element` of a function.
        names: All columns of the records.
    """
    if not isinstance(method, MethodType) or not isinstance(method.__func__, FunctionType):
        return None
    attributes = _attributes_of_record(method.__func__.__code__)
    return attributes if attributes is not None and attributes <= frozenset(names) else None


@lru_cache(maxsize=256)
def _attributes_of_record(code: CodeType) -> frozenset[str] | None:
    """Returns the attributes that a method's code loads from its first argument, if it does nothing else with it."""
    if code.co_argcount < 2 or _LOOKS_AT_FRAMES & {*code.co_names}:
        return None
    record = code.co_varnames[1]
    if record in code.co_cellvars:  # an inner function has it
        return None
    attributes = set()
    instructions = list(dis.get_instructions(code))
    for index, instruction in enumerate(instructions):
        if not _is_about(record, instruction):
            continue
        after = instructions[index + 1] if index + 1 < len(instructions) else None
        loads = instruction.opname == "LOAD_FAST" and after is not None and after.opname == "LOAD_ATTR"
        if not loads or after is None or after.is_jump_target:
            return None
        attributes.add(str(after.argval))
    return frozenset(attributes)


def _is_about(variable: str, instruction: dis.Instruction) -> bool:
    if "FAST" not in instruction.opname:
        return False
    value = instruction.argval
    return variable in value if isinstance(value, tuple) else bool(value == variable)


__all__ = ["columns_read"]
