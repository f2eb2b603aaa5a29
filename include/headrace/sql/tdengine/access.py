"""Statements about users and their privileges in the TDengine language: parsed and rendered."""

from __future__ import annotations

from typing import Final

from headrace.model import access_statements as model
from headrace.model.access import EVERYWHERE, GLOBAL, Grantee, GranteeKind, Privilege, as_pattern
from headrace.sql.render import join_words, text_if
from headrace.sql.tdengine.external_tables import TDengineExternalTables
from headrace.sql.tdengine.render import expression_sql, statement_sql
from headrace.sql.tdengine.words import LEXICAL_RULES

USER: Final = "a user"
PRIVILEGES: Final = ("ALL", "READ", "WRITE")
ANY: Final = "*"


class TDengineAccess(TDengineExternalTables):
    """Parses statements about users and their privileges."""

    def _parse_create_user(self) -> model.CreateUser:
        """Parse `name PASS 'password' [SYSINFO 0|1]`. System tables show everybody what they may know of."""
        name = self._parse_identifier(USER)
        self._expect("PASS")
        password = self._parse_string("a password, as a string")
        if self._accept("SYSINFO"):
            self._parse_flag()
        return model.CreateUser(name, password)

    def _parse_alter_user(self) -> model.AlterUser:
        """Parse `name PASS 'password'` or `name ENABLE 0|1`."""
        name = self._parse_identifier(USER)
        if self._expect_one("PASS", "ENABLE") == "PASS":
            return model.AlterUser(name, self._parse_string("a password, as a string"))
        return model.AlterUser(name, is_enabled=self._parse_flag())

    def _parse_flag(self) -> bool:
        token = self._token
        number = self._parse_integer("0 or 1")
        return number == 1 if number in (0, 1) else self._fail_invalid("a flag is 0 or 1", token)

    def _parse_drop_user(self) -> model.DropUser:
        return model.DropUser(self._parse_identifier(USER))

    def _parse_grant(self) -> model.AccessStatement:
        return self._parse_granted("TO", revoke=False)

    def _parse_revoke(self) -> model.AccessStatement:
        return self._parse_granted("FROM", revoke=True)

    def _parse_granted(self, word: str, *, revoke: bool) -> model.AccessStatement:
        """Parse `privilege, … ON database.table|database.*|*.* [WITH condition] TO user`, or `USE_SECRET ON 'secret:NAME' …`.

        Privileges that are not on tables are on `*.*`.
        """
        start = self._index
        if self._is_at(*GLOBAL):
            privileges = self._parse_list(lambda: self._expect_one(*GLOBAL))
            self._expect("ON", ANY, ".", ANY, word)
            grantee = Grantee(GranteeKind.USER, self._parse_identifier(USER))
            return model.GrantPrivileges(privileges, (as_pattern(EVERYWHERE),), grantee, revoke=revoke, span=self._span(start))
        if self._accept(Privilege.USE_SECRET):
            self._expect("ON")
            reference = self._parse_string("a reference such as 'secret:NAME'")
            self._expect(word)
            grantee = Grantee(GranteeKind.USER, self._parse_identifier(USER))
            return model.GrantSecret(reference, grantee, revoke, self._span(start))
        privileges = self._parse_list(self._parse_privilege)
        self._expect("ON")
        database, table = self._parse_level()
        condition = self._parse_expression() if self._accept("WITH") else None
        self._expect(word)
        return model.GrantTables(privileges, database, table, self._parse_identifier(USER), revoke, condition, self._span(start))

    def _parse_privilege(self) -> str:
        if self._token.word == "SUBSCRIBE":
            self._fail_unsupported("SUBSCRIBE", "grant READ: topics have no counterpart", self._current_span())
        return self._expect_one(*PRIVILEGES)

    def _parse_level(self) -> tuple[str, str]:
        database = ANY if self._accept(ANY) else self._parse_identifier("a database")
        self._expect(".")
        if database == ANY:
            self._expect(ANY)
            return ANY, ANY
        return database, ANY if self._accept(ANY) else self._parse_identifier("a table")


def _part_sql(name: str) -> str:
    return name if name == ANY else LEXICAL_RULES.name_sql(name)


@statement_sql.register
def _create_user_sql(statement: model.CreateUser) -> str:
    return f"CREATE USER {LEXICAL_RULES.name_sql(statement.name)} PASS {LEXICAL_RULES.quote(statement.password)}"


@statement_sql.register
def _alter_user_sql(statement: model.AlterUser) -> str:
    flag = text_if(statement.is_enabled is not None, f"ENABLE {int(bool(statement.is_enabled))}")
    password = "" if statement.password is None else f"PASS {LEXICAL_RULES.quote(statement.password)}"
    return join_words("ALTER USER", LEXICAL_RULES.name_sql(statement.name), password, flag)


@statement_sql.register
def _drop_user_sql(statement: model.DropUser) -> str:
    return f"DROP USER {LEXICAL_RULES.name_sql(statement.name)}"


def _granted_sql(what: str, user: str, *, revoke: bool) -> str:
    name = LEXICAL_RULES.name_sql(user)
    return f"REVOKE {what} FROM {name}" if revoke else f"GRANT {what} TO {name}"


@statement_sql.register
def _grant_tables_sql(statement: model.GrantTables) -> str:
    level = f"{_part_sql(statement.database)}.{_part_sql(statement.table)}"
    condition = "" if statement.condition is None else f"WITH {expression_sql(statement.condition)}"
    what = join_words(", ".join(statement.privileges), "ON", level, condition)
    return _granted_sql(what, statement.user, revoke=statement.revoke)


@statement_sql.register
def _grant_privileges_sql(statement: model.GrantPrivileges) -> str:
    what = f"{', '.join(statement.privileges)} ON {ANY}.{ANY}"
    return _granted_sql(what, statement.grantee.name, revoke=statement.revoke)


@statement_sql.register
def _grant_secret_sql(statement: model.GrantSecret) -> str:
    what = f"{Privilege.USE_SECRET} ON {LEXICAL_RULES.quote(statement.reference)}"
    return _granted_sql(what, statement.grantee.name, revoke=statement.revoke)
