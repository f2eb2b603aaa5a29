"""FILL in streams: a step between the windows that a micro-batch emits and the target.

A hidden column of the target marks windows of the query and those that FILL has added (`marks`), so it is the only durable
state of this step: a restart, a replay or a rebuilt checkpoint needs nothing else. For every window that is written or retracted,
the gaps next to it are filled again (`gaps`), from its neighbors in the target (`emitted`), in the same commit (`filler`).
"""
