"""Large commits whose windows are computed by Spark's executors, from the data files to staged results."""
