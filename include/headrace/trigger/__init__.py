"""The API of triggers that users write: a `Trigger` is called with the rows of each write to the series that it is for.

Names follow IoTDB's Java API in Python's spelling, so that a Java trigger is ported line by line. This package is all that triggers
import; it depends on Arrow alone, and is loaded in code hosts without the rest of Headrace.
"""

from headrace.trigger.alert_manager import (
    AlertManagerConfiguration,
    AlertManagerError,
    AlertManagerEvent,
    AlertManagerHandler,
)
from headrace.trigger.attributes import TriggerAttributes
from headrace.trigger.store import StoreFullError, TriggerStore
from headrace.trigger.tablet import MeasurementSchema, Tablet, TabletRow
from headrace.trigger.trigger import FailureStrategy, Insertion, Trigger
from headrace.udf.bit_maps import BitMap
from headrace.udf.parameters import ParameterError
from headrace.udf.types import Type

__all__ = [
    "AlertManagerConfiguration",
    "AlertManagerError",
    "AlertManagerEvent",
    "AlertManagerHandler",
    "BitMap",
    "FailureStrategy",
    "Insertion",
    "MeasurementSchema",
    "ParameterError",
    "StoreFullError",
    "Tablet",
    "TabletRow",
    "Trigger",
    "TriggerAttributes",
    "TriggerStore",
    "Type",
]
