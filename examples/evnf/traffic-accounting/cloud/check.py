# SPDX-License-Identifier: Apache-2.0
"""Checks chain.yaml with Heat's own code, without a cloud: it parses the template, resolves it with parameters, and validates
the properties of every resource against the schema of its type. What only a cloud knows, such as which networks exist, is
taken as given. The user data that results is printed into a directory, for cloud-init to check.

    check.py TEMPLATE DIRECTORY

Heat is openstack-heat from PyPI."""

import copy
import logging
import os
import re
import sys

import yaml
from heat.common import context, environment_format, template_format
from heat.engine import constraints, environment, resources, stack, template

# Constraints that ask a cloud.
CLOUD = ("neutron.", "nova.", "glance.", "keystone.", "cinder.", "barbican.", "heat.")

PARAMETERS = {
    "network": "net", "client_port": "port1", "client": "10.1.0.1", "server_port": "port2", "server": "10.1.0.2",
    "image": "debian", "key": "admin", "archive": "https://files.example.com/polycube.tar.gz", "sha256": "0" * 64,
}

# What resources would have in a cloud.
ATTRIBUTES = {
    "mac_address": "fa:16:3e:00:00:01",
    "curl_cli": "curl -i -X POST -H 'X-Auth-Token: x' -H 'Content-Type: application/json' -H 'Accept: application/json' https://heat.example.com/signal",
}




def take_clouds_as_given():
    """Replaces the constraints that ask a cloud; all others are those of Heat."""
    validate = constraints.CustomConstraint.validate

    def known(self, value, *args, **kwargs):
        if not self.name.startswith(CLOUD):
            validate(self, value, *args, **kwargs)

    constraints.CustomConstraint.validate = known


def resolve(value, parameters, files):
    """Resolves the functions of a template that chain.yaml uses."""
    if isinstance(value, list):
        return [resolve(v, parameters, files) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        return {k: resolve(v, parameters, files) for k, v in value.items()}
    (name, args), = value.items()
    if name == "get_resource":
        return "id-of-" + args
    if name == "get_attr":
        return ATTRIBUTES[args[1]]
    return {name: resolve(args, parameters, files)}


def check(text, files, parameters=None):
    """Returns the properties of each resource, or raises what Heat says."""
    env = environment.Environment({"parameters": {**PARAMETERS, **(parameters or {})}})
    parsed = template_format.parse(text)
    ctx = context.RequestContext(project_id="project", user_id="user", roles=["member"], is_admin=False)
    # First Heat as it is: sections, references, types, cycles and parameters.
    whole = template.Template(parsed, files=files, env=env)
    whole.validate()
    s = stack.Stack(ctx, "evnf", whole, strict_validate=False, convergence=False)
    s.parameters.validate(validate_value=True, context=ctx)
    s.parameters.set_stack_id(s.identifier())
    s.dependencies.graph()
    # Then with identifiers and attributes of a cloud in place of the resources, so that the values are complete.
    filled = copy.deepcopy(parsed)
    for definition in filled["resources"].values():
        definition["properties"] = resolve(definition.get("properties", {}), parameters, files)
        definition.pop("depends_on", None)
    filled.pop("outputs", None)
    tmpl = template.Template(filled, files=files, env=env)
    full = stack.Stack(ctx, "evnf", tmpl, strict_validate=False, convergence=False)
    out = {}
    for name, definition in tmpl.resource_definitions(full).items():
        kind = tmpl.env.get_class(definition.resource_type, name)
        values = definition.properties(kind.properties_schema, ctx)
        values.validate(with_value=True)
        out[name] = {k: values[k] for k in definition._properties or {}}
    return out


def mistakes(text):
    """Templates with a mistake each, which Heat must refuse: this checks the check."""
    yield "an unknown property", text.replace("egress: {get_resource: firewall_out}", "egres: {get_resource: firewall_out}")
    yield "a missing property", text.replace("      port_pairs:\n      - {get_resource: firewall_pair}\n", "      description: x\n")
    yield "an unknown type", text.replace("OS::Neutron::PortChain", "OS::Neutron::PortChains")
    yield "a protocol that there is not", text.replace("protocol: tcp", "protocol: tpc")
    yield "no prefix", text.replace("[{get_param: client}, /32]", "[{get_param: client}, /33]")
    yield "a resource that there is not", text.replace("- {get_resource: connections}", "- {get_resource: connection}")
    yield "a parameter that there is not", text.replace("{get_param: flavor}", "{get_param: flavour}")
    yield "a word that is not filled in", text.replace('"@in@"', '"@inn@"')


def main():
    path, into = sys.argv[1:]
    logging.disable(logging.WARNING)
    resources.initialise()
    take_clouds_as_given()
    here = os.path.dirname(path)
    text = open(path, encoding="utf-8").read()
    files = {name: open(os.path.join(here, name), encoding="utf-8").read() for name in re.findall(r"get_file: ([^}]+)}", text)}
    checked = check(text, files)
    for what, wrong in mistakes(text):
        assert wrong != text, what
        try:
            check(wrong, files)
        except Exception as err:
            print(f"refused, as it should be: {what}: {str(err).splitlines()[0]}")
        else:
            sys.exit(f"{path}: not found: {what}")
    for name, values in checked.items():
        if "user_data" in values:
            with open(os.path.join(into, name + ".yaml"), "w", encoding="utf-8") as out:
                out.write(values["user_data"])
    print(f"{path}: {len(checked)} resources are valid")


if __name__ == "__main__":
    main()
