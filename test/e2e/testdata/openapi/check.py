# SPDX-License-Identifier: Apache-2.0
"""Checks documents of OpenAPI: that they are valid, that their patterns are regular
expressions, and that every example and default is a value of its schema. Whether paths
are valid, which takes longest, is only checked for those that do not match an expression.

usage: check.py PATHS-LEFT-OUT FILE...
"""

import json
import re
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import validate


class Checker:
    """Walks one document."""

    def __init__(self, document):
        # One validator for all examples: to make it, the whole document is searched for references.
        self.validator = Draft202012Validator({"components": document["components"]})
        self.faults = []
        self.examples = 0
        self.patterns = 0

    def value(self, value, schema, where):
        """Checks one value; references are looked up in the whole document."""
        for error in self.validator.evolve(schema=schema).iter_errors(value):
            self.faults.append(f"{where}: {value!r}: {error.message}")
        self.examples += 1

    def schema(self, node, where):
        """Checks what a schema holds itself."""
        bare = {k: v for k, v in node.items() if k not in ("example", "examples", "default")}
        values = list(node.get("examples", []))
        values += [node[k] for k in ("example", "default") if k in node]
        for value in values:
            self.value(value, bare, where)
        if "pattern" in node:
            self.patterns += 1
            try:
                re.compile(node["pattern"])
            except re.error as error:
                self.faults.append(f"{where}: pattern {node['pattern']}: {error}")

    def walk(self, node, where, schemas):
        """Visits everything; schemas tells that node holds schemas by name."""
        if isinstance(node, list):
            for i, item in enumerate(node):
                self.walk(item, f"{where}/{i}", False)
            return
        if not isinstance(node, dict):
            return
        if not schemas:
            if isinstance(node.get("schema"), dict) and "example" in node:
                self.value(node["example"], node["schema"], where)
            elif "type" in node or "$ref" in node or "allOf" in node or "anyOf" in node:
                self.schema(node, where)
        for name, item in node.items():
            if name not in ("example", "examples", "default", "enum") or schemas:
                self.walk(item, f"{where}/{name}", name == "properties" and not schemas)


def main():
    """Checks the files and says what is wrong."""
    status = 0
    left_out = re.compile(sys.argv[1])
    for name in sys.argv[2:]:
        with open(name, encoding="utf-8") as f:
            document = json.load(f)
        paths = {k: v for k, v in document["paths"].items() if not left_out.search(k)}
        validate({**document, "paths": paths})
        checker = Checker(document)
        checker.walk({k: document[k] for k in ("paths", "components")}, "", False)
        print(f"{name}: {checker.examples} examples, {checker.patterns} patterns, {len(checker.faults)} faults")
        for fault in checker.faults:
            print(fault)
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
