"""Users, roles, grants, tokens, and the log of what users did."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKeyConstraint, Index, Integer, Named, String, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class UserColumns(TypedColumns):
    """Columns of `users`. A password is a salted hash."""

    name: Named[str] = Column(NAME, primary_key=True)
    password: Named[str] = Column(Text)
    created: Named[int] = Column(BigInteger)
    is_enabled: Named[bool] = Column(Boolean)


USERS = Table("users", METADATA, UserColumns)


class DroppedUserColumns(TypedColumns):
    """Columns of `dropped_users`, whose jobs stop."""

    name: Named[str] = Column(NAME, primary_key=True)


DROPPED_USERS = Table("dropped_users", METADATA, DroppedUserColumns)


class TrustedOwnerColumns(TypedColumns):
    """Columns of `trusted_owners`: names that are no users and own jobs with all rights, as no one had to say who they are."""

    name: Named[str] = Column(NAME, primary_key=True)


TRUSTED_OWNERS = Table("trusted_owners", METADATA, TrustedOwnerColumns)


class RoleColumns(TypedColumns):
    """Columns of `roles`."""

    name: Named[str] = Column(NAME, primary_key=True)
    created: Named[int] = Column(BigInteger)


ROLES = Table("roles", METADATA, RoleColumns)


class MembershipColumns(TypedColumns):
    """Columns of `memberships`: which users have which roles."""

    user: Named[str] = Column(NAME, primary_key=True)
    role: Named[str] = Column(NAME, primary_key=True)


MEMBERSHIPS = Table(
    "memberships",
    METADATA,
    MembershipColumns,
    ForeignKeyConstraint(["user"], ["users.name"], ondelete="CASCADE"),
    ForeignKeyConstraint(["role"], ["roles.name"], ondelete="CASCADE"),
)


class GrantColumns(TypedColumns):
    """Columns of `grants`. `number` orders them as they were granted."""

    kind: Named[str] = Column(String, primary_key=True)
    grantee: Named[str] = Column(NAME, primary_key=True)
    privilege: Named[str] = Column(String, primary_key=True)
    target: Named[str] = Column(NAME, primary_key=True)
    condition: Named[str] = Column(Text, primary_key=True)
    with_option: Named[bool] = Column(Boolean)
    number: Named[int] = Column(BigInteger)


GRANTS = Table("grants", METADATA, GrantColumns)


class TokenColumns(TypedColumns):
    """Columns of `tokens`, by which programs act as a user. Only a hash of a token is stored."""

    id: Named[str] = Column(String, primary_key=True)
    user: Named[str] = Column(NAME)
    hash: Named[str] = Column(String)
    purpose: Named[str] = Column(Text)
    reads_only: Named[bool] = Column(Boolean)
    created: Named[int] = Column(BigInteger)
    expires: Named[int | None] = Column(BigInteger, nullable=True)


TOKENS = Table("tokens", METADATA, TokenColumns)


class AuditColumns(TypedColumns):
    """Columns of `audit_log`."""

    number: Named[int] = Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)
    time: Named[int] = Column(BigInteger)
    user: Named[str] = Column(NAME)
    address: Named[str] = Column(String)
    action: Named[str] = Column(String)
    statement: Named[str] = Column(Text)
    is_allowed: Named[bool] = Column(Boolean)
    reason: Named[str] = Column(Text)


AUDIT_LOG = Table("audit_log", METADATA, AuditColumns, Index(None, "time"))
