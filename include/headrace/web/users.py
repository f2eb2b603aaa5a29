"""Users of the page: an Airflow user is a user of Headrace, once the catalog has users."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Request

from headrace.catalog import Catalog
from headrace.errors import AuthenticationError, NotFoundError, PermissionDeniedError
from headrace.model.access import Permissions, Principal, Privilege, administrator
from headrace.model.jobs import JobRecord
from headrace.model.page_users import ANYBODY, parse_page_users
from headrace.runtime.dag_ids import record_dag_id, snode_dag_id
from headrace.runtime.trigger_metrics import CountedTriggers
from headrace.service.authentication import taken_on_trust
from headrace.service.visible_rows import as_seen, reads_values, sees_job, trigger_as_seen
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.web.access import Access


def headrace_user(settings: Settings, airflow_user: str) -> str:
    """Return the Headrace user of an Airflow user: the one that the setting names, or the one of the same name."""
    users = parse_page_users(settings.page_users)
    return users.get(airflow_user, users.get(ANYBODY, airflow_user))


@dataclass(frozen=True, slots=True)
class StatementRights:
    """As whom a statement of the page is run, and the snodes that may run it."""

    principal: Principal
    snodes: frozenset[str]


class MappedAccess:
    """Rights of Airflow, and of these what the user's Headrace user has. The catalog is read only if it has users."""

    def __init__(self, access: Access, settings: Settings, catalog: Callable[[], Catalog]) -> None:
        """Create it; `catalog` opens the catalog on first use."""
        self._access, self._settings, self._catalog = access, settings, catalog

    async def authenticate(self, request: Request) -> Any:
        """Return Airflow's user of a request."""
        return await self._access.authenticate(request)

    def user_name(self, user: Any) -> str:
        return self._access.user_name(user)

    def readable_dags(self, user: Any, dag_ids: set[str]) -> set[str]:
        return self._access.readable_dags(user, dag_ids)

    def can_edit(self, user: Any, dag_id: str) -> bool:
        return self._access.can_edit(user, dag_id)

    def can_delete(self, user: Any, dag_id: str) -> bool:
        return self._access.can_delete(user, dag_id)

    @property
    def base_url(self) -> str:
        return self._access.base_url

    def reads_table(self, user: Any, database: str, table: str) -> bool:
        """Return whether a user may read all rows of a table, as far as the catalog has users."""
        permissions = self._permissions(user)
        return permissions is None or permissions.allows_table(Privilege.READ_TABLE, database, table)

    def readable_jobs(self, user: Any, records: Collection[JobRecord]) -> list[JobRecord]:
        """Return the jobs that a user may see, as the user sees them."""
        dag_ids = {record.definition.id: record_dag_id(record) for record in records}
        readable = self.readable_dags(user, set(dag_ids.values()))
        own = [record for record in records if dag_ids[record.definition.id] in readable]
        permissions = self._permissions(user)
        if permissions is None:
            return own
        catalog = self._catalog()
        return [as_seen(permissions, record, catalog) for record in own if sees_job(permissions, record.definition)]

    def unread_jobs(self, user: Any, records: Iterable[JobRecord]) -> frozenset[str]:
        """Return the ids of those jobs that read what a user may not read, and whose errors may quote it."""
        permissions, catalog = self._permissions(user), self._catalog()
        if permissions is None:
            return frozenset()
        jobs = [record.definition for record in records]
        return frozenset(job.id for job in jobs if not reads_values(permissions, job, catalog))

    def visible_triggers(self, user: Any, triggers: CountedTriggers) -> CountedTriggers:
        """Return the triggers that a user may see, as the user sees them."""
        permissions = self._permissions(user)
        if permissions is None:
            return triggers
        return [trigger_as_seen(permissions, *one) for one in triggers] if permissions.allows(Privilege.USE_TRIGGER) else ()

    def permissions(self, user: Any) -> Permissions:
        """Return what the Headrace user may do: everything if the catalog has no users."""
        permissions = self._permissions(user)
        return administrator(self.user_name(user)) if permissions is None else permissions

    def statement_rights(self, user: Any, *, changes: bool) -> StatementRights:
        """Return whose rights apply to a user's statement, and which snodes may run it: those whose DAG the user may read.

        For a statement that changes something it is those whose DAG the user may edit, and for all as long as the catalog has no
        users, since then there are no grants to go by.

        Raises:
            AuthenticationError: The user has no Headrace user.
            PermissionDeniedError: There are no such snodes.
        """
        catalog, airflow_user = self._catalog(), self.user_name(user)
        has_users = catalog.access.has_users()
        snodes = {snode_dag_id(name): name for name in self._settings.own_snodes}
        needs_edit = changes or not has_users
        allowed = {dag for dag in snodes if self.can_edit(user, dag)} if needs_edit else self.readable_dags(user, set(snodes))
        if not allowed:
            raise PermissionDeniedError(
                f"this needs the right to {'edit' if needs_edit else 'read'} the DAG of an snode",
                hint=f"an administrator of Airflow can give it: {', '.join(snodes)}",
            )
        names = frozenset(snodes[dag] for dag in allowed)
        return StatementRights(page_principal(catalog, self._settings, airflow_user), names)

    def _permissions(self, user: Any) -> Permissions | None:
        """Return what the Headrace user may do; None if the catalog has no users."""
        catalog = self._catalog()
        if not catalog.access.has_users():
            return None
        name = headrace_user(self._settings, self.user_name(user))
        try:
            return catalog.access.permissions(name)
        except NotFoundError:
            return Permissions(name)


def service_executor(settings: Settings) -> Callable[[str, str, str], None]:
    """Return what runs a statement in a dialect for an Airflow user, with the rights of that user's Headrace user."""

    def execute(sql: str, dialect: str, airflow_user: str) -> None:
        from headrace.service.connecting import connect

        with Catalog.open(settings.catalog) as catalog:
            principal = page_principal(catalog, settings, airflow_user)
            with connect(settings=settings, dialect=dialect, principal=principal) as connection:
                connection.execute(sql)

    return execute


def page_principal(catalog: Catalog, settings: Settings, airflow_user: str) -> Principal:
    """Return as whom an Airflow user acts: under their own name until there are users, then as their Headrace user.

    Raises:
        AuthenticationError: There is none of that name.
    """
    origin = f"page {airflow_user}"
    principal = taken_on_trust(catalog, airflow_user, origin)
    if principal.is_trusted:
        return principal
    name = headrace_user(settings, airflow_user)
    try:
        catalog.access.permissions(name)
    except NotFoundError:
        hint = f"create the user {name}, or name another one for {airflow_user} by HEADRACE_PAGE_USERS"
        raise AuthenticationError(f"{name} is no user of Headrace", hint=hint) from None
    return Principal.named(name, origin)
