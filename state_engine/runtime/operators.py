"""Chooses the kind of operator instance for a function."""

from state_engine.api.functions import KeyedBatchProcessFunction
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import MakeBackend
from state_engine.runtime.batch_operator import BatchOperator
from state_engine.runtime.broadcast_operator import BroadcastOperator
from state_engine.runtime.operator import Operator
from state_engine.runtime.row_operator import RowOperator
from state_engine.runtime.spec import OperatorSpec
from state_engine.runtime.two_input_operator import TwoInputOperator


def operator_of(
    spec: OperatorSpec, subtask: int, parallelism: int, make_backend: MakeBackend = HeapKeyedStateBackend
) -> Operator:
    """Returns an operator instance: over batches, or per record with one input, two, or a broadcast one."""
    two = spec.two_inputs
    if isinstance(spec.function, KeyedBatchProcessFunction):  # with two inputs it separates their records itself
        return BatchOperator(spec, subtask, parallelism, make_backend)
    if two is None:
        return RowOperator(spec, subtask, parallelism, make_backend)
    if spec.broadcast:
        return BroadcastOperator(spec, two, subtask, parallelism, make_backend)
    return TwoInputOperator(spec, two, subtask, parallelism, make_backend)


__all__ = ["operator_of"]
