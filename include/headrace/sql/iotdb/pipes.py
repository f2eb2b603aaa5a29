"""The parser of statements about pipes, their plugins, and triggers of the IoTDB language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.model.pipe_plugin_statements import CreatePipePlugin, DropPipePlugin
from headrace.model.pipes import OTHER_NAMES, PipeStage
from headrace.model.tree_statements import AlterPipe, CreatePipe, CreateTrigger, DropPipe, Properties, StageChange, TreeShow
from headrace.model.triggers import TriggerEvent, TriggerType
from headrace.sql.iotdb.show import ShowParser

STAGES: Final[Mapping[str, PipeStage]] = {
    name.upper(): stage for stage in PipeStage for name in dict.fromkeys((stage.value, OTHER_NAMES[stage]))
}
"""The stages by their names in statements, in the order in which statements have them."""
WHAT: Final = "a pipe"
NO_TYPE: Final = "Please specify trigger type: STATELESS or STATEFUL."
NO_DELETE: Final = "Trigger does not support DELETE as TRIGGER_EVENT for now."


class PipeParser(ShowParser):
    """Parses statements about pipes, plugins and triggers. Words such as IF and WITH may also be names of pipes and plugins."""

    def _parse_create_pipe(self) -> CreatePipe:
        """Parse `[IF NOT EXISTS] name`, and stages or the attributes of the sink alone."""
        if_not_exists = self._peek().word == "NOT" and self._parse_not_exists()
        name = self._parse_identifier(WHAT)
        if self._is_at("("):
            return CreatePipe(name, sink=self._parse_stage_attributes(), if_not_exists=if_not_exists)
        stages: dict[PipeStage, Properties] = {}
        while PipeStage.SINK not in stages:
            self._expect("WITH")
            stage = self._parse_stage_after(stages)
            stages[stage] = self._parse_stage_attributes()
        source, processor = (stages.get(stage, ()) for stage in (PipeStage.SOURCE, PipeStage.PROCESSOR))
        return CreatePipe(name, source, processor, stages[PipeStage.SINK], if_not_exists)

    def _parse_alter_pipe(self) -> AlterPipe:
        """Parse `[IF EXISTS] name`, and changes of stages."""
        if_exists = self._accept_exists()
        name = self._parse_identifier(WHAT)
        changes: dict[PipeStage, StageChange] = {}
        while PipeStage.SINK not in changes and (word := self._accept_one("MODIFY", "REPLACE")):
            stage = self._parse_stage_after(changes)
            changes[stage] = StageChange(stage, self._parse_stage_attributes(), replaces=word == "REPLACE")
        return AlterPipe(name, tuple(changes.values()), if_exists)

    def _parse_drop_pipe(self) -> DropPipe:
        """Parse `[IF EXISTS] name`."""
        if_exists = self._accept_exists()
        return DropPipe(self._parse_identifier(WHAT), if_exists)

    def _parse_show_pipes(self) -> TreeShow:
        """Parse `[WHERE SINK|CONNECTOR USED BY name]` after PIPES."""
        if not self._accept("WHERE"):
            return TreeShow("pipes")
        self._expect_one("SINK", "CONNECTOR")
        self._expect("USED", "BY")
        return TreeShow("pipes", where=("sink", "", "used by", self._parse_identifier(WHAT)))

    def _accept_exists(self) -> bool:
        return self._peek().word == "EXISTS" and self._parse_exists()

    def _parse_stage_after(self, earlier: Mapping[PipeStage, object]) -> PipeStage:
        """Parse the name of a stage that comes after those that there are."""
        order = list(PipeStage)
        first = max((order.index(stage) + 1 for stage in earlier), default=0)
        return STAGES[self._expect_one(*(name for name, stage in STAGES.items() if order.index(stage) >= first))]

    def _parse_stage_attributes(self) -> Properties:
        """Parse `('key' = 'value', …)`, which may be empty or end in a comma. A repeated key has the last value."""
        self._expect("(")
        attributes: dict[str, str] = {}
        while not self._is_at(")"):
            key = self._parse_string("a key, as a string")
            self._expect("=")
            attributes[key] = self._parse_string("a value, as a string")
            if not self._accept(","):
                break
        self._expect(")")
        return tuple(attributes.items())

    def _parse_create_pipe_plugin(self, start: int) -> CreatePipePlugin:
        """Parse `[IF NOT EXISTS] name AS 'class' [USING URI 'uri']`; `start` is the index of CREATE."""
        if_not_exists = self._peek().word == "NOT" and self._parse_not_exists()
        name = self._parse_identifier("a plugin")
        class_name, uri = self._parse_class()
        return CreatePipePlugin(name, class_name, uri, if_not_exists, self._span(start))

    def _parse_drop_pipe_plugin(self) -> DropPipePlugin:
        """Parse `[IF EXISTS] name`."""
        if_exists = self._accept_exists()
        return DropPipePlugin(self._parse_identifier("a plugin"), if_exists)

    def _parse_create_trigger(self, start: int) -> CreateTrigger:
        """Parse `name BEFORE|AFTER INSERT ON pattern AS 'class' …`; `start` is the index of CREATE."""
        word = self._tokens[start + 1].word
        name = self._parse_identifier("a trigger")
        moment, what = self._expect_one("BEFORE", "AFTER"), self._expect_one("INSERT", "DELETE")
        self._expect("ON")
        pattern = self._parse_pattern()
        class_name, uri = self._parse_class()
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
