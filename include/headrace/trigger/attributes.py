"""The attributes of a trigger."""

from __future__ import annotations

from headrace.udf.parameters import Attributes


class TriggerAttributes(Attributes):
    """What the statement that created a trigger says after WITH: texts by key."""
