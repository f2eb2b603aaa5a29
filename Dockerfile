# One image for every service of docker-compose.yaml: Headrace, Airflow, Spark, Java.
FROM python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

RUN apt-get update \
    && apt-get install --no-install-recommends --yes openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 headrace \
    && mkdir -p /srv/headrace /srv/airflow /opt/headrace \
    && chown headrace:headrace /srv/headrace /srv/airflow /opt/headrace

WORKDIR /opt/headrace
COPY requirements.txt ./
# requirements.txt is complete. Without --no-deps, pip would add pyspark-client, which overwrites pyspark (see override.txt).
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement requirements.txt

COPY --chown=headrace:headrace pyproject.toml README.md ./
COPY --chown=headrace:headrace include include
COPY --chown=headrace:headrace dags dags
COPY --chown=headrace:headrace plugins plugins
COPY --chown=headrace:headrace spark_jobs spark_jobs
COPY --chown=headrace:headrace bin bin
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable . && python -m compileall -q include plugins dags spark_jobs

USER headrace
# Fetches Spark's jars, with those for object stores, and creates the class archive that halves a driver's start time.
RUN headrace setup && HEADRACE_WAREHOUSE=s3://any headrace setup

ENV HEADRACE_PROJECT=/opt/headrace \
    HEADRACE_HOME=/srv/headrace \
    AIRFLOW_HOME=/srv/airflow \
    PYSPARK_PYTHON=/usr/local/bin/python
