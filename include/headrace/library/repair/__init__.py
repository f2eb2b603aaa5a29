"""Data repairing: regular times, missing values, and values that change too fast."""

from __future__ import annotations

from typing import Final

from headrace.library.repair.filling import ValueFill
from headrace.library.repair.timestamps import TimestampRepair
from headrace.library.repair.values import ValueRepair

FUNCTIONS: Final = {
    "UDTFTimestampRepair": TimestampRepair,
    "UDTFValueFill": ValueFill,
    "UDTFValueRepair": ValueRepair,
}
"""The functions by the class names of IoTDB's library."""
