"""Statements → stages → effects: the only door for the command line, REST and Python.

`dispatch` finds the planner of a statement, which checks it and returns stages (`stage`). A session checks the rights of all
stages before it applies the first. EXPLAIN describes the very stages that would be applied. The module of a topic, in `topics`,
has all that its statements need: planners, and functions that return stages, each with its rights, its description and its effect.

To add a statement, once the dialect's parser returns it (`model.statements` or `model.tree_statements`):

1. Write `plan_<statement>(statement, session) -> list[Stage]` in the topic's module, where `<statement>` is the name of its class
   in snake case. It changes nothing, and rejects everything that can be rejected.
2. If no function of the topic returns the stage that it needs, make a `Stage` there, or in a function if planners share it.
3. List the statement with its topic in `dispatch.TOPICS`.

Topics are imported when a statement needs them. What a planner does not need (Spark, engines, HTTP clients) is imported where a
stage is applied: `SHOW` and `INSERT` take a fraction of a second (`tests/cli/test_imports.py`).
"""
