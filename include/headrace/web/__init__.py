"""The page in Airflow's UI: its JSON API, access control and static files."""
