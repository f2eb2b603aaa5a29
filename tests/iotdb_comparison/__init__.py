"""Random statements on Headrace and on a real IoTDB server, and a comparison of what they answer. See CONTRIBUTING.md."""
