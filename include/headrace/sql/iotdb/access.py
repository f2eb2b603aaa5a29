"""Statements about users, roles and privileges in the IoTDB language: parsed and rendered."""

from __future__ import annotations

from typing import Final

from headrace.model import access_statements as model
from headrace.model.access import ADMINISTRATOR, GLOBAL, GROUPS, ON_PATHS, Grantee, GranteeKind, Privilege
from headrace.sql.iotdb.pipes import PipeParser
from headrace.sql.iotdb.render_statements import statement_sql
from headrace.sql.iotdb.words import LEXICAL_RULES
from headrace.sql.render import join_words, text_if

USER: Final = "a user"
ROLE: Final = "a role"
PRIVILEGES: Final = ("ALL", *GROUPS, *ON_PATHS, *GLOBAL)


class AccessParser(PipeParser):
    """Parses statements about users, roles and privileges."""

    def _parse_create_user(self) -> model.CreateUser:
        return model.CreateUser(self._parse_identifier(USER), self._parse_string("a password, as a string"))

    def _parse_alter_user(self) -> model.AlterUser:
        name = self._parse_user_or_root()
        self._expect("SET", "PASSWORD")
        return model.AlterUser(name, self._parse_string("a password, as a string"))

    def _parse_user_or_root(self) -> str:
        """Parse the name of a user, who may be the administrator."""
        if self._token.word == ADMINISTRATOR.upper():
            self._advance()
            return ADMINISTRATOR
        return self._parse_identifier(USER)

    def _parse_grant(self) -> model.AccessStatement:
        return self._parse_granted("TO", revoke=False)

    def _parse_revoke(self) -> model.AccessStatement:
        return self._parse_granted("FROM", revoke=True)

    def _parse_granted(self, word: str, *, revoke: bool) -> model.AccessStatement:
        """Parse `ROLE role TO user`, `USE_SECRET ON 'secret:NAME'`, or `privileges ON paths TO USER|ROLE name …`."""
        if self._accept("ROLE"):
            role = self._parse_identifier(ROLE)
            self._expect(word)
            return model.GrantRole(role, self._parse_identifier(USER), revoke)
        start = self._index
        if self._accept(Privilege.USE_SECRET):
            self._expect("ON")
            reference = self._parse_string("a reference such as 'secret:NAME'")
            self._expect(word)
            return model.GrantSecret(reference, self._parse_grantee(), revoke, self._span(start))
        privileges = self._parse_list(self._parse_privilege)
        self._expect("ON")
        paths = self._parse_patterns()
        self._expect(word)
        grantee = self._parse_grantee()
        with_option = not revoke and self._accept("WITH", "GRANT", "OPTION")
        return model.GrantPrivileges(privileges, paths, grantee, with_option, revoke, self._span(start))

    def _parse_privilege(self) -> str:
        return self._expect_one(*PRIVILEGES)

    def _parse_grantee(self) -> Grantee:
        if self._expect_one("USER", "ROLE") == "USER":
            return Grantee(GranteeKind.USER, self._parse_identifier(USER))
        return Grantee(GranteeKind.ROLE, self._parse_identifier(ROLE))

    def _parse_list_statement(self) -> model.AccessStatement:
        """Parse `LIST USER [OF ROLE role]`, `LIST ROLE [OF USER user]` and `LIST PRIVILEGES OF USER|ROLE name`."""
        match self._expect_one("USER", "ROLE", "PRIVILEGES"):
            case "USER":
                return model.ListUsers(self._parse_identifier(ROLE) if self._accept("OF", "ROLE") else None)
            case "ROLE":
                return model.ListRoles(self._parse_user_or_root() if self._accept("OF", "USER") else None)
        self._expect("OF")
        if self._expect_one("USER", "ROLE") == "USER":
            return model.ListPrivileges(Grantee(GranteeKind.USER, self._parse_user_or_root()))
        return model.ListPrivileges(Grantee(GranteeKind.ROLE, self._parse_identifier(ROLE)))


def name_sql(name: str) -> str:
    """Write the name of a user or role."""
    return name if name == ADMINISTRATOR else LEXICAL_RULES.name_sql(name)


def grantee_sql(grantee: Grantee) -> str:
    return f"{grantee.kind.upper()} {name_sql(grantee.name)}"


@statement_sql.register
def _create_user_sql(statement: model.CreateUser) -> str:
    return f"CREATE USER {LEXICAL_RULES.name_sql(statement.name)} {LEXICAL_RULES.quote(statement.password)}"


@statement_sql.register
def _alter_user_sql(statement: model.AlterUser) -> str:
    return f"ALTER USER {name_sql(statement.name)} SET PASSWORD {LEXICAL_RULES.quote(statement.password or '')}"


@statement_sql.register
def _drop_user_sql(statement: model.DropUser) -> str:
    return f"DROP USER {LEXICAL_RULES.name_sql(statement.name)}"


@statement_sql.register
def _create_role_sql(statement: model.CreateRole) -> str:
    return f"CREATE ROLE {LEXICAL_RULES.name_sql(statement.name)}"


@statement_sql.register
def _drop_role_sql(statement: model.DropRole) -> str:
    return f"DROP ROLE {LEXICAL_RULES.name_sql(statement.name)}"


def granted_sql(what: str, grantee: str, *, revoke: bool) -> str:
    """Write GRANT or REVOKE of something."""
    return f"REVOKE {what} FROM {grantee}" if revoke else f"GRANT {what} TO {grantee}"


@statement_sql.register
def _grant_role_sql(statement: model.GrantRole) -> str:
    role, user = LEXICAL_RULES.name_sql(statement.role), LEXICAL_RULES.name_sql(statement.user)
    return granted_sql(f"ROLE {role}", user, revoke=statement.revoke)


@statement_sql.register
def _grant_privileges_sql(statement: model.GrantPrivileges) -> str:
    granted = f"{', '.join(statement.privileges)} ON {', '.join(map(str, statement.paths))}"
    option = text_if(statement.with_option, "WITH GRANT OPTION")
    return join_words(granted_sql(granted, grantee_sql(statement.grantee), revoke=statement.revoke), option)


@statement_sql.register
def _grant_secret_sql(statement: model.GrantSecret) -> str:
    granted = f"{Privilege.USE_SECRET} ON {LEXICAL_RULES.quote(statement.reference)}"
    return granted_sql(granted, grantee_sql(statement.grantee), revoke=statement.revoke)


@statement_sql.register
def _list_users_sql(statement: model.ListUsers) -> str:
    return join_words("LIST USER", "" if statement.role is None else f"OF ROLE {LEXICAL_RULES.name_sql(statement.role)}")


@statement_sql.register
def _list_roles_sql(statement: model.ListRoles) -> str:
    return join_words("LIST ROLE", "" if statement.user is None else f"OF USER {name_sql(statement.user)}")


@statement_sql.register
def _list_privileges_sql(statement: model.ListPrivileges) -> str:
    return f"LIST PRIVILEGES OF {grantee_sql(statement.grantee)}"
