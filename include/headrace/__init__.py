"""Stream processing declared in SQL, run by Apache Spark on Delta Lake, supervised by Apache Airflow."""
