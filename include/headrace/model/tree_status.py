"""IoTDB's status codes for statements that change trees."""

from __future__ import annotations

from enum import IntEnum


class TreeStatus(IntEnum):
    """Status codes by IoTDB's names."""

    INTERNAL_SERVER_ERROR = 305
    DATABASE_NOT_EXIST = 500
    METADATA_ERROR = 507
    PATH_NOT_EXIST = 508
    ILLEGAL_PATH = 509
    CREATE_TEMPLATE_ERROR = 510
    TEMPLATE_NOT_SET = 513
    TEMPLATE_IS_IN_USE = 515
    TEMPLATE_INCOMPATIBLE = 516
    TEMPLATE_NOT_ACTIVATED = 524
    MEASUREMENT_ALREADY_EXISTS_IN_TEMPLATE = 527
    ALIGNED_TIMESERIES_ERROR = 609
    NO_SUCH_CQ = 1400
    CQ_ALREADY_EXIST = 1402
