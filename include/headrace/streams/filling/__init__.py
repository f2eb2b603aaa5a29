"""FILL in streams: a step between the windows that a micro-batch emits and the target.

The target tells windows of the query from those that FILL has added by a hidden column (`marks`), so it is the only durable
state of this step: a restart, a replay or a rebuilt checkpoint needs nothing else. For every window that is written or retracted,
the gaps next to it are filled again (`gaps`), from its neighbors in the target (`emitted`), in the same commit (`sink`).
"""
