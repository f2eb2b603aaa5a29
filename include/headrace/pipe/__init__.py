"""The API of pipe plugins that users write: a `PipeSource`, a `PipeProcessor` or a `PipeSink`.

Names follow IoTDB's Java API in Python's spelling, so that a Java plugin is ported line by line. This package is all that plugins
import; it depends on Arrow alone, and is loaded in code hosts without the rest of Headrace.
"""

from headrace.pipe.batches import TabletBatch
from headrace.pipe.collector import EventCollector
from headrace.pipe.events import DeleteEvent, Event, SchemaEvent, TabletEvent
from headrace.pipe.parameters import ParameterValidator, PipeParameters
from headrace.pipe.plugins import PipePlugin, PipeProcessor, PipeRuntime, PipeSink, PipeSource
from headrace.pipe.rows import Row, RowCollector
from headrace.pipe.store import PipeStore
from headrace.trigger.store import StoreFullError
from headrace.trigger.tablet import MeasurementSchema, TabletRow
from headrace.udf.bit_maps import BitMap
from headrace.udf.parameters import ParameterError
from headrace.udf.types import Type

__all__ = [
    "BitMap",
    "DeleteEvent",
    "Event",
    "EventCollector",
    "MeasurementSchema",
    "ParameterError",
    "ParameterValidator",
    "PipeParameters",
    "PipePlugin",
    "PipeProcessor",
    "PipeRuntime",
    "PipeSink",
    "PipeSource",
    "PipeStore",
    "Row",
    "RowCollector",
    "SchemaEvent",
    "StoreFullError",
    "TabletBatch",
    "TabletEvent",
    "TabletRow",
    "Type",
]
