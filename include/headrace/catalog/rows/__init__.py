"""The tables of the catalog database, one file each, with conversions between rows and the model."""

from headrace.catalog.rows.chunks import CHUNKS
from headrace.catalog.rows.column_references import COLUMN_REFERENCES
from headrace.catalog.rows.databases import DATABASES
from headrace.catalog.rows.dropped_queries import DROPPED_QUERIES
from headrace.catalog.rows.events import EVENTS
from headrace.catalog.rows.executions import EXECUTIONS
from headrace.catalog.rows.functions import FUNCTIONS
from headrace.catalog.rows.jobs import JOBS
from headrace.catalog.rows.leases import LEASES
from headrace.catalog.rows.members import MEMBERS
from headrace.catalog.rows.quarantine import QUARANTINE
from headrace.catalog.rows.snodes import SNODES
from headrace.catalog.rows.stream_metrics import STREAM_METRICS
from headrace.catalog.rows.subtables import SUBTABLES
from headrace.catalog.rows.tables import TABLES
from headrace.catalog.rows.trees import DEVICE_SCHEMAS, DEVICE_TEMPLATES, DEVICES, TEMPLATE_PATHS, TTLS

__all__ = [
    "CHUNKS",
    "COLUMN_REFERENCES",
    "DATABASES",
    "DEVICES",
    "DEVICE_SCHEMAS",
    "DEVICE_TEMPLATES",
    "DROPPED_QUERIES",
    "EVENTS",
    "EXECUTIONS",
    "FUNCTIONS",
    "JOBS",
    "LEASES",
    "MEMBERS",
    "QUARANTINE",
    "SNODES",
    "STREAM_METRICS",
    "SUBTABLES",
    "TABLES",
    "TEMPLATE_PATHS",
    "TTLS",
]
