"""Events of OpenLineage for the runs of streams, continuous queries and pipes."""
