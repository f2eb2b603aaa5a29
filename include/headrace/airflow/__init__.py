"""For DAGs of users: a hook, operators, sensors and triggers, all for connections of the type `headrace`."""
