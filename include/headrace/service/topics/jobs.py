"""Jobs of every kind: drop, pause and resume them, and notify Airflow of them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.jobs.registry import kind_of
from headrace.model.jobs import DesiredState, JobRecord, JobState, job_name
from headrace.service.results import Result
from headrace.service.rights import Action, Right, Securable
from headrace.service.stage import DONE, JobStage, Stage
from headrace.service.state import SessionState


@dataclass(frozen=True, slots=True)
class NotifyAirflow(Stage):
    """Notify Airflow, if one can be reached, that a job was created, dropped or resumed."""

    kind: str
    database: str
    name: str
    resumed: bool = False

    @property
    def required(self) -> tuple[Right, ...]:
        return (Right(Action.DESCRIBE, Securable(self.kind, self.database, self.name)),)

    def describe(self) -> list[str]:
        return [f"notify Airflow, if it can be reached, of {self.kind} {job_name(self.database, self.name)}"]

    def apply(self, session: SessionState) -> Result:
        from headrace.runtime.airflow import AirflowClient  # imports an HTTP client, which only changes of jobs need
        from headrace.runtime.dag_ids import job_dag_id

        client = AirflowClient.find(session.context.settings)
        if client is not None:
            with client:
                client.announce()
                if self.resumed:
                    client.supervise(job_dag_id(self.kind, self.database, self.name))
        return DONE


@dataclass(frozen=True, slots=True)
class RemoveJob(JobStage):
    """Drop a job; what it has written stays."""

    action = Action.DROP

    def describe(self) -> list[str]:
        definition = self.record.definition
        target = "what it has written" if definition.target is None else definition.target
        return [f"drop {definition.kind} {definition}; {target} stays"]

    def apply(self, session: SessionState) -> Result:
        job = self.record.definition
        kind_of(job).drop()(session.context, job)
        return DONE


@dataclass(frozen=True, slots=True)
class SuspendJob(JobStage):
    """Pause a job."""

    action = Action.OPERATE

    def describe(self) -> list[str]:
        definition = self.record.definition
        return [f"pause {definition.kind} {definition}"]

    def apply(self, session: SessionState) -> Result:
        """Ask for the pause, which happens at once if no process has to end work of the job first."""
        job = self.record.definition
        session.context.catalog.jobs.set_desired(job.id, DesiredState.PAUSED)
        if kind_of(job).pauses_at_once and self.record.state is JobState.RUNNING:
            session.context.catalog.jobs.set_state(job.id, JobState.PAUSED)
        return DONE


@dataclass(frozen=True, slots=True)
class ReactivateJob(JobStage):
    """Resume a job; a stream with `ignore_untreated` from the end of its sources."""

    action = Action.OPERATE
    ignore_untreated: bool = False

    def describe(self) -> list[str]:
        definition = self.record.definition
        catch_up = "skipping rows written meanwhile" if self.ignore_untreated else kind_of(definition).resumption
        return [f"resume {definition.kind} {definition}, {catch_up}"]

    def apply(self, session: SessionState) -> Result:
        """Resume at the last committed offsets, or with the backfill if the history is not complete."""
        context, record = session.context, self.record
        if self.ignore_untreated:
            from headrace.streams.definition.define import plan_recorded_stream
            from headrace.streams.lifecycle import skip

            skip(context, plan_recorded_stream(record.definition, context.catalog))
        is_at_once = kind_of(record.definition).pauses_at_once
        if record.state is JobState.STOPPED or (is_at_once and record.state is JobState.PAUSED):
            context.catalog.jobs.set_state(record.definition.id, record.resumed_state)
        context.catalog.jobs.set_desired(record.definition.id, DesiredState.RUNNING)
        return DONE


def notify(record: JobRecord, *, resumed: bool = False) -> NotifyAirflow:
    definition = record.definition
    return NotifyAirflow(definition.kind, definition.database, definition.name, resumed)
