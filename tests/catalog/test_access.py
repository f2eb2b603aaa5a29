"""Users, roles and grants in the catalog."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, NotFoundError, ProgrammingError
from headrace.model.access import Grant, Grantee, GranteeKind, Privilege, as_pattern

VERA = Grantee(GranteeKind.USER, "vera")
READERS = Grantee(GranteeKind.ROLE, "readers")
READ = Grant(Privilege.READ_DATA, "root.plant.**")
WRITE = Grant(Privilege.WRITE_DATA, "root.plant.line1.s1")


@pytest.fixture
def access(catalog: Catalog) -> Catalog:
    """Return a catalog with a user and a role."""
    catalog.access.create_user("vera", "hash")
    catalog.access.create_role("readers")
    return catalog


def test_users_have_names_of_their_own(access: Catalog) -> None:
    with pytest.raises(ExistsError, match="805: User vera already exists"):
        access.access.create_user("vera", "other")
    assert [user.name for user in access.access.users()] == ["vera"]
    access.access.drop(VERA)
    assert not access.access.has_users()
    with pytest.raises(NotFoundError, match="804: User vera does not exist"):
        access.access.permissions("vera")


def test_a_user_may_do_what_their_roles_may_at_once(access: Catalog) -> None:
    path = as_pattern("root.plant.line1.s1")
    access.access.grant(READERS, [READ])
    assert not access.access.permissions("vera").allows(Privilege.READ_DATA, path)
    access.access.add_role("vera", "readers")
    assert access.access.permissions("vera").allows(Privilege.READ_DATA, path)
    access.access.revoke(READERS, [READ])
    assert not access.access.permissions("vera").allows(Privilege.READ_DATA, path)
    access.access.grant(READERS, [READ])
    access.access.drop(READERS)
    assert not access.access.permissions("vera").allows(Privilege.READ_DATA, path)
    access.access.create_role("readers")
    assert access.access.grants(READERS) == []


def test_grants_keep_their_order_and_their_option(access: Catalog) -> None:
    access.access.grant(VERA, [WRITE, READ])
    access.access.grant(VERA, [Grant(WRITE.privilege, WRITE.target, with_option=True)])
    access.access.grant(VERA, [WRITE])
    assert access.access.grants(VERA) == [Grant(WRITE.privilege, WRITE.target, with_option=True), READ]


def test_what_was_not_granted_is_not_revoked_and_nothing_else_is(access: Catalog) -> None:
    access.access.grant(VERA, [READ])
    with pytest.raises(ProgrammingError, match=r"811: User vera does not have WRITE_DATA on root\.plant\.line1\.s1"):
        access.access.revoke(VERA, [READ, WRITE])
    assert access.access.grants(VERA) == [READ]


def test_roles_are_given_once_and_taken_once(access: Catalog) -> None:
    access.access.add_role("vera", "readers")
    with pytest.raises(ExistsError, match="806: User vera already has role readers"):
        access.access.add_role("vera", "readers")
    assert access.access.members("readers") == ["vera"]
    access.access.remove_role("vera", "readers")
    with pytest.raises(NotFoundError, match="807: User vera does not have role readers"):
        access.access.remove_role("vera", "readers")
    with pytest.raises(NotFoundError, match="808: Role writers does not exist"):
        access.access.add_role("vera", "writers")


def test_a_disabled_user_may_do_nothing(access: Catalog) -> None:
    access.access.grant(VERA, [READ])
    access.access.change_user("vera", is_enabled=False)
    with pytest.raises(NotFoundError):
        access.access.permissions("vera")
