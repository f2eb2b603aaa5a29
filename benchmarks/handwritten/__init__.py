"""The other side: jobs as one would write them by hand for Spark and Delta, without Headrace."""
