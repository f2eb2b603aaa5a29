"""The door of IoTDB's clients: its RPC service, over which its own clients and pipes come in unchanged."""
