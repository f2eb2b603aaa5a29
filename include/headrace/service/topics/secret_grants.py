"""Grants of secrets: whose pipes may use a password that only the drivers know."""

from __future__ import annotations

from headrace import secrets
from headrace.errors import ProgrammingError
from headrace.model.access import ADMINISTRATOR, Grant, Privilege, secret_target
from headrace.model.access_statements import GrantSecret
from headrace.service.rights import ADMINISTER
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.access import change, describe_grants, refuse_administrator


def plan_grant_secret(statement: GrantSecret, session: PlanningContext) -> list[Stage]:
    """Plan GRANT and REVOKE of a secret, which only the administrator may. Whether there is such a secret, only drivers know."""
    reference, grantee = statement.reference, statement.grantee
    if not secrets.is_reference(reference):
        hint = "write 'secret:NAME' or 'airflow:ID', as in the attributes of a pipe"
        raise ProgrammingError(f"{reference} does not refer to a secret", hint=hint, span=statement.span)
    secrets.check_references({"": reference}, ("",))
    if grantee.name == ADMINISTRATOR:
        refuse_administrator(grantee.name, "granted anything: that user may do everything")
    session.context.catalog.access.check_exists(grantee)
    grants = [Grant(Privilege.USE_SECRET, secret_target(reference))]

    def apply(session: SessionState) -> None:
        access = session.context.catalog.access
        (access.revoke if statement.revoke else access.grant)(grantee, grants)

    verb, word = ("revoke", "from") if statement.revoke else ("grant", "to")
    return [change(describe_grants(verb, grants, f"{word} {grantee}"), apply, ADMINISTER)]
