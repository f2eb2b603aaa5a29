"""Parsing of CREATE, ALTER and DROP VTABLE."""

from __future__ import annotations

from headrace.model.statements import (
    AddColumn,
    AlterVirtualTable,
    CreateVirtualSubtable,
    CreateVirtualTable,
    DropColumn,
    DropTable,
    ModifyColumn,
    Origin,
    RenameColumn,
    SetOrigin,
    SetTags,
)
from headrace.model.tables import Column, Name
from headrace.sql.tdengine.tables import TDengineTables


class TDengineVirtualTables(TDengineTables):
    """Parses statements about virtual tables. Each method begins after the keywords that identify the statement."""

    def _parse_create_vtable(self) -> CreateVirtualTable | CreateVirtualSubtable:
        if_not_exists = self._parse_not_exists()
        name = self._parse_name("a virtual table")
        self._expect("(")
        if self._is_at_origin():
            origins = self._parse_list(self._parse_assigned_origin)
            self._expect(")")
            token = self._token
            spec = self._parse_using(name, if_not_exists)
            return (
                CreateVirtualSubtable(spec, origins)
                if not spec.ttl_days
                else self._fail_invalid("a virtual table has no TTL", token, "leave it out")
            )
        columns, origins_of_columns = zip(*self._parse_list(self._parse_virtual_column), strict=True)
        self._expect(")")
        return CreateVirtualTable(name, columns, origins_of_columns, if_not_exists)

    def _is_at_origin(self) -> bool:
        """Return whether `[column FROM] [database.]table.column` begins here, rather than `column type`."""
        return self._peek().word in (".", "FROM")

    def _parse_virtual_column(self) -> tuple[Column, Origin | None]:
        start = self._index
        name = self._parse_identifier("a column")
        column = Column(name, self._parse_column_type(), span=self._span(start))
        return column, self._parse_origin() if self._accept("FROM") else None

    def _parse_assigned_origin(self) -> tuple[str | None, Origin]:
        if self._peek().word != "FROM":
            return None, self._parse_origin()
        name = self._parse_identifier("a column")
        self._expect("FROM")
        return name, self._parse_origin()

    def _parse_origin(self) -> Origin:
        """Parse `[database.]table.column`."""
        start = self._index
        names = [self._parse_identifier("a table")]
        self._expect(".")
        names.append(self._parse_identifier("a column"))
        if self._accept("."):
            names.append(self._parse_identifier("a column"))
        *database, table, column = names
        span = self._span(start)
        return Origin(Name(database[0] if database else None, table, span), column, span)

    def _parse_alter_vtable(self) -> AlterVirtualTable | SetOrigin | SetTags:
        table = self._parse_name("a virtual table")
        action = self._expect_one("ADD", "DROP", "ALTER", "MODIFY", "RENAME", "SET")
        if action == "SET":
            self._expect("TAG")
            return SetTags(table, self._parse_list(self._parse_assignment), is_virtual=True)
        self._expect("COLUMN")
        if action == "ALTER":
            return self._parse_set_origin(table)
        if action == "ADD":
            column, origin = self._parse_virtual_column()
            return AlterVirtualTable(AddColumn(table, column), origin)
        change = self._parse_alteration(action, table, is_tag=False, supertable=False)
        assert isinstance(change, DropColumn | ModifyColumn | RenameColumn)
        return AlterVirtualTable(change)

    def _parse_set_origin(self, table: Name) -> SetOrigin:
        start = self._index
        column = self._parse_identifier("a column")
        span = self._span(start)
        self._expect("SET")
        return SetOrigin(table, column, None if self._accept("NULL") else self._parse_origin(), span)

    def _parse_drop_vtable(self) -> DropTable:
        if_exists = self._parse_exists()
        return DropTable((self._parse_name("a virtual table"),), if_exists, is_virtual=True)
