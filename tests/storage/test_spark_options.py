"""Spark options: those of settings, those passed through, and a driver's share of a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from headrace.compute.nodes import string_sql
from headrace.errors import ConfigurationError
from headrace.model.spark_options import OWN_SETTINGS, RESERVED, Role
from headrace.settings import Settings, load
from headrace.storage.spark.session import DEFAULTS, launch_conf, session_conf

CLUSTER = "spark://master.example:7077"


def conf(role: Role = Role.TASK, **changes: object) -> dict[str, str]:
    settings = load(home="home", spark_master=CLUSTER, **changes)
    return session_conf(settings) | launch_conf(settings, role)


def test_an_snode_and_a_task_have_shares_of_their_own() -> None:
    changes = {"snode_cores": 3, "task_cores": 5, "snode_executor_memory": "2g", "task_executor_memory": "4g", "executor_cores": 1}
    names = ("spark.cores.max", "spark.executor.memory", "spark.executor.cores")
    snode, task = (conf(role, **changes) for role in (Role.SNODE, Role.TASK))
    assert [snode[name] for name in names] == ["3", "2g", "1"]
    assert [task[name] for name in names] == ["5", "4g", "1"]


def test_no_driver_takes_all_cores_of_a_cluster_by_default() -> None:
    assert all(int(conf(role)["spark.cores.max"]) > 0 for role in Role)


def test_only_tasks_have_a_driver_memory_of_their_own() -> None:
    memory = {role: conf(role, driver_memory="3g", task_driver_memory="8g")["spark.driver.memory"] for role in Role}
    assert memory == {Role.SNODE: "3g", Role.TASK: "8g", Role.EMBEDDED: "3g"}
    assert conf(Role.TASK, driver_memory="3g")["spark.driver.memory"] == "3g"


def test_options_are_passed_through() -> None:
    options = "spark.executor.extraJavaOptions='-XX:+UseG1GC -Da=b' spark.ui.enabled=true"
    for role in Role:
        passed = conf(role, spark_options=options)
        assert passed["spark.executor.extraJavaOptions"] == "-XX:+UseG1GC -Da=b"
        assert passed["spark.ui.enabled"] == "true"


def test_options_of_the_jvm_follow_those_of_headrace() -> None:
    for role in Role:
        options = conf(role, driver_java_options="-XX:+UseSerialGC -Da=b")["spark.driver.extraJavaOptions"].split()
        assert options[-2:] == ["-XX:+UseSerialGC", "-Da=b"]
        assert "-XX:-UsePerfData" in options
    with pytest.raises(ConfigurationError, match="HEADRACE_DRIVER_MEMORY"):
        load(driver_java_options="-Xmx4g")


def test_only_the_jvm_of_a_task_compiles_late_unless_an_option_says_otherwise() -> None:
    name, own = "-XX:Tier4InvocationThreshold", "-XX:Tier4InvocationThreshold=5000"
    options = {role: conf(role, driver_java_options=own)["spark.driver.extraJavaOptions"].split() for role in Role}
    passed = {role: [option for option in parts if option.startswith(name)] for role, parts in options.items()}
    assert passed == {role: [f"{name}=50000", own] if role is Role.TASK else [own] for role in Role}


@pytest.mark.parametrize("name", sorted({*OWN_SETTINGS, *RESERVED, "spark.sql.legacy.timeParserPolicy"}))
def test_options_that_headrace_sets_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        load(spark_options=f"spark.a=b {name}=1")


def test_every_option_that_headrace_sets_is_a_default_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_SPARK_OPTIONS", raising=False)  # other folders of tests may have set options
    names = {name for role in Role for name in conf(role, executor_cores=1, spark_secret="secret")}
    assert names <= {*DEFAULTS, *OWN_SETTINGS, *RESERVED}


@pytest.mark.parametrize("options", ["master=x", "spark.a", "spark.a=1 spark.a=2", "spark.a='1"])
def test_malformed_options_are_refused(options: str) -> None:
    with pytest.raises(ConfigurationError, match="spark_options"):
        load(spark_options=options)


def test_the_own_settings_exist() -> None:
    named = {word for text in OWN_SETTINGS.values() for word in text.split() if word.startswith("HEADRACE_")}
    assert {name.removeprefix("HEADRACE_").lower() for name in named} <= set(Settings.fields)


def test_secret_options_are_not_shown(tmp_path: Path) -> None:
    options = "spark.a=b spark.ssl.keyPassword=pa55 spark.example.token=pa55"
    environment = os.environ | {"HEADRACE_SPARK_OPTIONS": options, "COLUMNS": "200"}
    command = [sys.executable, "-m", "headrace.cli.main", "config", "--home", str(tmp_path)]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "spark.a=b" in shown
    assert "pa55" not in shown
    with pytest.raises(ConfigurationError) as raised:
        load(spark_options=f"{options} spark.jars=pa55.jar")
    assert "pa55" not in str(raised.value)


def test_the_secret_of_a_cluster_is_not_on_the_command_line() -> None:
    settings = load(home="home", spark_master=CLUSTER, spark_secret="pa55")
    assert session_conf(settings)["spark.authenticate.secret"] == "pa55"
    assert "pa55" not in str(launch_conf(settings))
    assert "spark.authenticate" not in session_conf(load(home="home", spark_master=CLUSTER))


def test_memory_has_a_unit() -> None:
    for name in ("driver_memory", "task_driver_memory", "snode_executor_memory", "task_executor_memory"):
        with pytest.raises(ConfigurationError, match=name):
            load(**{name: "2000"})


@pytest.mark.spark
def test_texts_reveal_no_variables(spark: SparkSession) -> None:
    text = "${env:HOME} ${system:user.dir} ${spark.app.name}"
    assert spark.range(1).selectExpr(f"{string_sql(text)} AS text").collect() == [Row(text)]


@pytest.mark.spark
def test_a_session_has_the_options_and_shows_neither_secrets_nor_remarks(tmp_path: Path) -> None:
    program = (
        "import psutil\n"
        "from headrace.settings import current\n"
        "from headrace.storage.spark.session import start_session\n"
        "spark = start_session(current())\n"
        "conf = spark.sparkContext.getConf()\n"
        "names = ('spark.ui.showConsoleProgress', 'spark.example', 'spark.authenticate.secret')\n"
        "print('found', *(conf.get(name) for name in names))\n"
        "spark.range(100).selectExpr('kll_sketch_agg_bigint(id)').collect()\n"
        "own = {process.pid for process in psutil.Process().children(recursive=True)}\n"
        "print(*(process.info['cmdline'] for process in psutil.process_iter(['cmdline']) if process.pid in own))\n"
    )
    environment = os.environ | {
        "HEADRACE_HOME": str(tmp_path),
        "HEADRACE_SPARK_MASTER": "local[1]",
        "HEADRACE_SPARK_OPTIONS": "spark.example='a b'",
        "HEADRACE_SPARK_SECRET": "pa55",
    }
    shown = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
    found, processes = shown.stdout.splitlines()[-2:]
    assert found == "found false a b pa55"
    assert "java" in processes
    assert "pa55" not in processes


def test_a_jvm_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = (
        "from headrace.settings import current\nfrom headrace.storage.spark.session import start_session\nstart_session(current())"
    )
    options = {"HEADRACE_HOME": str(tmp_path), "HEADRACE_DRIVER_JAVA_OPTIONS": "-javaagent:missing.jar"}
    shown = subprocess.run([sys.executable, "-c", program], env=os.environ | options, capture_output=True, text=True, check=False)
    assert "missing.jar" in shown.stderr
    assert "Spark did not start" in shown.stderr
