"""The parser of CREATE TRIGGER of the IoTDB language."""

from __future__ import annotations

from typing import Final

from headrace.model.tree_statements import CreateTrigger, Properties
from headrace.model.triggers import TriggerEvent, TriggerType
from headrace.sql.iotdb.show import ShowParser

NO_TYPE: Final = "Please specify trigger type: STATELESS or STATEFUL."
NO_DELETE: Final = "Trigger does not support DELETE as TRIGGER_EVENT for now."


class TriggerParser(ShowParser):
    """Parses the creation of triggers."""

    def _parse_create_trigger(self, start: int) -> CreateTrigger:
        """Parse `name BEFORE|AFTER INSERT ON pattern AS 'class' …`; `start` is the index of CREATE."""
        word = self._tokens[start + 1].word
        name = self._parse_identifier("a trigger")
        moment, what = self._expect_one("BEFORE", "AFTER"), self._expect_one("INSERT", "DELETE")
        self._expect("ON")
        pattern = self._parse_pattern()
        self._expect("AS")
        class_name = self._parse_string("a class, as a string")
        uri = self._parse_string("a URI, as a string") if self._accept("USING", "URI") else None
        attributes = self._parse_attributes()
        if word == "TRIGGER":
            self._semantic(NO_TYPE, self._span(start), hint="write CREATE STATELESS TRIGGER or CREATE STATEFUL TRIGGER")
        if what == "DELETE":
            self._semantic(NO_DELETE, self._span(start), hint="write BEFORE INSERT or AFTER INSERT")
        event = TriggerEvent(f"{moment}_{what}")
        return CreateTrigger(name, TriggerType(word), event, pattern, class_name, uri, attributes, self._span(start))

    def _parse_attributes(self) -> Properties:
        """Parse `[WITH (key = value, …)]`."""
        return self._parse_items(self._parse_property) if self._accept("WITH") else ()
