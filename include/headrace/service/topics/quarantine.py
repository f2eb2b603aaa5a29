"""REPLAY and DROP QUARANTINE."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.quarantine import QuarantineRequest
from headrace.model.statements import DropQuarantine, ReplayStream
from headrace.service.names import find_stream
from headrace.service.results import Result
from headrace.service.rights import Action
from headrace.service.stage import JobStage, Stage
from headrace.service.state import PlanningContext, SessionState


@dataclass(frozen=True, slots=True)
class RequestQuarantine(JobStage):
    """Have a stream do something with its rows in quarantine. `rows` is their number when it was planned."""

    action = Action.OPERATE
    rows: int
    request: QuarantineRequest

    def describe(self) -> list[str]:
        rows = f"{self.rows} rows in quarantine of stream {self.record.definition}"
        if self.request is QuarantineRequest.REPLAY:
            return [f"process {rows} again"]
        return [f"drop {rows}: its results leave them out for good"]

    def apply(self, session: SessionState) -> Result:
        """Ask the stream's driver, which does it as a micro-batch of its own; `affected` is the number of rows."""
        context = session.context
        if self.rows:
            context.catalog.quarantine.request(self.record.definition.id, self.request, context.clock.now())
        return Result(affected=self.rows)


def plan_replay_stream(statement: ReplayStream, session: PlanningContext) -> list[Stage]:
    """Plan REPLAY QUARANTINE: have the rows in quarantine processed again."""
    return request_quarantine(statement, QuarantineRequest.REPLAY, session)


def plan_drop_quarantine(statement: DropQuarantine, session: PlanningContext) -> list[Stage]:
    """Plan DROP QUARANTINE: have the rows in quarantine left out for good."""
    return request_quarantine(statement, QuarantineRequest.DROP, session)


def request_quarantine(
    statement: ReplayStream | DropQuarantine, request: QuarantineRequest, session: PlanningContext
) -> list[Stage]:
    """Plan a request to a stream about its rows in quarantine. One that does not run serves it when it is resumed."""
    record = find_stream(statement.name, session, statement.if_exists)
    if record is None:
        return []
    rows = session.context.catalog.quarantine.counts().get(record.definition.id, 0)
    return [RequestQuarantine(record, rows, request)]
