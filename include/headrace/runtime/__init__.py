"""The processes of Headrace: the snode, its lease and HTTP endpoint, Airflow's components and tasks, and supervision."""
