# SPDX-License-Identifier: Apache-2.0
"""Stubs of the protocol, which setup.py makes."""
