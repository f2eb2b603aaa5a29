"""Settings: defaults, environment names (`HEADRACE_…`), and where each value came from."""

from __future__ import annotations

import functools
import getpass
import os
from pathlib import Path
from typing import Any, Final, Literal

from headrace.errors import ConfigurationError
from headrace.model.addresses import parse_doors, parse_networks
from headrace.model.dag_options import parse_dag_options
from headrace.model.egress import parse_locations, parse_rules
from headrace.model.masking import mask_secrets
from headrace.model.page_users import parse_page_users
from headrace.model.setting_fields import (
    PREFIX,
    FieldValues,
    Secret,
    environment_values,
    find_project,
    non_negative,
    positive,
    setting,
)
from headrace.model.snodes import MAX_LEASE_MS
from headrace.model.spark_options import check_java_options, check_metastore, mask_options, parse_spark_options
from headrace.model.streams import MAX_STREAMS_PER_DATABASE
from headrace.model.tables import HISTORY_HOURS

MEMORY_PATTERN: Final = r"^\d+[kmgtKMGT]$"
MAY_HAVE_SECRETS: Final = frozenset(
    {"airflow_database_url", "catalog_url", "driver_java_options", "metastore", "secret_key", "spark_options"}
)
"""Settings whose invalid values are not shown."""


class Settings(FieldValues):
    """All settings of a process, which nothing changes. `docs/reference/settings.md` is generated from the fields' descriptions."""

    home: Path = setting(Path(".headrace"), "Home folder of the default setup: catalog, tables, state, Airflow's home, logs.")
    user: str = setting("", "User name for rights and events; if empty, the login of the operating system.")
    password: Secret = setting(Secret(), "Password of `user`, once the catalog has users.")
    auth: Literal["auto", "required"] = setting(
        "auto",
        "Whether Python and the command line need a user: `auto` lets in who may read the home's files, as "
        "administrator; `required` does not.",
        choices=("auto", "required"),
    )
    catalog_url: str = setting("", "SQLAlchemy URL of the catalog database; if empty, SQLite in the home folder.")
    warehouse: str = setting("", "URI of the folder for Delta tables; if empty, the home folder.")
    s3_endpoint: str = setting(
        "", "URL of the S3 service of a warehouse `s3://bucket/folder`; if empty, that of AWS.", pattern="^(https?://.+)?$"
    )
    s3_region: str = setting("", "Region of the S3 service; if empty, `AWS_REGION`, or us-east-1.")
    s3_access_key_id: str = setting(
        "",
        "Access key of the S3 service; if empty, credentials of the environment (`AWS_ACCESS_KEY_ID`, …) or the machine's role.",
    )
    s3_secret_access_key: Secret = setting(Secret(), "Secret key that belongs to `s3_access_key_id`.")
    dialect: str = setting("tdengine", "SQL dialect of statements, `tdengine` or `iotdb`.")
    timezone: str = setting("UTC", "Time zone of databases created without `TIMEZONE`.")
    snode: str = setting("default", "Snode that runs the streams created with this setting.")
    spark_master: str = setting("local[*]", "Spark master for drivers.")
    driver_memory: str = setting("3g", "Heap size of a Spark driver.", pattern=MEMORY_PATTERN)
    task_driver_memory: str = setting(
        "",
        "Heap size of the drivers of backfill chunks and of continuous queries in Airflow; if empty, `driver_memory`.",
        pattern=f"{MEMORY_PATTERN}|^$",
    )
    snode_cores: int = positive(
        2,
        "Maximum cores of a standalone Spark cluster that an snode uses; without one, none would be left for backfills.",
    )
    task_cores: int = positive(
        2,
        "The same for every other driver: of a backfill chunk, of a continuous query in Airflow, or of a client.",
    )
    snode_executor_memory: str = setting("1g", "Heap size of an snode's executors on a cluster.", pattern=MEMORY_PATTERN)
    task_executor_memory: str = setting(
        "1g", "Heap size of the executors of every other driver on a cluster.", pattern=MEMORY_PATTERN
    )
    executor_cores: int = non_negative(
        0, "Number of cores of an executor on a cluster; 0 for the cluster's default, which is all of a worker."
    )
    spark_options: str = setting(
        "",
        "Further Spark options for all drivers: `spark.name=value`, separated by spaces; quote values with spaces. "
        "Those that Headrace sets are rejected.",
        parse=parse_spark_options,
    )
    driver_java_options: str = setting(
        "",
        "Further options of the JVM of every driver, such as `-XX:+UseParallelGC`.",
        parse=check_java_options,
    )
    spark_secret: Secret = setting(
        Secret(),
        "Secret of a Spark cluster whose parts authenticate each other and encrypt messages (`_SPARK_AUTH_SECRET` of "
        "master and workers, with `spark.authenticate` and `spark.network.crypto.enabled`).",
    )
    task_timeout_s: int = positive(
        21_600,
        "Seconds after which Airflow ends and retries a task that computes a backfill chunk or executes a continuous query.",
    )
    shuffle_partitions: int = positive(2, "Number of shuffle partitions in a micro-batch.")
    batch_rows: int = positive(1_000_000, "Maximum number of source rows in a micro-batch, unless a single commit has more.")
    driver_rows: int = non_negative(
        500_000, "Maximum number of rows of changes, state or results that go through the driver as Arrow; more stay in Spark."
    )
    wide_commit_rows: int = non_negative(
        50_000_000,
        "Commits of more new rows, or of more than two million windows, are computed by Spark's executors if each "
        "window has rows of one series only.",
    )
    kernels: Literal["auto", "always", "never"] = setting(
        "auto",
        "What turns rows into windows: `auto` is Arrow kernels where they can and the table is large, else Spark SQL;"
        " `never` is Spark SQL; `always` rejects plans that kernels do not know.",
        choices=("auto", "always", "never"),
    )
    max_ahead_s: int = non_negative(
        0,
        "Seconds by which rows may be ahead of the clock; later ones go to the quarantine of streams without "
        "`MAX_AHEAD`. 0 allows all.",
    )
    quarantine_rows: int = non_negative(100_000, "Maximum rows in the quarantine of a stream, which is STOPPED with more.")
    metrics_interval_s: int = non_negative(10, "Seconds between samples in `information_schema.ins_stream_metrics`; 0 for none.")
    metrics_keep_s: int = positive(
        604_800, "Seconds for which samples are kept: after two hours one for each minute, after a day one for each ten minutes."
    )
    streams_per_database: int = positive(MAX_STREAMS_PER_DATABASE, "Streams that may read the tables of one database.")
    poll_ms: int = positive(50, "Milliseconds between polls of a source for new versions.")
    object_store_poll_ms: int = positive(
        1_000, "Milliseconds between polls if the warehouse is an object store: each costs one request per source."
    )
    local_rows: int = non_negative(
        50_000_000,
        "Maximum number of rows that a query reads in the process that runs it, which takes milliseconds; queries over more "
        "rows, or with functions that only Spark has, run on Spark. Of tables, and of trees unless values are only selected or "
        "aggregated over `GROUP BY` time, at most 1,000,000 rows are read so; at most 50,000 if a function of texts is called for "
        "each. With 0, all queries run on Spark.",
    )
    library_max_steps: int = positive(
        10_000_000_000,
        "Maximum steps, of about a nanosecond, that a function of the library may take for one series or group, if "
        "its cost grows faster than the points.",
    )
    query_rows: int = non_negative(0, "Maximum number of rows in the result of a query that an snode runs; 0 for no limit.")
    query_bytes: int = non_negative(
        4 << 30,
        "Maximum size of such a result in Arrow's format, in bytes; 0 for no limit. More than 64 MiB are in a file in `TMPDIR`.",
    )
    query_timeout_s: int = non_negative(3_600, "Seconds after which an snode ends a query; 0 for no limit.")
    query_snode: str = setting(
        "",
        "Snode that runs no streams and answers queries, in a process of its own; if empty, that of `HEADRACE_SNODE`.",
    )
    heartbeat_ms: int = setting(1_000, "Milliseconds between heartbeats of an snode.", ge=100)
    slow_batch_ms: int = positive(
        120_000,
        "Milliseconds after which a running micro-batch is reported as slow.",
    )
    snodes_in_airflow: bool = setting(
        True,
        "Whether Airflow starts the drivers of snodes; if not, their DAGs are paused when they are created.",
    )
    lease_ms: int = setting(
        10_000, "Milliseconds after which a lease that was not renewed can be taken over.", ge=1_000, le=MAX_LEASE_MS
    )
    chunk_rows: int = positive(20_000_000, "Target number of rows in a backfill chunk.")
    resident_history_rows: int = non_negative(
        1_000_000,
        "Maximum rows of a source whose history the snode fills itself; tasks of Airflow fill larger ones, in chunks.",
    )
    small_write_rows: int = non_negative(
        100_000, "Maximum number of rows in a write that delta-rs commits; Spark commits larger writes."
    )
    keep_runs_days: int = positive(
        30,
        "Days after which ended runs are deleted from Airflow's database, with their logs, and ended backfills and "
        "expired tokens from the catalog.",
    )
    http_host: str = setting(
        "127.0.0.1",
        "Address that the snode's HTTP endpoint binds; 0.0.0.0 binds all interfaces, which needs TLS.",
    )
    http_without_tls: bool = setting(
        False,
        "Whether this endpoint does not encrypt, also at addresses beyond this machine, as in a private network or behind a proxy "
        "that encrypts.",
    )
    http_port: int = non_negative(
        0, "Port of the snode's HTTP endpoint; 0 selects a free port. The snode of dnode 2 has the next one, and so on.", le=65535
    )
    http_advertise: str = setting(
        "", "Host, or host:port, under which clients reach the endpoint; if empty, `http_host` or the machine's name."
    )
    http_token: Secret = setting(Secret(), "Bearer token of the snode's HTTP endpoint; if empty, each driver generates one.")
    http_read_token: Secret = setting(
        Secret(), "Bearer token for `/metrics` and the details of `/health` only; if empty, there is none."
    )
    doors: str = setting(
        "",
        "Protocols of other clients that snodes speak, separated by commas: `iotdb` (IoTDB's RPC), `tdengine` (TDengine's REST and "
        "schemaless writing), `flight` (Arrow Flight SQL).",
        parse=parse_doors,
    )
    door_host: str = setting("127.0.0.1", "Address that these doors bind; 0.0.0.0 binds all interfaces, which needs TLS.")
    iotdb_port: int = non_negative(6667, "Port of the door `iotdb`; 0 selects a free port.", le=65535)
    tdengine_port: int = non_negative(6041, "Port of the door `tdengine`; 0 selects a free port.", le=65535)
    flight_port: int = non_negative(32010, "Port of the door `flight`; 0 selects a free port.", le=65535)
    trusted_proxies: str = setting(
        "",
        "Addresses and networks of proxies, separated by commas, whose `X-Forwarded-For` names the client.",
        parse=parse_networks,
    )
    door_connections: int = positive(10_000, "Maximum number of connections that the doors of an snode have open.")
    tls_certificate: str = setting(
        "",
        "PEM file with the certificate of the doors, and of the HTTP endpoint beyond this machine. Clients on "
        "machines with this setting trust it.",
    )
    tls_key: str = setting("", "PEM file with the private key of `tls_certificate`.")
    doors_without_tls: bool = setting(
        False, "Whether doors may bind addresses beyond this machine without TLS, as behind a proxy that encrypts."
    )
    sync_commits: bool = setting(
        True,
        "Whether what is written on local disks is synced before it is acknowledged. Without, a power failure may "
        "lose the last seconds.",
    )
    group_commit_ms: int = non_negative(
        5,
        "Milliseconds for which the first write through a door waits for others to the same table, which share its "
        "commit. 0 gives each a commit of its own.",
    )
    group_commit_bytes: int = positive(
        256 << 20,
        "Maximum bytes of rows that wait for a shared commit in an snode; further writers wait.",
    )
    secret_key: Secret = setting(
        Secret(),
        "Fernet key of the passwords of pipes in the catalog; of several, separated by commas, the first encrypts and"
        " all decrypt. If empty, one is made in the home folder.",
    )
    egress: str = setting(
        "",
        "What definitions of users may reach, separated by commas: hosts, `host:port`, networks and beginnings of "
        "URIs, with `kind=` before one for `notify`, `iotdb`, `kafka`, `mqtt`, `websocket`, `oauth` or `code` alone; "
        "`none`. If empty, everything as long as root is the only user and all servers listen on loopback, else "
        "nothing.",
        parse=parse_rules,
    )
    external_locations: str = setting(
        "",
        "Files and folders that definitions of users may name, with all below them: paths and `s3:` URIs, separated "
        "by commas; `none`. If empty, all on the same condition.",
        parse=parse_locations,
    )
    udf_folder: Path = setting(Path("ext/udf"), "Folder of the code of functions; a relative one is below the home folder.")
    trigger_folder: Path = setting(Path("ext/trigger"), "Folder of the code of triggers, likewise.")
    pipe_folder: Path = setting(Path("ext/pipe"), "Folder of the code of plugins of pipes, likewise.")
    code_source_folders: str = setting(
        "",
        "Folders, separated by colons, from which `file:` URIs of user code may be read, beside `udf_folder`, `trigger_folder` "
        "and `pipe_folder`.",
    )
    code_packages: str = setting(
        "*",
        "Installed packages whose classes may be registered without a URI: patterns of top-level names, separated by "
        "commas; if empty, none.",
    )
    code_max_bytes: int = positive(67_108_864, "Maximum size of the user code of a function, in bytes.")
    code_download_timeout_s: int = positive(30, "Seconds after which a download of user code fails.")
    pipe_threads: int = positive(32, "Number of pipes that an snode runs at the same time; others wait for their turn.")
    pipe_sink_timeout_ms: int = positive(
        60_000,
        "Milliseconds after which a sink waits no longer for an answer, unless its attributes say otherwise.",
    )
    cq_min_every_ms: int = positive(1_000, "Shortest EVERY of a continuous query, in milliseconds.")
    cq_resident_every_ms: int = non_negative(
        60_000, "Continuous queries whose EVERY is shorter, in milliseconds, are executed by the snode; others by Airflow."
    )
    cq_attempts: int = positive(3, "Attempts of an execution of a continuous query before the query is STOPPED with the reason.")
    cq_threads: int = positive(
        2, "Executions of continuous queries at the same time: in an snode, and in Airflow each by its own Spark driver."
    )
    cq_pool: str = setting("default_pool", "Airflow pool of continuous queries; `headrace up` creates a pool and sets this.")
    code_memory: str = setting(
        "1g", "Memory of a process that runs user code, beside that of Python and its libraries.", pattern=MEMORY_PATTERN
    )
    code_timeout_s: int = positive(
        60, "Seconds after which a call of user code is ended and fails. Large tables are divided among calls of 262,144 rows."
    )
    code_log_bytes: int = positive(
        10 << 20,
        "Maximum size of the log of a process that runs user code, and of every file that it writes, in bytes.",
    )
    code_network: str = setting(
        "",
        "User code that may open connections: patterns of `owner/name`, separated by commas; if empty, none may.",
        pattern=r"^(\s*(\*|[^/,]+/[^/,]+)\s*(,\s*(\*|[^/,]+/[^/,]+)\s*)*)?$",
    )
    code_folders: str = setting(
        "", "Folders that user code may read and write, separated by colons; the system's own and installed packages can be read."
    )
    trigger_max_failures: int = non_negative(
        0, "Failures in a row after which a trigger is stopped, which then is INACTIVE with the reason; 0 for never."
    )
    code_idle_s: int = positive(300, "Seconds after which a process that runs user code ends if it is not used.")
    airflow_port: int = positive(8080, "Port of the Airflow UI started by `headrace up`.", le=65535)
    airflow_database_url: str = setting(
        "",
        "SQLAlchemy URL of the database of the Airflow started by `headrace up`; if empty, SQLite in the home folder.",
    )
    airflow_url: str = setting("", "URL of an external Airflow; if empty, the Airflow of the home folder.")
    airflow_user: str = setting("", "User name for the Airflow at `airflow_url`; it needs permission to trigger DAGs.")
    airflow_password: Secret = setting(Secret(), "Password of `airflow_user`.")
    airflow_token: Secret = setting(
        Secret(), "API token for the Airflow at `airflow_url`, of any auth manager, in place of user and password."
    )
    page_users: str = setting(
        "",
        "JSON with the Headrace users of Airflow's users, `*` for all others; Airflow's own name where it names none.",
        parse=parse_page_users,
    )
    worksheet_rows: int = positive(1_000, "Rows of a result that the page's worksheet shows, the first ones.", le=100_000)
    worksheet_statements: int = positive(
        8, "Statements of worksheets that a process of Airflow's API server waits for at a time, half of them of one user."
    )
    dag_options: str = setting(
        "",
        "JSON with options of the DAGs of each database's jobs, `*` for all: owner, queue, priority, tags, access_control.",
        parse=parse_dag_options,
    )
    alert_email: str = setting(
        "", "Addresses, separated by commas, to which Airflow sends alerts by its connection `smtp_default`."
    )
    alert_from: str = setting("", "Sender of these e-mails; if empty, that of the connection.")
    alert_webhook: Secret = setting(Secret(), 'URL to which alerts are posted as `{"text": …}`, as for Slack and Mattermost.')
    alert_lag_s: int = positive(300, "Lag in seconds of a stream, continuous query or pipe above which there is an alert.")
    alert_every_s: int = positive(300, "Seconds between two looks for what deserves an alert and fails no task.")
    maintenance_schedule: str = setting(
        "0 3 * * *", "Cron expression (UTC) of the DAG that compacts tables and removes old files; if empty, there is no such DAG."
    )
    maintenance_keep_hours: int = positive(
        HISTORY_HOURS, "Hours for which maintenance keeps versions of tables, their changes, and files that only they need."
    )
    maintenance_max_keep_hours: int = positive(168, "The same at most for a stream or pipe that has yet to read them.")
    metastore: str = setting(
        "",
        "Hive metastore in which maintenance registers the tables: `thrift://host:9083`, or the JDBC URL of its database. "
        "If empty, they are registered nowhere.",
        parse=check_metastore,
    )
    asset_event_s: int = non_negative(
        60, "Seconds between two events of an asset in Airflow, if a DAG is scheduled on it; 0 for none."
    )
    openlineage: bool = setting(
        True,
        "Whether snodes and tasks send events of OpenLineage, if its own configuration names a receiver.",
    )
    openlineage_running_s: int = non_negative(
        300, "Seconds between two events `RUNNING` of a stream or pipe that runs; 0 for none."
    )
    backfill_slots: int = positive(2, "Number of backfill chunks computed in parallel, each by its own Spark driver.")
    backfill_pool: str = setting("default_pool", "Airflow pool of backfill chunks; `headrace up` creates a pool and sets this.")
    project: Path = setting(
        find_project(), "Folder with `bin/`, `dags/` and `spark_jobs/`: the checkout, or a part of the package."
    )

    @property
    def home_path(self) -> Path:
        """The home directory, absolute."""
        return self.home.expanduser().resolve()

    @property
    def code_log_folder(self) -> Path:
        """The folder of the logs of user code."""
        return self.home_path / "logs" / "code"

    def plugin_folder(self, kind: str) -> Path:
        """Return the folder of the user code of a kind, absolute: udf, trigger or pipe."""
        folder: Path = getattr(self, f"{kind}_folder")
        return self.home_path / folder.expanduser()

    @property
    def own_snodes(self) -> tuple[str, ...]:
        """The snodes that the settings name: the one that answers queries first, if it is another one."""
        return (self.query_snode, self.snode) if self.query_snode not in ("", self.snode) else (self.snode,)

    def create_home(self) -> Path:
        """Create the home directory unless it exists, closed to other users, and return it."""
        try:
            self.home_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the folder {self.home_path} cannot be created: {error.strerror}", hint=f"set {PREFIX}HOME to one you may write to"
            ) from None
        return self.home_path

    @property
    def login(self) -> str:
        """The user's name: the setting, else the login; the number of a login without a name."""
        try:
            return self.user or getpass.getuser()
        except (KeyError, OSError):
            return str(os.getuid())

    @property
    def catalog(self) -> str:
        """The catalog's URL, defaults applied."""
        return self.catalog_url or f"sqlite:///{self.home_path / 'catalog.db'}"

    @property
    def is_on_object_store(self) -> bool:
        """Whether the tables are in an object store."""
        return self.tables_uri.startswith("s3://")

    @property
    def idle_poll_ms(self) -> int:
        """Milliseconds between polls of sources that have nothing new."""
        return self.object_store_poll_ms if self.is_on_object_store else self.poll_ms

    @property
    def tables_uri(self) -> str:
        """URI of the Delta tables, defaults applied, without a trailing slash; Hadoop's `s3a:` becomes `s3:`."""
        uri = (self.warehouse or str(self.home_path / "tables")).rstrip("/")
        return f"s3://{uri.removeprefix('s3a://')}" if uri.startswith("s3a://") else uri

    def display_values(self) -> dict[str, str]:
        """Return each setting as text, defaults applied and secrets hidden, also within URLs."""
        derived = {
            "home": self.home_path,
            "user": self.login,
            "catalog_url": self.catalog,
            "warehouse": self.tables_uri,
            "spark_options": mask_options(self.spark_options),
        }
        return {name: mask_secrets(str(derived.get(name, getattr(self, name)))) for name in self.fields}


def load(**overrides: Any) -> Settings:
    """Load settings from `overrides`, except None, and the environment; raise `ConfigurationError` for the first invalid one."""
    given = environment_values(os.environ) | {name: value for name, value in overrides.items() if value is not None}
    values: dict[str, Any] = {}
    for name, field in Settings.fields.items():
        if name in given:
            try:
                values[name] = field.read(given[name])
            except ValueError as error:
                is_shown = name not in MAY_HAVE_SECRETS and not isinstance(field.default, Secret)
                raise ConfigurationError(
                    f"setting {name}: {error}" + (f", got {given[name]!r}" if is_shown else ""),
                    hint=f"set {PREFIX}{name.upper()} to a valid value, or unset it",
                ) from None
    return Settings(values)


@functools.cache
def current() -> Settings:
    """Return the settings of this process, read once."""
    return load()
