"""Equivalent jobs written by hand for Spark and Delta, without Headrace."""
