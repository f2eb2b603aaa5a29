"""Jobs of every kind: drop, pause and resume them, and notify Airflow of them."""

from __future__ import annotations

from headrace.context import Context
from headrace.jobs.needs import needs_of
from headrace.jobs.registry import kind_of
from headrace.model.job_parts import parts_of
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.service.results import Result
from headrace.service.rights import Action, Right, Securable, need_rights, on_job
from headrace.service.stage import SessionState, Stage
from headrace.settings import Settings


def needed_rights(job: JobDefinition, context: Context) -> tuple[Right, ...]:
    """Return the rights that a user needs who creates or changes a job, beside that on the job itself.

    Raises:
        EgressDeniedError: The job reaches what the settings do not allow.
    """
    needs = needs_of(context.catalog, job)
    for endpoint in needs.endpoints:
        context.egress.check(endpoint)
    rights = need_rights(needs)
    return tuple(right for right in rights if right.action is not kind_of(job).privilege)


def notify_airflow(job: Securable, *, resumed: bool = False, dropped: bool = False) -> Stage:
    """Notify Airflow, if it can be reached, that a job was created, dropped or resumed; note if no snode is there to run it."""

    def apply(session: SessionState) -> Result:
        from headrace.runtime.airflow import AirflowClient  # imports an HTTP client, which only changes of jobs need
        from headrace.runtime.dag_ids import job_dag_id

        client = AirflowClient.find(session.context.settings)
        if client is not None:
            with client:
                client.announce()
                if resumed:
                    client.supervise(job_dag_id(job.kind, job.database, job.name))
        return Result(note="" if dropped or is_any_snode_live(session.context) else waiting_note(job, session.context.settings))

    return Stage((Right(Action.DESCRIBE, job),), lambda: [f"notify Airflow, if it can be reached, of {job}"], apply)


def waiting_note(job: Securable, settings: Settings) -> str:
    """Say what starts an snode: the DAG of an Airflow that the user has, or else Headrace's own Airflow."""
    from headrace.runtime.dag_ids import snode_dag_id

    starter = f"the DAG {snode_dag_id(settings.snode)}" if settings.airflow_url else "`headrace up`"
    return f"OK; the {job.kind} waits for an snode: {starter} starts one, `headrace settle` does its work once"


def is_any_snode_live(context: Context) -> bool:
    """Return whether a driver holds the lease of one of the settings' snodes."""
    now, leases = context.catalog.now(), map(context.catalog.leases.get, context.settings.own_snodes)
    return any(lease is not None and lease.is_valid(now) for lease in leases)


def remove_job(job: JobDefinition) -> Stage:
    """Drop a job; what it has written stays."""
    described = f"drop {job.kind} {job}; {job.target or 'what it has written'} stays"
    return Stage(on_job(Action.DROP, job), lambda: [described], lambda session: kind_of(job).drop()(session.context, job))


def suspend_job(record: JobRecord) -> Stage:
    """Pause a job: ask for the pause, which happens at once if no process has to end work of the job first."""
    job = record.definition

    def apply(session: SessionState) -> None:
        session.context.catalog.jobs.set_desired(job.id, DesiredState.PAUSED)
        if record.desired is not DesiredState.PAUSED:
            record_event(session, job, "PAUSED")
        if kind_of(job).is_scheduled and record.state is JobState.RUNNING:
            session.context.catalog.jobs.set_state(job.id, JobState.PAUSED)

    return Stage(on_job(Action.OPERATE, job), lambda: [f"pause {job.kind} {job}"], apply)


def reactivate_job(record: JobRecord, *, ignore_untreated: bool = False) -> Stage:
    """Resume a job at the last committed offsets (a stream with `ignore_untreated` from the end of its sources).

    If its history is not complete, it continues with the backfill.
    """
    job = record.definition

    def apply(session: SessionState) -> None:
        context = session.context
        if ignore_untreated:
            from headrace.streams.definition.define import plan_recorded_stream
            from headrace.streams.lifecycle import skip

            skip(context, plan_recorded_stream(job, context.catalog, context.settings))
        is_at_once = kind_of(job).is_scheduled
        for part in parts_of(record):
            if part.state is JobState.STOPPED or (is_at_once and part.state is JobState.PAUSED):
                context.catalog.jobs.set_state(part.definition.id, part.resumed_state)
        context.catalog.jobs.set_desired(job.id, DesiredState.RUNNING)
        if record.desired is DesiredState.PAUSED or record.state is JobState.STOPPED:
            record_event(session, job, "RESUMED")

    def describe() -> list[str]:
        catch_up = "skipping rows written meanwhile" if ignore_untreated else kind_of(job).resumption
        return [f"resume {job.kind} {job}, {catch_up}"]

    return Stage(on_job(Action.OPERATE, job), describe, apply)


def record_event(session: SessionState, job: JobDefinition, kind: str) -> None:
    """Record what the user of a session did to a job."""
    user = session.context.user
    session.context.catalog.events.record("job", job.id, kind, f"by {user}" if user else "")
