"""Who may do what through the door `tdengine`, and its TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from headrace.doors.options import DoorOptions
from headrace.doors.tdengine.door import TDengineDoor
from headrace.service.session import Session
from tests.doors.conftest import PASSWORD, Served
from tests.support.certificates import make_certificate


def test_who_may_not_write_learns_nothing_of_the_table(served: Served) -> None:
    served.sql("create database private")
    served.http.post("/influxdb/v1/write?db=private&precision=ms", content="secrets,a=b v=1 1")
    Session(served.context, "iotdb").execute("create user nosy 'secret12'")
    with httpx.Client(base_url=served.http.base_url, auth=("nosy", "secret12"), trust_env=False, timeout=600) as client:
        for line in ("secrets,a=b v=1 2", "secrets,a=b v=true 2", "secrets,a=b other=1 2", "new v=1 1"):
            answer = client.post("/influxdb/v1/write?db=private&precision=ms", content=line)
            assert answer.status_code == 403, answer.text
            assert "DOUBLE" not in answer.text
        assert client.post("/rest/sql/private", content="drop table secrets").json()["code"] != 0
    catalog = served.context.catalog
    assert [table.name for table in catalog.tables.all("private")] == ["secrets"]
    assert served.context.tables.scan(catalog.tables.get("private", "secrets")).num_rows == 1


@pytest.mark.parametrize("path", ["/rest/sql", "/influxdb/v1/write?db=x"])
def test_a_door_with_a_certificate_speaks_tls_only(served: Served, tmp_path: Path, path: str) -> None:
    make_certificate(tmp_path)
    door = TDengineDoor(served.gate, DoorOptions("127.0.0.1", 0, str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")))
    door.start()
    try:
        with httpx.Client(auth=("root", PASSWORD), verify=ssl._create_unverified_context(), trust_env=False, timeout=600) as client:
            answer = client.post(f"https://{door.address}{path}", content="show databases")
            assert answer.status_code in (200, 404)
            with pytest.raises(httpx.TransportError):
                client.post(f"http://{door.address}{path}", content="show databases")
    finally:
        door.stop()
