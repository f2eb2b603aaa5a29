"""Events of OpenLineage: a report of a run with the facets of the run, its job and its datasets."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent
from openlineage.client.event_v2 import RunState as EventType
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    nominal_time_run,
    output_statistics_output_dataset,
    ownership_job,
    parent_run,
    processing_engine_run,
    sql_job,
)
from openlineage.client.uuid import generate_static_uuid

from headrace.model.jobs import JobDefinition
from headrace.model.masking import masked
from headrace.model.run_reports import BACKFILL, RunReport
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.openlineage import configuration
from headrace.runtime.openlineage.datasets import JobDatasets

INTEGRATION: Final = "HEADRACE"
Parent = tuple[str, str, str]
"""Namespace, job and id of a run."""


def run_event(report: RunReport, datasets: JobDatasets, at_ms: int) -> RunEvent:
    """Return the event of a report that was made at an instant in epoch milliseconds."""
    space = configuration.namespace()
    return RunEvent(
        eventTime=instant(at_ms),
        producer=configuration.producer(),
        eventType=EventType(report.state.value),
        run=Run(runId=run_id(report), facets=run_facets(report)),
        job=Job(namespace=space, name=job_name(report.definition, report.part), facets=job_facets(report)),
        inputs=[
            InputDataset(namespace=one.namespace, name=one.name, facets=one.facets, inputFacets=input_facets(report))
            for one in datasets.inputs
        ],
        outputs=[
            OutputDataset(namespace=one.namespace, name=one.name, facets=one.facets, outputFacets=output_facets(report))
            for one in datasets.outputs
        ],
    )


def instant(ms: int) -> str:
    """Return an instant in epoch milliseconds as ISO 8601."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_name(definition: JobDefinition, part: str = "") -> str:
    """Return the name of a job, such as `stream.power.avg_v`; that of its backfills follows it."""
    return ".".join(filter(None, (definition.kind.replace(" ", "_"), str(definition), part)))


def run_id(report: RunReport) -> str:
    """Return the id of a run: the same in all of its events, whichever process sends them."""
    key = f"{report.definition.id}/{report.part}/{report.run}".encode()
    return str(generate_static_uuid(datetime.fromtimestamp(report.started / 1000, UTC), key))


def run_facets(report: RunReport) -> dict[str, RunFacet]:
    facets: dict[str, RunFacet] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=version("pyspark"), name="spark", openlineageAdapterVersion=version("headrace")
        )
    }
    if report.range is not None:
        first, end = map(instant, report.range)
        facets["nominalTime"] = nominal_time_run.NominalTimeRunFacet(nominalStartTime=first, nominalEndTime=end)
    if report.error is not None:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=report.error, programmingLanguage="PYTHON")
    parent = configuration.parent_run()
    if parent is not None:
        facets["parent"] = parent_facet(parent)
    return facets


def parent_facet(parent: Parent) -> parent_run.ParentRunFacet:
    """Return the run in which this process runs."""
    space, name, run = parent
    return parent_run.ParentRunFacet(run=parent_run.Run(runId=run), job=parent_run.Job(namespace=space, name=name))


def job_facets(report: RunReport) -> dict[str, JobFacet]:
    definition = report.definition
    is_batch = report.part == BACKFILL or definition.kind == CONTINUOUS_QUERY
    facets: dict[str, JobFacet] = {
        "sql": sql_job.SQLJobFacet(query=masked(definition.sql), dialect=definition.dialect),
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="BATCH" if is_batch else "STREAMING",
            integration=INTEGRATION,
            jobType=(report.part or definition.kind).replace(" ", "_").upper(),
        ),
    }
    if definition.owner:
        owner = ownership_job.Owner(name=f"user:{definition.owner}", type="OWNER")
        facets["ownership"] = ownership_job.OwnershipJobFacet(owners=[owner])
    return facets


def input_facets(report: RunReport) -> dict[str, InputDatasetFacet]:
    if report.rows_in is None:
        return {}
    return {"inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=report.rows_in)}


def output_facets(report: RunReport) -> dict[str, OutputDatasetFacet]:
    if report.rows_out is None:
        return {}
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=report.rows_out, size=report.bytes_out
    )
    return {"outputStatistics": statistics}
