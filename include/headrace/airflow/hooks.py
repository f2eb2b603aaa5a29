"""The hook for connections of the type `headrace`, which the SQL operators of Airflow's common provider use too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk.exceptions import AirflowNotFoundException

from headrace.settings import Settings, current

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from airflow.sdk import Connection as AirflowConnection

    from headrace.service.connection import Connection

DEFAULT_CONNECTION: Final = "headrace_default"
DEFAULT_PORT: Final = int(Settings.fields["flight_port"].default)


class HeadraceHook(DbApiHook):
    """Runs statements at an snode, or in this process on a home.

    Fields of the connection: with a `host`, statements are sent to the door `flight` of an snode there (`port`, `login`,
    `password`; `schema` is the current database). Without one, they run in this process on the home that the extra `home` or the
    setting `HEADRACE_HOME` names, which takes access to its catalog and files. A connection `headrace_default` that does not
    exist means the latter.

    Extras: `dialect` (`tdengine` or `iotdb`), `tls` (true; false sends the password in clear text) and `home`.
    """

    conn_name_attr = "headrace_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "headrace"
    hook_name = "Headrace"
    supports_autocommit = False
    strip_semicolon = True
    _placeholder = "?"
    _test_connection_sql = "SHOW DATABASES"

    def __init__(self, *args: Any, dialect: str | None = None, database: str | None = None, **kwargs: Any) -> None:
        """Create the hook.

        Args:
            args: At most one: the id of the connection.
            dialect: Language of the statements; by default, as the connection says.
            database: Current database; by default, as the connection says.
            kwargs: `headrace_conn_id`, and what `DbApiHook` takes.
        """
        super().__init__(*args, **kwargs)
        self.language, self.database = dialect, database

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return how Airflow shows the form of a connection."""
        from headrace.airflow.provider import FIELDS

        return FIELDS

    @property
    def is_remote(self) -> bool:
        """Whether statements are sent to an snode."""
        connection = self.find_connection()
        return connection is not None and bool(connection.host)

    def find_connection(self) -> AirflowConnection | None:
        """Return Airflow's connection; None if it is the default one and does not exist."""
        try:
            return self.connection
        except AirflowNotFoundException:
            if self.get_conn_id() != DEFAULT_CONNECTION:
                raise
            return None

    def get_conn(self) -> Connection:
        """Connect.

        Raises:
            Error: See `headrace.connect`.
        """
        import headrace

        connection = self.find_connection()
        if connection is None:
            return headrace.connect(dialect=self.language, database=self.database)
        extra = connection.extra_dejson
        return headrace.connect(
            address_of(connection) if connection.host else extra.get("home"),
            dialect=self.language or extra.get("dialect"),
            database=self.database or connection.schema or None,
            user=connection.login or None,
            password=connection.password or None,
        )

    def get_arrow(self, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
        """Run a query, and return its rows as Arrow."""
        with closing(self.get_conn()) as connection:
            return connection.execute(sql, parameters).fetch_arrow_table()

    def get_autocommit(self, conn: Any) -> bool:  # noqa: ARG002
        """Return True: every statement commits on its own."""
        return True

    def split_sql_string(self, sql: str, strip_semicolon: bool = False) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        """Return the statements of a script, by the rules of the connection's dialect."""
        from headrace.sql import lexical_rules_of

        return lexical_rules_of(self.dialect_name).statements(sql)

    @property
    def dialect_name(self) -> str:
        """The language of the statements."""
        connection = self.find_connection()
        extra = {} if connection is None else connection.extra_dejson
        return str(self.language or extra.get("dialect") or current().dialect)

    def _get_pandas_df(self, sql: Any, parameters: Any = None, **_: Any) -> pd.DataFrame:
        frame: pd.DataFrame = self.get_arrow(sql, parameters).to_pandas()
        return frame

    def _get_polars_df(self, sql: Any, parameters: Any = None, **_: Any) -> pl.DataFrame:
        import polars as pl

        frame = pl.from_arrow(self.get_arrow(sql, parameters))
        assert isinstance(frame, pl.DataFrame)
        return frame


def address_of(connection: AirflowConnection) -> str:
    """Return the address of the door `flight` that a connection names."""
    tls = str(connection.extra_dejson.get("tls", True)).lower() not in ("false", "0", "no")
    return f"{'grpc+tls' if tls else 'grpc'}://{connection.host}:{connection.port or DEFAULT_PORT}"
