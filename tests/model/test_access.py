"""What grants allow, against an enumeration of paths."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.access import ON_PATHS, Grant, Permissions, Privilege, administrator, as_pattern, may_overlap
from headrace.model.paths import PathPattern

PATHS = [("root", *rest) for length in (1, 2, 3) for rest in itertools.product(("a", "b", "s1"), repeat=length)]
node = st.sampled_from(("a", "b", "s1"))
targets = st.builds(
    lambda nodes, below: ".".join(("root", *nodes, *(("**",) if below or not nodes else ()))),
    st.lists(node, max_size=3),
    st.booleans(),
)
grants = st.lists(
    st.builds(lambda privilege, target: ("", Grant(privilege, target)), st.sampled_from(list(ON_PATHS)), targets), max_size=4
).map(tuple)
patterns = st.lists(st.sampled_from(("a", "b", "s1", "*", "s*", "**")), min_size=1, max_size=3).map(
    lambda nodes: PathPattern(("root", *nodes))
)
readers = st.sampled_from((Privilege.READ_DATA, Privilege.READ_SCHEMA))
WRITERS = {Privilege.READ_DATA: Privilege.WRITE_DATA, Privilege.READ_SCHEMA: Privilege.WRITE_SCHEMA}


def readable(permissions: Permissions, privilege: Privilege) -> set[tuple[str, ...]]:
    """Return the paths that grants of a privilege, or of the one that includes it, match as patterns."""
    accepted = (privilege, WRITERS.get(privilege))
    own = [as_pattern(grant.target) for _, grant in permissions.grants if grant.privilege in accepted]
    return {path for path in PATHS if any(pattern.matches(path) for pattern in own)}


@given(grants, readers)
def test_a_filter_has_the_paths_that_grants_match(granted: tuple[tuple[str, Grant], ...], privilege: Privilege) -> None:
    permissions = Permissions("vera", granted)
    expected = readable(permissions, privilege)
    paths = permissions.paths(privilege)
    assert {path for path in PATHS if paths.includes(path)} == expected
    for path in PATHS:
        below = {other for other in PATHS if other[: len(path)] == path}
        if below & expected:
            assert paths.touches(path)
        if len(path) < len(PATHS[-1]) and paths.includes_below(path):
            assert below - {path} <= expected


@given(grants, readers, patterns)
def test_a_pattern_is_allowed_only_if_all_its_paths_are(
    granted: tuple[tuple[str, Grant], ...], privilege: Privilege, pattern: PathPattern
) -> None:
    permissions = Permissions("vera", granted)
    matched = {path for path in PATHS if pattern.matches(path)}
    if permissions.allows(privilege, pattern):
        assert matched <= readable(permissions, privilege)
    elif not pattern.has_wildcard:
        assert not matched & readable(permissions, privilege)


@given(patterns, patterns)
def test_patterns_that_match_one_path_overlap(one: PathPattern, other: PathPattern) -> None:
    if any(one.matches(path) and other.matches(path) for path in PATHS):
        assert may_overlap(one.nodes, other.nodes)


@given(grants, targets, st.sampled_from(list(ON_PATHS)))
def test_only_who_has_the_option_may_grant_and_the_administrator(
    granted: tuple[tuple[str, Grant], ...], target: str, privilege: Privilege
) -> None:
    assert not Permissions("vera", granted).may_grant(Grant(privilege, target))
    with_option = tuple((role, Grant(grant.privilege, grant.target, with_option=True)) for role, grant in granted)
    own = [as_pattern(grant.target) for _, grant in granted if grant.privilege is privilege]
    asked = as_pattern(target)
    expected = any(
        grant == asked
        or (
            grant.nodes[-1] == "**"
            and asked.nodes[: len(grant.nodes) - 1] == grant.nodes[:-1]
            and len(asked.nodes) >= len(grant.nodes)
        )
        for grant in own
    )
    assert Permissions("vera", with_option).may_grant(Grant(privilege, target)) == expected
    assert administrator().may_grant(Grant(privilege, target))
