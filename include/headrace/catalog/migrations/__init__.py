"""Migrations of the catalog: numbered, forward only. `migrate.HEAD` names the newest."""
