"""The services of docker-compose.yaml as plain processes, without a container engine: `make compose-processes`.

The file itself says what runs: commands, environments, volumes, configurations, health checks, dependencies, users. Each service
has a root directory, a host name and a user of its own, by Linux namespaces; all share one network. Not covered are the images
themselves, whose programs are those of this machine, restarts, separate networks, published ports and limits of logs.
"""
